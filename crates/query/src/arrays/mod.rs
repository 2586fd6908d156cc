//! Helpers over Arrow's arrays that DataFusion and Arrow do not have.

pub(crate) mod dictionaries;
pub(crate) mod gather;
pub(crate) mod pinned;

use datafusion::arrow::array::{Array, ArrayRef};
use std::sync::Arc;

/// Whether two arrays are the same memory.
pub(crate) fn same_array(a: &ArrayRef, b: &ArrayRef) -> bool {
    Arc::ptr_eq(a, b) || a.to_data().ptr_eq(&b.to_data())
}

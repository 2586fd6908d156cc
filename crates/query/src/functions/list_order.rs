//! `__list_order(a, b)`: -1, 0 or 1 as an array is before, with or after another, for `<`, `<=`, `>` and `>=` of arrays.
//!
//! Element by element, a NULL after everything else and the shorter one first, as DuckDB and PostgreSQL have it, and as
//! ORDER BY sorts. DataFusion 55.2 compares with NULLs before everything else.

use crate::wanted;
use datafusion::arrow::array::{Array, ArrayRef, Int8Array, make_comparator};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::common::utils::take_function_args;
use datafusion::error::Result;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

static LIST_ORDER: LazyLock<ScalarUDF> = LazyLock::new(|| {
    ScalarUDF::from(ListOrder { signature: Signature::user_defined(Volatility::Immutable) })
});

/// The order of two arrays.
pub(crate) fn list_order(left: Expr, right: Expr) -> Expr {
    LIST_ORDER.call(vec![left, right])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListOrder {
    signature: Signature,
}

impl ScalarUDFImpl for ListOrder {
    fn name(&self) -> &str {
        "__list_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return plan_err!("two arrays are compared") };
        match comparison_coercion(left, right) {
            Some(both) => Ok(vec![both.clone(), both]),
            None => plan_err!("{left} and {right} cannot be compared"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        wanted::look()?;
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right]: [ArrayRef; 2] = take_function_args(self.name(), arrays)?;
        let order = make_comparator(&left, &right, SortOptions { descending: false, nulls_first: false })?;
        let rows = left.len().min(right.len());
        let of_row = |row: usize| (left.is_valid(row) && right.is_valid(row)).then(|| order(row, row) as i8);
        Ok(ColumnarValue::Array(Arc::new((0..rows).map(of_row).collect::<Int8Array>())))
    }
}

//! The scaffold of expressions that stand in the place of another: they are shown, compared and typed as it is, and
//! only worked out in another way.

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// What is such an expression's own; [`in_place!`] writes the rest.
pub(super) trait InPlace: PhysicalExpr + Sized {
    /// The expression in whose place it stands.
    fn original(&self) -> &Arc<dyn PhysicalExpr>;

    /// Its values.
    fn work_out(&self, batch: &RecordBatch) -> Result<ColumnarValue>;

    /// The expressions below it.
    fn below(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![self.original()]
    }

    /// What becomes of it over other expressions, as many as are below it.
    fn over(&self, below: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>>;
}

/// Makes an expression of a plan of one that is [`InPlace`] of another.
macro_rules! in_place {
    ($expr:ty) => {
        const _: () = {
            use datafusion::arrow::array::RecordBatch;
            use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
            use datafusion::common::Result;
            use datafusion::logical_expr::ColumnarValue;
            use datafusion::physical_expr::PhysicalExpr;
            use std::fmt;
            use std::hash::{Hash, Hasher};
            use std::sync::Arc;
            use $crate::operators::expr::InPlace;

            // Not derived, which would move the expression: https://github.com/rust-lang/rust/issues/78808
            impl PartialEq for $expr {
                fn eq(&self, other: &Self) -> bool {
                    self.original().eq(other.original())
                }
            }

            impl Eq for $expr {}

            impl Hash for $expr {
                fn hash<H: Hasher>(&self, state: &mut H) {
                    self.original().hash(state);
                }
            }

            impl fmt::Display for $expr {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Display::fmt(self.original(), f)
                }
            }

            impl PhysicalExpr for $expr {
                fn data_type(&self, schema: &Schema) -> Result<DataType> {
                    self.original().data_type(schema)
                }

                fn nullable(&self, schema: &Schema) -> Result<bool> {
                    self.original().nullable(schema)
                }

                fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
                    self.original().return_field(schema)
                }

                fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
                    self.work_out(batch)
                }

                fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
                    self.below()
                }

                fn with_new_children(
                    self: Arc<Self>,
                    children: Vec<Arc<dyn PhysicalExpr>>,
                ) -> Result<Arc<dyn PhysicalExpr>> {
                    self.over(children)
                }

                fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.original().fmt_sql(f)
                }
            }
        };
    };
}

pub(super) use in_place;

//! `generate_series` and `range` with whole numbers of any width, which DataFusion takes only as BIGINT.

use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::Expr;
use std::fmt::Debug;
use std::sync::Arc;

/// DataFusion's table functions, their numbers widened.
pub(crate) fn table_functions() -> Vec<Arc<TableFunction>> {
    let widened = |function: Arc<TableFunction>| {
        let name = function.name().to_string();
        Arc::new(TableFunction::new(name, Arc::new(Widened(function))))
    };
    SessionStateDefaults::default_table_functions().into_iter().map(widened).collect()
}

#[derive(Debug)]
struct Widened(Arc<TableFunction>);

impl TableFunctionImpl for Widened {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs: Vec<Expr> = args.exprs().iter().map(widened).collect();
        self.0.function().call_with_args(TableFunctionArgs::new(&exprs, args.session()))
    }
}

fn widened(expr: &Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) if value.data_type().is_integer() => {
            let wide = value.cast_to(&datafusion::arrow::datatypes::DataType::Int64);
            Expr::Literal(wide.unwrap_or_else(|_| ScalarValue::clone(value)), metadata.clone())
        }
        other => other.clone(),
    }
}

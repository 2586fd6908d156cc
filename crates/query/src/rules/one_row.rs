//! A scalar sub-query that reads the query around it and may find several rows: `SELECT ts, (SELECT name FROM symbols s
//! WHERE s.id = t.id) FROM t`.
//!
//! DataFusion 55.2 takes one that is an aggregate alone. The rule makes one of it: how many rows there are and a value of
//! one of them, which are looked at once they stand beside a row of the query around. More than one row is an error there,
//! as in PostgreSQL and DuckDB; rows for values that the query around does not have are none.

use super::dependent::{is_one_at_most, reads_around};
use crate::error::SEVERAL_ROWS;
use crate::named::{change_named, has};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::{is_null, nullif};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, exec_err, internal_err};
use datafusion::error::Result;
use datafusion::functions::core::named_struct;
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::{Arc, LazyLock};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct OneRow;

impl AnalyzerRule for OneRow {
    fn name(&self) -> &str {
        "one_row"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| {
            if !has(&plan, |expr| matches!(expr, Expr::ScalarSubquery(_)))? {
                return Ok(Transformed::no(plan));
            }
            let own = merge_schema(&plan.inputs());
            change_named(plan, |expr| expr.transform_up(|expr| one_row(expr, &own)))
        })?;
        Ok(changed.data)
    }
}

/// `own` has the columns of the query around.
fn one_row(expr: Expr, own: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(of) = &expr else { return Ok(Transformed::no(expr)) };
    let columns = of.subquery.schema().columns();
    let ([column], true) = (columns.as_slice(), reads_around(&of.subquery)?) else {
        return Ok(Transformed::no(expr));
    };
    let Some(outer) = own_column(of, own).filter(|_| !is_one_at_most(&of.subquery)) else {
        return Ok(Transformed::no(expr));
    };
    let value = first_value_udaf().call(vec![Expr::Column(column.clone())]).alias(VALUE);
    let found = LogicalPlanBuilder::from(of.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), [count_all().alias(ROWS), value])?
        .project([named_struct().call(vec![
            lit(ROWS),
            Expr::Column(Column::new_unqualified(ROWS)),
            lit(VALUE),
            Expr::Column(Column::new_unqualified(VALUE)),
        ])])?
        .build()?;
    let outer_ref_columns = found.all_out_ref_exprs();
    let found = Subquery { subquery: Arc::new(found), outer_ref_columns, spans: of.spans.clone() };
    Ok(Transformed::yes(ONE_ROW.call(vec![Expr::ScalarSubquery(found), outer])))
}

/// A column of the query around that a sub-query reads. With it beside, what the sub-query found is looked at above the
/// join with that query, and not below.
fn own_column(of: &Subquery, own: &DFSchema) -> Option<Expr> {
    of.subquery.all_out_ref_exprs().into_iter().find_map(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) if own.maybe_index_of_column(&column).is_some() => {
            Some(Expr::Column(column))
        }
        _ => None,
    })
}

const ROWS: &str = "__rows";
const VALUE: &str = "__value";

static ONE_ROW: LazyLock<ScalarUDF> = LazyLock::new(|| ScalarUDF::from(TheOneRow::new()));

/// The value of a struct of a number of rows and a value, where there is no more than one row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TheOneRow {
    signature: Signature,
}

impl TheOneRow {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TheOneRow {
    fn name(&self) -> &str {
        "__one_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("the type of __one_row is that of a field of its argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(DataType::Struct(fields)) = args.arg_fields.first().map(|field| field.data_type()) else {
            return internal_err!("__one_row takes a struct");
        };
        let Some(value) = fields.get(1) else { return internal_err!("__one_row takes a struct of two") };
        Ok(Arc::new(Field::new(self.name(), value.data_type().clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(found) = args.args.into_iter().next() else { return internal_err!("__one_row takes two") };
        let found = found.into_array(args.number_rows)?;
        let found = found.as_struct();
        let rows = found.column(0).as_primitive::<Int64Type>();
        if (0..found.len()).any(|at| found.is_valid(at) && rows.is_valid(at) && rows.value(at) > 1) {
            return exec_err!("{SEVERAL_ROWS}");
        }
        let value = found.column(1);
        Ok(ColumnarValue::Array(nullif(value, &is_null(found)?)?))
    }
}

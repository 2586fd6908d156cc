//! `EXCEPT ALL` and `INTERSECT ALL` as SQL has them: of a row that is m times on the left and n times on the right,
//! EXCEPT ALL leaves max(m - n, 0) and INTERSECT ALL min(m, n).
//!
//! DataFusion plans both as the anti and the semi join of all columns, which leaves none or all of the m rows. The rule
//! numbers equal rows on either side and joins by the number too: the k-th of equal rows on the left meets the k-th on
//! the right. NULLs are equal here, as for the numbering and for the join.
//!
//! It runs before types are made to agree, where no other join has equal NULLs: `IS NOT DISTINCT FROM` becomes one later.

use crate::functions::row_number;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// The numbers of equal rows, left and right.
const PLACES: [&str; 2] = ["__left_place", "__right_place"];

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Multisets;

impl AnalyzerRule for Multisets {
    fn name(&self) -> &str {
        "multisets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if is_multiset(&join) => Ok(Transformed::yes(by_place(join)?)),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(changed.data)
    }
}

/// Whether this is EXCEPT ALL or INTERSECT ALL. Of rows that are distinct one is left or none: the join is right.
fn is_multiset(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
        && !join.left.schema().has_column_with_unqualified_name(PLACES[0])
}

fn by_place(join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = join.on.into_iter().unzip();
    let left = numbered(Arc::unwrap_or_clone(join.left), &left_keys, PLACES[0])?;
    let right = numbered(Arc::unwrap_or_clone(join.right), &right_keys, PLACES[1])?;
    let place = PLACES.map(|place| Expr::Column(Column::from_name(place)));
    let on = left_keys.into_iter().zip(right_keys).chain([place.into()]).collect();
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        None,
        join.join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNull,
        false,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()
}

/// The rows with their number among those of equal keys.
fn numbered(plan: LogicalPlan, keys: &[Expr], place: &str) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().call(Vec::new()).partition_by(keys.to_vec()).build()?;
    let found = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let columns = columns.into_iter().chain([found.alias(place)]);
    LogicalPlanBuilder::from(plan).window([number])?.project(columns)?.build()
}

//! ASOF JOINs that keep other rows than the left ones with their right rows, as plans over joins that do:
//!
//! - SEMI: the left rows of an inner join, without the right columns;
//! - ANTI: the left rows that found nothing;
//! - RIGHT: an inner join, then the right rows that stood for no left row; FULL: the same with all left rows.
//!
//! A right row stands for no left row if the first left row that comes after it comes when the next right row of its
//! key stands already (looking forward: the last one before it, when the one before did). Which of the right rows of one
//! time is the last must be the same there as in the join, which goes by their arrival: where rows are not read series by
//! series they are numbered in order of time for that, since a sort by key and time may put them in any order.

use super::node::{AsOfJoin, AsOfOptions};
use crate::dialect::marker::{AsOfKind, Direction};
use crate::functions::row_number;
use crate::operators::joins::node::Pairing;
use crate::operators::late::rule::table_of;
use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Extension, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition, lit,
};
use std::sync::Arc;

/// Columns that only these plans see.
const FOUND: &str = "__asof_found";
const NEIGHBOUR: &str = "__asof_neighbour";
const ARRIVAL: &str = "__asof_arrival";

/// The parts of a join, whatever it keeps.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) pairing: Pairing,
    pub(super) options: AsOfOptions,
    /// Whether windows go series by series where they can.
    pub(super) by_series: bool,
}

impl Parts {
    /// The plan of a join of some kind.
    pub(super) fn plan(self, kind: AsOfKind) -> Result<LogicalPlan> {
        match kind {
            AsOfKind::Left | AsOfKind::Lt | AsOfKind::Inner => self.join(),
            AsOfKind::Semi => {
                let left = columns(&self.pairing.left);
                LogicalPlanBuilder::from(self.join()?).project(left)?.build()
            }
            AsOfKind::Anti => self.without_match(),
            AsOfKind::Right | AsOfKind::Full => self.with_right_rows(),
        }
    }

    fn join(self) -> Result<LogicalPlan> {
        let join = AsOfJoin::try_new(self.pairing, self.options)?;
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(join) }))
    }

    /// The left rows that find no right row.
    fn without_match(mut self) -> Result<LogicalPlan> {
        let left = columns(&self.pairing.left);
        let mut right = columns(&self.pairing.right);
        right.push(lit(true).alias(FOUND));
        self.pairing.right = LogicalPlanBuilder::from(self.pairing.right).project(right)?.build()?;
        let found = Expr::Column(Column::new_unqualified(FOUND));
        LogicalPlanBuilder::from(self.join()?).filter(found.is_null())?.project(left)?.build()
    }

    /// The rows of the join, then the right rows that are in none of them.
    fn with_right_rows(self) -> Result<LogicalPlan> {
        let unmatched = self.clone().right_rows_without_match()?;
        let (keys, merged) = (self.pairing.keys.clone(), self.pairing.merged.clone());
        // A key that both sides have is the right row's.
        let is_merged = |(left, right): &(Expr, Expr), column: &Column| match (left, right) {
            (Expr::Column(left), Expr::Column(right)) => left == column && merged.contains(right),
            _ => false,
        };
        let types: Vec<_> =
            self.pairing.left.schema().fields().iter().map(|f| f.data_type().clone()).collect();
        let joined = self.join()?;
        let all: Vec<(Option<TableReference>, String)> = names(&joined);
        let numbered = |at: usize| format!("c{at}");
        // Both have the same columns under names that nobody else has.
        let of_joined =
            columns(&joined).into_iter().enumerate().map(|(at, column)| column.alias(numbered(at)));
        let of_unmatched = all.iter().enumerate().map(|(at, (relation, name))| {
            let column = Column::new(relation.clone(), name);
            let value = match types.get(at) {
                // A key that both sides have is the right row's.
                Some(data_type) => match keys.iter().find(|key| is_merged(key, &column)) {
                    Some((_, right)) => right.clone(),
                    None => lit(ScalarValue::try_from(data_type)?),
                },
                None => Expr::Column(column),
            };
            Ok(value.alias(numbered(at)))
        });
        let of_unmatched = of_unmatched.collect::<Result<Vec<Expr>>>()?;
        let unmatched = LogicalPlanBuilder::from(unmatched).project(of_unmatched)?.build()?;
        let joined = LogicalPlanBuilder::from(joined).project(of_joined)?;
        let named = all.into_iter().enumerate().map(|(at, (relation, name))| {
            Expr::Column(Column::new_unqualified(numbered(at))).alias_qualified(relation, name)
        });
        joined.union(unmatched)?.project(named)?.build()
    }

    /// The right rows that stand for no left row.
    fn right_rows_without_match(self) -> Result<LogicalPlan> {
        let Self { pairing: Pairing { left, mut right, times, keys, .. }, options, by_series } = self;
        let right_columns = columns(&right);
        let mut order = vec![Sort::new(times.1.clone(), true, false)];
        if !by_series || !is_of_whole_series(&right, &keys, &times.1) {
            let number = WindowFunctionDefinition::WindowUDF(row_number());
            let number =
                Expr::from(WindowFunction::new(number, Vec::new())).order_by(order.clone()).build()?;
            let name = number.schema_name().to_string();
            let mut numbered = right_columns.clone();
            numbered.push(Expr::Column(Column::new_unqualified(name)).alias(ARRIVAL));
            right = LogicalPlanBuilder::from(right).window(vec![number])?.project(numbered)?.build()?;
            order.push(Sort::new(Expr::Column(Column::new_unqualified(ARRIVAL)), true, false));
        }
        let backward = options.direction != Direction::Forward;
        let (neighbour, direction) = match backward {
            true => (lead_udwf(), Direction::Forward),
            false => (lag_udwf(), Direction::Backward),
        };
        let of_key = keys.iter().map(|(_, right)| right.clone());
        let of_key: Vec<Expr> = of_key.filter(|key| !matches!(key, Expr::Literal(..))).collect();
        let function = WindowFunctionDefinition::WindowUDF(neighbour);
        let neighbour: Expr = Expr::from(WindowFunction::new(function, vec![times.1.clone()]))
            .partition_by(of_key)
            .order_by(order)
            .build()?;
        let mut with_neighbour = right_columns.clone();
        let name = neighbour.schema_name().to_string();
        let window = LogicalPlanBuilder::from(right).window(vec![neighbour])?;
        with_neighbour.push(Expr::Column(Column::new_unqualified(name)).alias(NEIGHBOUR));
        let right = window.project(with_neighbour)?.build()?;
        let mut left_columns = columns(&left);
        left_columns.push(times.0.clone().alias(FOUND));
        let left = LogicalPlanBuilder::from(left).project(left_columns)?.build()?;
        let found = Expr::Column(Column::new_unqualified(FOUND));
        let neighbour = Expr::Column(Column::new_unqualified(NEIGHBOUR));
        let is_past = match (backward, options.strict) {
            (true, false) => found.clone().gt_eq(neighbour),
            (true, true) => found.clone().gt(neighbour),
            (false, false) => found.clone().lt_eq(neighbour),
            (false, true) => found.clone().lt(neighbour),
        };
        let pairing = Pairing {
            left: right,
            right: left,
            times: (times.1, times.0),
            keys: keys.into_iter().map(|(left, right)| (right, left)).collect(),
            merged: Vec::new(),
        };
        let swapped =
            Self { pairing, options: AsOfOptions { inner: false, direction, ..options }, by_series };
        let rows = LogicalPlanBuilder::from(swapped.join()?);
        rows.filter(found.is_null().or(is_past))?.project(right_columns)?.build()
    }
}

/// Whether keys hold the series key of the table that a right side is, and the time is its own, so that its rows of one
/// key are read as they arrived.
fn is_of_whole_series(right: &LogicalPlan, keys: &[(Expr, Expr)], time: &Expr) -> bool {
    match right {
        LogicalPlan::SubqueryAlias(alias) => is_of_whole_series(&alias.input, keys, time),
        LogicalPlan::Filter(filter) => is_of_whole_series(&filter.input, keys, time),
        LogicalPlan::TableScan(scan) => table_of(scan).is_some_and(|table| {
            let schema = table.table().schema();
            let is_key = |column: &usize| {
                let name = &schema.columns()[*column].name;
                keys.iter().any(|(_, right)| matches!(right, Expr::Column(right) if right.name == *name))
            };
            let is_time =
                |column: usize| matches!(time, Expr::Column(of) if of.name == *schema.columns()[column].name);
            let series = schema.series();
            !series.is_empty() && series.iter().all(is_key) && schema.timestamp().is_some_and(is_time)
        }),
        _ => false,
    }
}

/// All columns of a plan.
fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

fn names(plan: &LogicalPlan) -> Vec<(Option<TableReference>, String)> {
    plan.schema().iter().map(|(relation, field)| (relation.cloned(), field.name().clone())).collect()
}

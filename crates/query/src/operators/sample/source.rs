//! The scan below an operator: what its rows are grouped by, as columns of the table.

use super::calendar::step_of;
use super::kernel::{column, keeps_ends};
use crate::operators::below::Below;
use crate::scan::ScanExec;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::LoweredAggregate;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema};

/// A scan, and what is computed of its columns before an operator sees them: in one step, so that nothing is worked out
/// again for each that reads it.
pub(crate) struct Source<'a> {
    pub(super) scan: &'a ScanExec,
    below: Below<'a>,
}

impl<'a> Source<'a> {
    /// The scan an input is, with one projection above it at most.
    pub(crate) fn of(input: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let input = input.downcast_ref::<CooperativeExec>().map_or(input, CooperativeExec::input);
        let below = Below::of(input).filter(|below| below.is_unfiltered() && below.layers.len() <= 1)?;
        Some(Self { scan: below.scan, below })
    }

    /// Whether rows are wanted in no other order than they lie in, and all that fulfil a condition.
    pub(super) fn is_as_it_lies(&self) -> bool {
        self.below.is_as_it_lies()
    }

    /// Whether which rows there are is known from their values only.
    pub(super) fn has_condition(&self) -> bool {
        self.scan.has_condition()
    }

    /// The least designated timestamp of its rows.
    pub(super) fn first_time(&self) -> tickstone_engine::Result<Option<i64>> {
        self.scan.selected().first_time()
    }

    /// On how many cores its rows are to be read.
    pub(super) fn outputs(&self) -> usize {
        self.scan.outputs()
    }

    /// An expression over what the scan yields.
    pub(super) fn resolve(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        self.below.resolve(expr)
    }

    /// The column of the table that an expression is.
    pub(super) fn table_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        self.below.table_column(expr)
    }

    fn schema(&self) -> &TableSchema {
        self.scan.selected().table.schema()
    }

    fn is_timestamp(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.schema().timestamp().is_some() && self.table_column(expr) == self.schema().timestamp()
    }

    /// Whether a key is a column of symbols.
    pub(crate) fn is_symbol(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.table_column(expr).is_some_and(|column| self.scan.selected().table.dictionary(column).is_some())
    }

    /// Whether a key is made of the time, of symbols and of booleans, and has few values: an hour, a date, whether a flag
    /// is set.
    fn is_of_few_values(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        let Ok(expr) = self.resolve(expr) else { return false };
        let table = self.scan.selected().table.as_ref();
        let schema = table.schema();
        let columns = collect_columns(&expr);
        let is_small = |column: &Column| {
            self.scan.projection().get(column.index()).is_some_and(|&column| {
                let of = schema.columns().get(column).map(|of| of.column_type);
                schema.timestamp() == Some(column)
                    || table.dictionary(column).is_some()
                    || of == Some(ColumnType::Boolean)
            })
        };
        let few = matches!(
            expr.data_type(&self.scan.schema()),
            Ok(DataType::Boolean
                | DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::UInt8
                | DataType::UInt16
                | DataType::UInt32
                | DataType::Date32
                | DataType::Utf8
                | DataType::Dictionary(..))
        );
        few && !columns.is_empty() && columns.iter().all(is_small) && !is_volatile(&expr)
    }

    /// The step of time between whose edges a key has one value, where it hangs on nothing but the designated timestamp:
    /// see [`step_of`].
    pub(super) fn calendar_step(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
        let time = self.schema().timestamp()?;
        let expr = self.resolve(expr).ok()?;
        step_of(&expr, &|of| {
            column(of).and_then(|place| self.scan.projection().get(place)).is_some_and(|of| *of == time)
        })
    }

    pub(super) fn is_of_series(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.table_column(expr).is_some_and(|column| self.schema().series().contains(&column))
    }

    /// Whether rows grouped by these can be reduced by ranges: by symbols, or what has few values.
    pub(super) fn has_ranges(
        &self,
        time: Option<&Arc<dyn PhysicalExpr>>,
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> bool {
        let by_calendar = |key| time.is_none() && self.calendar_step(key).is_some();
        let is_key = |key| self.is_symbol(key) || self.is_of_few_values(key) || by_calendar(key);
        time.is_none_or(|time| self.is_timestamp(time)) && keys.iter().all(is_key)
    }

    /// Whether an aggregate is first or last by the designated timestamp, over values that are kept.
    pub(super) fn takes_ends(&self, lowered: &LoweredAggregate, input: &Schema) -> bool {
        let LoweredAggregate { aggregate, filter, order_bys } = lowered;
        let plain = !aggregate.is_distinct() && !aggregate.ignore_nulls() && order_bys.is_empty();
        let named = matches!(aggregate.fun().name(), "first" | "last");
        let arguments = aggregate.expressions();
        let [value, time] = arguments.as_slice() else { return false };
        let held = value.data_type(input).is_ok_and(|of| keeps_ends(&of));
        plain && filter.is_none() && named && held && self.is_timestamp(time)
    }
}

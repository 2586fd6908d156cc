//! The logical node of WINDOW, HORIZON and SPLICE JOIN.

use crate::designated::TIMESTAMP_KEY;
use crate::operators::asof::node::{looked_up, output_columns};
use crate::operators::columns_of;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The rows around a left row's time that are aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Window {
    /// From so many nanoseconds after the left row's time (negative: before it), inside.
    pub(crate) low: i64,
    /// To so many, inside; not below `low`.
    pub(crate) high: i64,
    /// Whether the last row at or before its start is in it.
    pub(crate) prevailing: bool,
}

/// Which of the joins it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Window(Window),
    /// At these offsets from each left row's time, ns; at least one.
    Horizon {
        offsets: Arc<[i64]>,
        alias: String,
    },
    Splice,
}

impl Kind {
    /// The least and the greatest distance, ns, of a right row's time from a left row's that it is looked for
    /// at; the prevailing one before them not counted.
    pub(crate) fn reach(&self) -> (i64, i64) {
        match self {
            Kind::Window(window) => (window.low, window.high),
            Kind::Horizon { offsets, .. } => {
                let ends = (offsets.iter().min(), offsets.iter().max());
                (ends.0.copied().unwrap_or(0), ends.1.copied().unwrap_or(0))
            }
            Kind::Splice => (0, 0),
        }
    }

    /// How many rows come of one left row.
    pub(crate) fn rows_per_left(&self) -> usize {
        match self {
            Kind::Horizon { offsets, .. } => offsets.len(),
            Kind::Window(_) | Kind::Splice => 1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Window(Window { low, high, prevailing }) => {
                let word = if *prevailing { "INCLUDE" } else { "EXCLUDE" };
                write!(f, "window {low}ns to {high}ns, {word} PREVAILING")
            }
            Kind::Horizon { offsets, .. } => write!(f, "horizon of {} offsets", offsets.len()),
            Kind::Splice => f.write_str("splice"),
        }
    }
}

/// See the folder's root for what it means.
///
/// Output: of a window the left columns and the aggregates; of a horizon the left columns, the right ones,
/// `alias.offset` and `alias.timestamp`; of a splice the left columns and the right ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeriesJoin {
    pub(crate) left: LogicalPlan,
    pub(crate) right: LogicalPlan,
    /// `Timestamp(ns)` of each side.
    pub(crate) times: (Expr, Expr),
    /// Equal pairs of left and right expressions.
    pub(crate) keys: Vec<(Expr, Expr)>,
    pub(crate) kind: Kind,
    /// Right columns that the output leaves out, since the left side has them.
    pub(crate) merged: Vec<Column>,
    /// Of a window, over the columns of both sides. `None` while the SELECT around it is planned: the output
    /// is then the columns of both sides.
    pub(crate) aggregates: Option<Vec<Expr>>,
    schema: DFSchemaRef,
}

impl SeriesJoin {
    pub(crate) fn try_new(
        (left, right): (LogicalPlan, LogicalPlan),
        times: (Expr, Expr),
        keys: Vec<(Expr, Expr)>,
        kind: Kind,
        merged: Vec<Column>,
        aggregates: Option<Vec<Expr>>,
    ) -> Result<Self> {
        let fields = match (&kind, &aggregates) {
            (Kind::Window(_), Some(aggregates)) => {
                let pairs = pairs(&left, &right, &merged)?;
                let mut fields = left_fields(&left);
                for aggregate in aggregates {
                    fields.push(aggregate.to_field(&pairs)?);
                }
                fields
            }
            (Kind::Window(_), None) => both_fields(&left, &right, &merged),
            (Kind::Horizon { alias, .. }, _) => {
                let mut fields = both_fields(&left, &right, &merged);
                let alias = || Some(TableReference::bare(alias.clone()));
                let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
                fields.push((alias(), Arc::new(Field::new("offset", DataType::Int64, false))));
                fields.push((alias(), Arc::new(Field::new("timestamp", time, true))));
                fields
            }
            (Kind::Splice, _) => {
                let mut fields = both_fields(&left, &right, &merged);
                for (_, field) in &mut fields {
                    *field = Arc::new(looked_up(field, false));
                }
                fields
            }
        };
        let metadata = left.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        Ok(Self { left, right, times, keys, kind, merged, aggregates, schema })
    }

    /// Indices of the right columns that the output has, or aggregates may read.
    pub(crate) fn right_columns(&self) -> Vec<usize> {
        output_columns(&self.right, &self.merged)
    }

    /// The columns that aggregates may read: the left ones, then the right ones.
    pub(crate) fn pairs(&self) -> Result<DFSchema> {
        pairs(&self.left, &self.right, &self.merged)
    }

    /// The right side's time, where it is a plain column: what `first` and `last` go by.
    pub(crate) fn right_time(&self) -> Option<Column> {
        match &self.times.1 {
            Expr::Column(column) => Some(column.clone()),
            _ => None,
        }
    }
}

fn left_fields(left: &LogicalPlan) -> Vec<(Option<TableReference>, FieldRef)> {
    left.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect()
}

fn both_fields(
    left: &LogicalPlan,
    right: &LogicalPlan,
    merged: &[Column],
) -> Vec<(Option<TableReference>, FieldRef)> {
    let mut fields = left_fields(left);
    for index in output_columns(right, merged) {
        let (qualifier, field) = right.schema().qualified_field(index);
        fields.push((qualifier.cloned(), Arc::new(looked_up(field, false))));
    }
    fields
}

/// The columns of both sides.
fn pairs(left: &LogicalPlan, right: &LogicalPlan, merged: &[Column]) -> Result<DFSchema> {
    let mut fields = both_fields(left, right, merged);
    // `first` and `last` go by the right side's time.
    for (_, field) in &mut fields {
        if field.metadata().contains_key(TIMESTAMP_KEY) {
            let mut metadata = field.metadata().clone();
            metadata.remove(TIMESTAMP_KEY);
            *field = Arc::new(field.as_ref().clone().with_metadata(metadata));
        }
    }
    DFSchema::new_with_metadata(fields, left.schema().metadata().clone())
}

impl PartialOrd for SeriesJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for SeriesJoin {
    fn name(&self) -> &str {
        "SeriesJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let mut exprs = vec![self.times.0.clone(), self.times.1.clone()];
        exprs.extend(self.keys.iter().flat_map(|(left, right)| [left.clone(), right.clone()]));
        exprs.extend(self.aggregates.iter().flatten().cloned());
        exprs
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeriesJoin: {}, {} {}, on=[", self.kind, self.times.0, self.times.1)?;
        for (index, (left, right)) in self.keys.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{left} = {right}")?;
        }
        f.write_str("], aggregates=[")?;
        crate::operators::sample::node::write_list(f, self.aggregates.as_deref().unwrap_or(&[]))?;
        f.write_str("]")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let mut next = |old: &Expr| exprs.next().map_or_else(|| old.clone(), Expr::unalias);
        let times = (next(&self.times.0), next(&self.times.1));
        let keys = self.keys.iter().map(|(left, right)| (next(left), next(right))).collect();
        let aggregates = self.aggregates.is_some().then(|| exprs.collect());
        let mut inputs = inputs.into_iter();
        let left = inputs.next().unwrap_or_else(|| self.left.clone());
        let right = inputs.next().unwrap_or_else(|| self.right.clone());
        Self::try_new((left, right), times, keys, self.kind.clone(), self.merged.clone(), aggregates)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let (mut left_exprs, mut right_exprs): (Vec<Expr>, Vec<Expr>) =
            std::iter::once(&self.times).chain(&self.keys).cloned().unzip();
        for aggregate in self.aggregates.iter().flatten() {
            left_exprs.push(aggregate.clone());
            right_exprs.push(aggregate.clone());
        }
        let mut left = columns_of(&left_exprs, self.left.schema());
        let mut right = columns_of(&right_exprs, self.right.schema());
        let left_width = self.left.schema().fields().len();
        let shown = self.right_columns();
        for &column in output_columns {
            match column.checked_sub(left_width) {
                None => left.push(column),
                Some(at) if self.aggregates.is_none() => right.extend(shown.get(at)),
                Some(_) => {}
            }
        }
        for side in [&mut left, &mut right] {
            side.sort_unstable();
            side.dedup();
        }
        Some(vec![left, right])
    }
}

//! The logical node of ASOF JOIN.

use crate::designated::TIMESTAMP_KEY;
use crate::dialect::marker::Direction;
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::{Column, DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Which right rows match, but for keys and times themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AsOfOptions {
    /// Whether left rows without a match are dropped.
    pub(crate) inner: bool,
    /// Which way from the left time the right row is looked for.
    pub(crate) direction: Direction,
    /// Whether equal times do not match; not with [`Direction::Nearest`].
    pub(crate) strict: bool,
    /// The most the times may be apart, ns, inclusive.
    pub(crate) tolerance: Option<i64>,
}

impl AsOfOptions {
    /// Whether two times are near enough.
    pub(crate) fn tolerates(&self, a: i64, b: i64) -> bool {
        self.tolerance.is_none_or(|most| a.abs_diff(b) <= most.unsigned_abs())
    }

    /// How the left time compares with the right one.
    pub(crate) fn sign(&self) -> &'static str {
        match (self.direction, self.strict) {
            (Direction::Backward, false) => ">=",
            (Direction::Backward, true) => ">",
            (Direction::Forward, false) => "<=",
            (Direction::Forward, true) => "<",
            (Direction::Nearest, _) => "nearest",
        }
    }
}

/// See the folder's root for what it means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AsOfJoin {
    /// The side whose rows are kept.
    pub(crate) left: LogicalPlan,
    /// The side that is looked up.
    pub(crate) right: LogicalPlan,
    /// `Timestamp(ns)` of each side.
    pub(crate) times: (Expr, Expr),
    /// Equal pairs of left and right expressions.
    pub(crate) keys: Vec<(Expr, Expr)>,
    pub(crate) options: AsOfOptions,
    /// Right columns that the output leaves out, since the left side has them.
    pub(crate) merged: Vec<Column>,
    schema: DFSchemaRef,
}

impl AsOfJoin {
    pub(crate) fn try_new(
        left: LogicalPlan,
        right: LogicalPlan,
        times: (Expr, Expr),
        keys: Vec<(Expr, Expr)>,
        options: AsOfOptions,
        merged: Vec<Column>,
    ) -> Result<Self> {
        let own = left.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let mut fields: Vec<(Option<TableReference>, FieldRef)> = own.collect();
        for index in output_columns(&right, &merged) {
            let (qualifier, field) = right.schema().qualified_field(index);
            fields.push((qualifier.cloned(), Arc::new(looked_up(field, options.inner))));
        }
        let schema = DFSchema::new_with_metadata(fields, left.schema().metadata().clone())?;
        Ok(Self { left, right, times, keys, options, merged, schema: Arc::new(schema) })
    }

    /// Indices of the right columns that the output has.
    pub(crate) fn right_columns(&self) -> Vec<usize> {
        output_columns(&self.right, &self.merged)
    }
}

/// A right field in the output: nullable where rows may lack a match, and no designated timestamp.
pub(in crate::operators) fn looked_up(field: &Field, inner: bool) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.remove(TIMESTAMP_KEY);
    field.clone().with_nullable(field.is_nullable() || !inner).with_metadata(metadata)
}

pub(in crate::operators) fn output_columns(right: &LogicalPlan, merged: &[Column]) -> Vec<usize> {
    let columns = right.schema().columns();
    (0..columns.len()).filter(|index| !merged.contains(&columns[*index])).collect()
}

impl PartialOrd for AsOfJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl fmt::Display for AsOfOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.inner { "type=INNER" } else { "type=LEFT" })?;
        match self.tolerance {
            Some(tolerance) => write!(f, ", tolerance={tolerance}ns"),
            None => Ok(()),
        }
    }
}

impl UserDefinedLogicalNodeCore for AsOfJoin {
    fn name(&self) -> &str {
        "AsOfJoin"
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
        exprs
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoin: {} {} {}, on=[", self.times.0, self.options.sign(), self.times.1)?;
        for (index, (left, right)) in self.keys.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{left} = {right}")?;
        }
        write!(f, "], {}", self.options)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let mut next = |old: &Expr| exprs.next().unwrap_or_else(|| old.clone());
        let times = (next(&self.times.0), next(&self.times.1));
        let keys = self.keys.iter().map(|(left, right)| (next(left), next(right))).collect();
        let mut inputs = inputs.into_iter();
        let left = inputs.next().unwrap_or_else(|| self.left.clone());
        let right = inputs.next().unwrap_or_else(|| self.right.clone());
        Self::try_new(left, right, times, keys, self.options, self.merged.clone())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let (left_exprs, right_exprs): (Vec<Expr>, Vec<Expr>) =
            std::iter::once(&self.times).chain(&self.keys).cloned().unzip();
        let mut left = super::super::columns_of(&left_exprs, self.left.schema());
        let mut right = super::super::columns_of(&right_exprs, self.right.schema());
        let left_width = self.left.schema().fields().len();
        let shown = self.right_columns();
        for &column in output_columns {
            match column.checked_sub(left_width) {
                None => left.push(column),
                Some(at) => right.extend(shown.get(at)),
            }
        }
        for side in [&mut left, &mut right] {
            side.sort_unstable();
            side.dedup();
        }
        Some(vec![left, right])
    }
}

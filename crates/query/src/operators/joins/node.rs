//! What the logical nodes of joins by time share.

use crate::designated::TIMESTAMP_KEY;
use crate::operators::node::{Exprs, columns_of, sorted};
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::Arc;

/// Two sides whose rows are matched by keys and times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pairing {
    /// The side whose rows are kept.
    pub(crate) left: LogicalPlan,
    /// The side that is looked up.
    pub(crate) right: LogicalPlan,
    /// `Timestamp(ns)` of each side.
    pub(crate) times: (Expr, Expr),
    /// Equal pairs of left and right expressions.
    pub(crate) keys: Vec<(Expr, Expr)>,
    /// Right columns that the output leaves out, since the left side has them.
    pub(crate) merged: Vec<Column>,
}

impl Pairing {
    pub(in crate::operators) fn inputs(&self) -> [&LogicalPlan; 2] {
        [&self.left, &self.right]
    }

    /// The times, then the keys.
    pub(in crate::operators) fn exprs(&self) -> Vec<Expr> {
        let pairs = std::iter::once(&self.times).chain(&self.keys);
        pairs.flat_map(|(left, right)| [left.clone(), right.clone()]).collect()
    }

    /// The same over other inputs and the next of other expressions.
    pub(in crate::operators) fn over(&self, exprs: &mut Exprs, [left, right]: [LogicalPlan; 2]) -> Self {
        let mut pair = |(left, right): &(Expr, Expr)| (exprs.next(left), exprs.next(right));
        let times = pair(&self.times);
        let keys = self.keys.iter().map(pair).collect();
        Self { left, right, times, keys, merged: self.merged.clone() }
    }

    /// Indices of the right columns that the output has.
    pub(in crate::operators) fn right_columns(&self) -> Vec<usize> {
        let columns = self.right.schema().columns();
        (0..columns.len()).filter(|index| !self.merged.contains(&columns[*index])).collect()
    }

    /// The left columns.
    pub(in crate::operators) fn left_fields(&self) -> Vec<(Option<TableReference>, FieldRef)> {
        let fields = self.left.schema().iter();
        fields.map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field))).collect()
    }

    /// The left columns, then the right ones; `inner` where every row has a match.
    pub(in crate::operators) fn fields(&self, inner: bool) -> Vec<(Option<TableReference>, FieldRef)> {
        let mut fields = self.left_fields();
        for index in self.right_columns() {
            let (qualifier, field) = self.right.schema().qualified_field(index);
            fields.push((qualifier.cloned(), Arc::new(looked_up(field, inner))));
        }
        fields
    }

    /// The columns of each side that are read for some of those that [`Self::fields`] has; where `aggregates` read both
    /// sides, the output has of these only the left columns.
    pub(in crate::operators) fn reads(
        &self,
        output: &[usize],
        aggregates: Option<&[Expr]>,
    ) -> [Vec<usize>; 2] {
        let (mut left_exprs, mut right_exprs): (Vec<Expr>, Vec<Expr>) =
            std::iter::once(&self.times).chain(&self.keys).cloned().unzip();
        left_exprs.extend_from_slice(aggregates.unwrap_or(&[]));
        right_exprs.extend_from_slice(aggregates.unwrap_or(&[]));
        let mut left = columns_of(&left_exprs, self.left.schema());
        let mut right = columns_of(&right_exprs, self.right.schema());
        let left_width = self.left.schema().fields().len();
        let shown = self.right_columns();
        for &column in output {
            match column.checked_sub(left_width) {
                None => left.push(column),
                Some(at) if aggregates.is_none() => right.extend(shown.get(at)),
                Some(_) => {}
            }
        }
        [sorted(left), sorted(right)]
    }
}

/// A right field in the output: nullable where rows may lack a match, and no designated timestamp.
pub(in crate::operators) fn looked_up(field: &Field, inner: bool) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.remove(TIMESTAMP_KEY);
    field.clone().with_nullable(field.is_nullable() || !inner).with_metadata(metadata)
}

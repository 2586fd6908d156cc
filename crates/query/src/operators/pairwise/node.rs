//! The logical node of groups of pairs.

use crate::operators::node::{Exprs, Node, node};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::fmt;

/// Each group of one side with each of the other that has a row with equal keys of the join.
///
/// No condition is carried below it: what could be was before it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PairGroups {
    pub(crate) sides: [PairSide; 2],
    /// The key columns of the output: a side, and which of its groups' columns.
    pub(crate) keys: Vec<(usize, usize)>,
    /// What is after them.
    pub(crate) measures: Vec<PairMeasure>,
    /// That of the aggregate in whose place it stands.
    pub(crate) schema: DFSchemaRef,
}

/// One input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PairSide {
    pub(crate) input: LogicalPlan,
    /// The keys of the join.
    pub(crate) on: Vec<Expr>,
    /// What its rows are grouped by.
    pub(crate) groups: Vec<Expr>,
    /// What is measured: doubles.
    pub(crate) values: Vec<Expr>,
}

/// A measure of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PairMeasure {
    pub(crate) of: Measure,
    /// Which of each side's values it is of.
    pub(crate) values: [usize; 2],
}

/// What is made of the rows of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Measure {
    Correlation,
    Covariance {
        sample: bool,
    },
    /// count(*).
    Count,
}

impl PairSide {
    pub(super) fn of(input: LogicalPlan) -> Self {
        Self { input, on: Vec::new(), groups: Vec::new(), values: Vec::new() }
    }

    /// The place of a value.
    pub(super) fn value(&mut self, value: &Expr) -> usize {
        let known = self.values.iter().position(|known| known == value);
        known.unwrap_or_else(|| {
            self.values.push(value.clone());
            self.values.len() - 1
        })
    }

    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.on.iter().chain(&self.groups).chain(&self.values)
    }
}

node!(PairGroups);

impl Node<2> for PairGroups {
    fn sources(&self) -> [&LogicalPlan; 2] {
        self.sides.each_ref().map(|side| &side.input)
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        self.sides.iter().flat_map(PairSide::exprs).cloned().collect()
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "PairGroups: [{}]", fields.join(", "))
    }

    fn over(&self, mut exprs: Exprs, inputs: [LogicalPlan; 2]) -> Result<Self> {
        let mut inputs = inputs.into_iter();
        let sides = self.sides.each_ref().map(|side| PairSide {
            input: inputs.next().unwrap_or_else(|| side.input.clone()),
            on: exprs.take(side.on.len()),
            groups: exprs.take(side.groups.len()),
            values: exprs.take(side.values.len()),
        });
        Ok(Self { sides, ..self.clone() })
    }
}

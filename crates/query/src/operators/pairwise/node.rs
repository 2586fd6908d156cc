//! The logical node of groups of pairs.

use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;

/// Each group of one side with each of the other that has a row with equal keys of the join.
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

impl PartialOrd for PairGroups {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for PairGroups {
    fn name(&self) -> &str {
        "PairGroups"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.sides.iter().map(|side| &side.input).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.sides.iter().flat_map(PairSide::exprs).cloned().collect()
    }

    /// No condition is carried below it: what could be was before it came.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "PairGroups: [{}]", fields.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (mut exprs, mut inputs) = (exprs.into_iter(), inputs.into_iter());
        let sides = self.sides.each_ref().map(|side| {
            let mut take = |of: &[Expr]| exprs.by_ref().take(of.len()).collect();
            PairSide {
                input: inputs.next().unwrap_or_else(|| side.input.clone()),
                on: take(&side.on),
                groups: take(&side.groups),
                values: take(&side.values),
            }
        });
        Ok(Self { sides, ..self.clone() })
    }
}

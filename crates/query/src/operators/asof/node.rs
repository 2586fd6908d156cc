//! The logical node of ASOF JOIN.

use crate::dialect::marker::Direction;
use crate::operators::joins::node::Pairing;
use crate::operators::node::{Exprs, Node, node, write_pairs};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
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
    pub(crate) pairing: Pairing,
    pub(crate) options: AsOfOptions,
    schema: DFSchemaRef,
}

impl AsOfJoin {
    pub(crate) fn try_new(pairing: Pairing, options: AsOfOptions) -> Result<Self> {
        let metadata = pairing.left.schema().metadata().clone();
        let schema = DFSchema::new_with_metadata(pairing.fields(options.inner), metadata)?;
        Ok(Self { pairing, options, schema: Arc::new(schema) })
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

node!(AsOfJoin);

impl Node<2> for AsOfJoin {
    fn sources(&self) -> [&LogicalPlan; 2] {
        self.pairing.inputs()
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        self.pairing.exprs()
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right) = &self.pairing.times;
        write!(f, "AsOfJoin: {left} {} {right}, on=[", self.options.sign())?;
        write_pairs(f, &self.pairing.keys)?;
        write!(f, "], {}", self.options)
    }

    fn over(&self, mut exprs: Exprs, inputs: [LogicalPlan; 2]) -> Result<Self> {
        Self::try_new(self.pairing.over(&mut exprs, inputs), self.options)
    }

    fn reads(&self, output: &[usize]) -> [Vec<usize>; 2] {
        self.pairing.reads(output, None)
    }
}

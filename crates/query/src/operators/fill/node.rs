//! The logical node of FILL.

use crate::functions::bucket::Bucketing;
use crate::operators::node::{Exprs, Node, node, write_list};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::fmt;
use std::sync::Arc;

/// How a column of a missing row is filled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum FillWith {
    /// With NULL.
    Null,
    /// With the value of the key's last row, NULL before the first.
    Prev,
    /// With the value of another column (its place in the input) in the key's last row, which can be cast to
    /// the type of this one.
    PrevOf(usize),
    /// On the line between the key's rows before and after; NULL outside.
    Linear,
    /// With a constant expression of the column's type.
    Constant(Expr),
}

/// Adds the rows that are missing in the grid of buckets and keys.
///
/// The input's columns are the bucket, `keys` key columns, then the values; the output's are the same,
/// values nullable. Places in the input have a meaning, so that all of it is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Fill {
    /// Rows of SAMPLE BY, in order of bucket, then keys.
    pub(crate) input: LogicalPlan,
    /// How many key columns follow the bucket.
    pub(crate) keys: usize,
    /// The buckets.
    pub(crate) bucketing: Bucketing,
    /// The first bucket holds it; without it the first row's bucket is the first.
    pub(crate) from: Option<Expr>,
    /// No bucket starts at or after it; without it the last row's bucket is the last.
    pub(crate) to: Option<Expr>,
    /// For each value column.
    pub(crate) fills: Vec<FillWith>,
    schema: DFSchemaRef,
}

impl Fill {
    pub(crate) fn try_new(
        input: LogicalPlan,
        keys: usize,
        bucketing: Bucketing,
        from: Option<Expr>,
        to: Option<Expr>,
        fills: Vec<FillWith>,
    ) -> Result<Self> {
        let fields = input.schema().iter().enumerate().map(|(index, (qualifier, field))| {
            let nullable = field.is_nullable() || index > keys;
            (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(nullable)))
        });
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        Ok(Self { input, keys, bucketing, from, to, fills, schema: Arc::new(schema) })
    }
}

impl fmt::Display for FillWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FillWith::Null => f.write_str("NULL"),
            FillWith::Prev => f.write_str("PREV"),
            FillWith::PrevOf(column) => write!(f, "PREV(column {column})"),
            FillWith::Linear => f.write_str("LINEAR"),
            FillWith::Constant(expr) => write!(f, "{expr}"),
        }
    }
}

node!(Fill);

impl Node<1> for Fill {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        let constants = self.fills.iter().filter_map(|fill| match fill {
            FillWith::Constant(expr) => Some(expr),
            _ => None,
        });
        self.from.iter().chain(&self.to).chain(constants).cloned().collect()
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fill: every {}, keys={}, values=[", self.bucketing, self.keys)?;
        write_list(f, &self.fills)?;
        f.write_str("]")?;
        if let Some(from) = &self.from {
            write!(f, ", from={from}")?;
        }
        if let Some(to) = &self.to {
            write!(f, ", to={to}")?;
        }
        Ok(())
    }

    fn over(&self, mut exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        let from = self.from.as_ref().map(|from| exprs.next(from));
        let to = self.to.as_ref().map(|to| exprs.next(to));
        let fills = self.fills.iter().map(|fill| match fill {
            FillWith::Constant(old) => FillWith::Constant(exprs.next(old)),
            other => other.clone(),
        });
        let fills = fills.collect();
        Self::try_new(input, self.keys, self.bucketing, from, to, fills)
    }
}

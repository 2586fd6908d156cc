//! The logical node of LATEST ON.

use crate::operators::node::{Exprs, Node, columns_of, node, sorted, write_list};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::fmt;

/// The row of each key with the greatest time; the last to arrive where several have it.
///
/// NULL is a key like others; a row without a time is never the newest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LatestOn {
    /// Where the rows come from; the output has its columns.
    pub(crate) input: LogicalPlan,
    /// `Timestamp(ns)`.
    pub(crate) time: Expr,
    /// At least one.
    pub(crate) keys: Vec<Expr>,
}

node!(LatestOn);

impl Node<1> for LatestOn {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn exprs(&self) -> Vec<Expr> {
        std::iter::once(&self.time).chain(&self.keys).cloned().collect()
    }

    /// A condition on a key picks rows as it picks keys.
    fn passes(&self, column: usize) -> bool {
        let fields = self.output().fields();
        let name = fields[column].name();
        // A name that two columns share is not known to be the key.
        let unique = fields.iter().filter(|field| field.name() == name).count() == 1;
        unique && self.keys.iter().any(|key| matches!(key, Expr::Column(of) if of.name == *name))
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatestOn: {} per [", self.time)?;
        write_list(f, &self.keys)?;
        f.write_str("]")
    }

    fn over(&self, mut exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        let time = exprs.next(&self.time);
        Ok(Self { input, time, keys: self.keys.iter().map(|key| exprs.next(key)).collect() })
    }

    fn reads(&self, output: &[usize]) -> [Vec<usize>; 1] {
        let mut columns = columns_of(&self.exprs(), self.input.schema());
        columns.extend(output);
        [sorted(columns)]
    }
}

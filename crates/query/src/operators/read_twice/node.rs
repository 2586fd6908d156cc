//! The logical node of rows that are made once.

use crate::operators::node::{Exprs, Node, node};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The rows of an input, which all nodes of this number share. Nothing is carried below it, neither conditions nor limits:
/// others read the rows too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CommonRows {
    pub(crate) input: LogicalPlan,
    /// Which rows.
    pub(crate) number: u64,
}

/// The rows of a plan, which are made once, however often the plan that comes back is read.
pub(crate) fn common(input: LogicalPlan) -> LogicalPlan {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the counter guards nothing but itself.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    LogicalPlan::Extension(Extension { node: Arc::new(CommonRows { input, number }) })
}

node!(CommonRows);

impl Node<1> for CommonRows {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn exprs(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommonRows")
    }

    fn over(&self, _exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        Ok(Self { input, number: self.number })
    }
}

/// Whether a plan is rows that others read too.
pub(crate) fn is_common(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(of) if of.node.as_any().is::<CommonRows>())
}

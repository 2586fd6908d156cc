//! The logical node of LATEST ON.

use crate::operators::sample::node::write_list;
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
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

impl PartialOrd for LatestOn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for LatestOn {
    fn name(&self) -> &str {
        "LatestOn"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        std::iter::once(&self.time).chain(&self.keys).cloned().collect()
    }

    /// A condition on a key picks rows as it picks keys.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let is_key = |name: &str| self.keys.iter().any(|k| matches!(k, Expr::Column(c) if c.name == name));
        let names = self.schema().fields().iter().map(|field| field.name());
        // A name that two columns share is not known to be the key.
        let unique = |name: &str| self.schema().fields().iter().filter(|f| f.name() == name).count() == 1;
        names.filter(|name| !is_key(name) || !unique(name)).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatestOn: {} per [", self.time)?;
        write_list(f, &self.keys)?;
        f.write_str("]")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let time = exprs.next().unwrap_or_else(|| self.time.clone());
        let input = inputs.into_iter().next().unwrap_or_else(|| self.input.clone());
        Ok(Self { input, time, keys: exprs.collect() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut columns = super::super::columns_of(&self.expressions(), self.input.schema());
        columns.extend(output_columns);
        columns.sort_unstable();
        columns.dedup();
        Some(vec![columns])
    }
}

//! The logical node of SAMPLE BY.

use crate::functions::bucket::Bucketing;
use datafusion::arrow::datatypes::Field;
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Groups by (bucket of `time`, keys).
///
/// Output: the bucket's start, the keys, the aggregates; ordered by time, then keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SampleBy {
    /// What is grouped.
    pub(crate) input: LogicalPlan,
    /// The time that falls into buckets, `Timestamp(ns)`; rows where it is NULL are left out.
    pub(crate) time: Expr,
    /// The keys.
    pub(crate) keys: Vec<Expr>,
    /// Aggregate functions, possibly with an alias.
    pub(crate) aggregates: Vec<Expr>,
    /// How time falls into buckets.
    pub(crate) bucketing: Bucketing,
    /// Qualifier and field of the bucket in the output.
    bucket: (Option<TableReference>, Arc<Field>),
    schema: DFSchemaRef,
}

impl SampleBy {
    pub(crate) fn try_new(
        input: LogicalPlan,
        time: Expr,
        keys: Vec<Expr>,
        aggregates: Vec<Expr>,
        bucketing: Bucketing,
        bucket: (Option<TableReference>, Arc<Field>),
    ) -> Result<Self> {
        let mut fields = vec![bucket.clone()];
        fields.extend(exprlist_to_fields(keys.iter().chain(&aggregates), &input)?);
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, time, keys, aggregates, bucketing, bucket, schema: Arc::new(schema) })
    }
}

impl PartialOrd for SampleBy {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for SampleBy {
    fn name(&self) -> &str {
        "SampleBy"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let time = std::iter::once(&self.time);
        time.chain(&self.keys).chain(&self.aggregates).cloned().collect()
    }

    /// A condition on a key that is a plain column picks rows as it picks groups.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let plain = |index: usize| {
            let key = index.checked_sub(1).and_then(|at| self.keys.get(at));
            matches!(key, Some(Expr::Column(_)))
        };
        let fields = self.schema.fields().iter().enumerate();
        fields.filter(|(index, _)| !plain(*index)).map(|(_, field)| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SampleBy: {} every {}, keys=[", self.time, self.bucketing)?;
        write_list(f, &self.keys)?;
        f.write_str("], aggregates=[")?;
        write_list(f, &self.aggregates)?;
        f.write_str("]")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let time = exprs.next().unwrap_or_else(|| self.time.clone());
        let keys = exprs.by_ref().take(self.keys.len()).collect();
        let input = inputs.into_iter().next().unwrap_or_else(|| self.input.clone());
        Self::try_new(input, time.unalias(), keys, exprs.collect(), self.bucketing, self.bucket.clone())
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![super::super::columns_of(&self.expressions(), self.input.schema())])
    }
}

pub(crate) fn write_list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

//! The logical node of SAMPLE BY.

use crate::functions::bucket::Bucketing;
use crate::operators::node::{Exprs, Node, columns_of, is_plain_key, node, write_list};
use datafusion::arrow::datatypes::Field;
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, LogicalPlan};
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
    /// Qualifier and field of the bucket in the output.
    pub(super) fn output_bucket(&self) -> (Option<&TableReference>, &Arc<Field>) {
        (self.bucket.0.as_ref(), &self.bucket.1)
    }

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

node!(SampleBy);

impl Node<1> for SampleBy {
    fn sources(&self) -> [&LogicalPlan; 1] {
        [&self.input]
    }

    fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn exprs(&self) -> Vec<Expr> {
        let time = std::iter::once(&self.time);
        time.chain(&self.keys).chain(&self.aggregates).cloned().collect()
    }

    /// A condition on a key that is a plain column picks rows as it picks groups.
    fn passes(&self, column: usize) -> bool {
        is_plain_key(&self.keys, column)
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SampleBy: {} every {}, keys=[", self.time, self.bucketing)?;
        write_list(f, &self.keys)?;
        f.write_str("], aggregates=[")?;
        write_list(f, &self.aggregates)?;
        f.write_str("]")
    }

    fn over(&self, mut exprs: Exprs, [input]: [LogicalPlan; 1]) -> Result<Self> {
        let (time, keys) = (exprs.next(&self.time), exprs.take(self.keys.len()));
        Self::try_new(input, time, keys, exprs.rest(), self.bucketing, self.bucket.clone())
    }

    fn reads(&self, _output: &[usize]) -> [Vec<usize>; 1] {
        [columns_of(&self.exprs(), self.input.schema())]
    }
}

//! Pushes conditions on the bucket of SAMPLE BY below it, as conditions on the time: a bucket's start grows with the time,
//! so that each is one on the other, and rows of buckets that are left out are not read.
//!
//! Comes after DataFusion's own push-down, which it calls again for what is below.

use super::node::SampleBy;
use crate::functions::bucket::Bucketing;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Extension, Filter, LogicalPlan, LogicalPlanBuilder, Operator, UserDefinedLogicalNode,
    binary_expr, lit,
};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// See the file's header.
#[derive(Debug, Default)]
pub(in crate::operators) struct PushFilterBelowBuckets;

impl OptimizerRule for PushFilterBelowBuckets {
    fn name(&self) -> &str {
        "push_filter_below_buckets"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(Extension { node }) = filter.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let Some(sampled) = node.as_any().downcast_ref::<SampleBy>() else {
            return Ok(Transformed::no(plan));
        };
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for condition in split_conjunction(&filter.predicate) {
            match on_time(sampled, condition) {
                Some(of_time) => below.push(of_time),
                None => above.push(condition.clone()),
            }
        }
        let Some(below) = conjunction(below) else { return Ok(Transformed::no(plan)) };
        let input = LogicalPlan::Filter(Filter::try_new(below, Arc::new(sampled.input.clone()))?);
        let further = PushDownFilter::new();
        let input = input.transform_down(|node| further.rewrite(node, config))?.data;
        let node = sampled.with_exprs_and_inputs(sampled.expressions(), vec![input])?;
        let mut pushed = LogicalPlan::Extension(Extension { node });
        if let Some(above) = conjunction(above) {
            pushed = LogicalPlanBuilder::from(pushed).filter(above)?.build()?;
        }
        Ok(Transformed::yes(pushed))
    }
}

/// The condition on the time that is the same as one on the bucket; `None` where it is none on that alone.
fn on_time(sampled: &SampleBy, condition: &Expr) -> Option<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let bucket = |expr: &Expr| {
        let Expr::Column(column) = expr else { return false };
        let (qualifier, field) = sampled.output_bucket();
        column.name == *field.name() && column.relation.as_ref() == qualifier
    };
    let (op, literal) = match (left.as_ref(), right.as_ref()) {
        (of, Expr::Literal(literal, _)) if bucket(of) => (*op, literal),
        (Expr::Literal(literal, _), of) if bucket(of) => (op.swap()?, literal),
        _ => return None,
    };
    let ScalarValue::TimestampNanosecond(Some(at), zone) = literal else { return None };
    if sampled.bucketing.awaits_first() {
        return None;
    }
    let (op, edge) = edge_of(&sampled.bucketing, op, *at)?;
    let edge = lit(ScalarValue::TimestampNanosecond(Some(edge), zone.clone()));
    Some(binary_expr(sampled.time.clone(), op, edge))
}

/// What the time is compared with where its bucket's start is compared with an instant.
fn edge_of(bucketing: &Bucketing, op: Operator, at: i64) -> Option<(Operator, i64)> {
    let (start, next) = bucketing.bucket(at);
    // Past the ends of time boundaries are cut off.
    if start == i64::MIN || next == i64::MAX || start > at || next <= at {
        return None;
    }
    let first_from = if start == at { start } else { next };
    match op {
        Operator::GtEq => Some((Operator::GtEq, first_from)),
        Operator::Gt => Some((Operator::GtEq, next)),
        Operator::Lt => Some((Operator::Lt, first_from)),
        Operator::LtEq => Some((Operator::Lt, next)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_on_the_bucket_is_one_on_the_time() {
        let day = 86_400_000_000_000;
        for (stride, zone) in
            [("7m", None), ("1h", None), ("1d", Some("America/New_York")), ("1M", None), ("1w", None)]
        {
            let bucketing = Bucketing::parse(stride, zone, None).unwrap();
            let begin = 19_900 * day;
            let starts: Vec<i64> = {
                let first = bucketing.start(begin);
                std::iter::successors(Some(first), |start| Some(bucketing.next(*start))).take(12).collect()
            };
            let near = |at: &i64| [*at - 1, *at, *at + 1];
            for at in starts.iter().flat_map(near) {
                for op in [Operator::Gt, Operator::GtEq, Operator::Lt, Operator::LtEq] {
                    let (on_time, edge) = edge_of(&bucketing, op, at).unwrap();
                    let holds = |op, left: i64, right: i64| match op {
                        Operator::Gt => left > right,
                        Operator::GtEq => left >= right,
                        Operator::Lt => left < right,
                        _ => left <= right,
                    };
                    for ts in starts.iter().flat_map(near) {
                        let expected = holds(op, bucketing.start(ts), at);
                        assert_eq!(holds(on_time, ts, edge), expected, "{stride} {ts} {op} {at}");
                    }
                }
            }
        }
    }
}

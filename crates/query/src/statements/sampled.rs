//! Queries whose buckets stand for themselves: SAMPLE BY of one table, of which each bucket is what the query gives of its
//! rows alone.

use crate::functions::bucket::Bucketing;
use crate::operators::{bucketing_of, is_fill};
use crate::provider::SnapshotTable;
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast;
use std::sync::Arc;
use tickstone_engine::TableSnapshot;

/// What is sampled, and how.
pub(super) struct Sampled {
    /// Without its rows.
    pub(super) table: Arc<TableSnapshot>,
    /// The name of the designated timestamp.
    pub(super) time: String,
    pub(super) bucketing: Bucketing,
}

impl Sampled {
    /// That of an analyzed plan; `None` where it has no SAMPLE BY.
    ///
    /// # Errors
    /// What such a query cannot have.
    pub(super) fn of(plan: &LogicalPlan, query: &ast::Query) -> Result<Option<Self>, &'static str> {
        let (mut sampled, mut tables, mut fills, mut others) = (Vec::new(), Vec::new(), false, false);
        let walked = plan.apply_with_subqueries(|node| {
            sampled.extend(bucketing_of(node));
            fills |= is_fill(node);
            others |= match node {
                LogicalPlan::TableScan(_)
                | LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Sort(_) => false,
                LogicalPlan::Extension(_) => bucketing_of(node).is_none() && !is_fill(node),
                _ => true,
            };
            if let LogicalPlan::TableScan(scan) = node {
                let source = scan.source.downcast_ref::<DefaultTableSource>();
                let table = source.and_then(|source| source.table_provider.downcast_ref::<SnapshotTable>());
                tables.push(table.map(|table| table.table().without_rows()));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        // The closure never fails.
        drop(walked);
        if sampled.is_empty() {
            return Ok(None);
        }
        let ([Some(table)], [(bucketing, of)]) = (tables.as_slice(), sampled.as_slice()) else {
            return Err("SAMPLE BY of anything but one table, once");
        };
        let schema = table.schema();
        let Some(time) = schema.timestamp().map(|time| schema.columns()[time].name.clone()) else {
            return Err("SAMPLE BY of a table without a designated timestamp");
        };
        if fills {
            return Err("FILL, or FROM … TO: each bucket stands for its own rows");
        }
        if bucketing.awaits_first() || of.as_deref() != Some(time.as_str()) {
            return Err("buckets that do not count from 1970, or not the designated timestamp");
        }
        if others || query.order_by.is_some() {
            return Err("ORDER BY, LIMIT, LATEST ON, windows or other groups around SAMPLE BY");
        }
        Ok(Some(Self { table: Arc::clone(table), time, bucketing: *bucketing }))
    }
}

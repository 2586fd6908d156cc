//! Queries: from a syntax tree to a stream.

use super::{Outcome, Session};
use crate::error::Result;
use crate::frame::FrameTable;
use crate::provider::SnapshotTable;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as PlannerStatement;
use futures::TryStreamExt;
use sqlparser::ast;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Session {
    pub(crate) async fn run_query(&mut self, statement: ast::Statement) -> Result<Outcome> {
        let explains = matches!(statement, ast::Statement::Explain { .. });
        let begun = Instant::now();
        let (plan, stream) = self.start(statement).await?;
        let planning = begun.elapsed();
        let schema = plan.schema();
        if !explains {
            return Ok(Outcome::Rows { schema, stream, planning });
        }
        let begun = Instant::now();
        let mut batches: Vec<RecordBatch> = stream.try_collect().await?;
        batches.push(times_batch(&batches, planning, begun.elapsed())?);
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
        Ok(Outcome::Rows { schema, stream, planning })
    }

    /// The rows of a query, its physical plan made.
    pub(crate) async fn start(
        &mut self,
        statement: ast::Statement,
    ) -> Result<(Arc<dyn ExecutionPlan>, SendableRecordBatchStream)> {
        let (plan, wide) = self.plan(statement).await?;
        let stream = execute_stream(Arc::clone(&plan), self.states.task(wide))?;
        Ok((plan, stream))
    }

    /// The physical plan of a query, and whether it is one for the wide state.
    async fn plan(&mut self, statement: ast::Statement) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
        let state = &self.states.narrow;
        let logical = state.statement_to_plan(PlannerStatement::Statement(Box::new(statement))).await?;
        read_only().verify_plan(&logical)?;
        let optimized = state.optimize(&logical)?;
        let wide = rows_read(&optimized)? >= self.database.options().wide_rows_min;
        let state = if wide { &self.states.wide } else { state };
        let plan = state.query_planner().create_physical_plan(&optimized, state).await?;
        Ok((plan, wide))
    }
}

fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

/// Rows that the scans of a plan yield together.
fn rows_read(plan: &LogicalPlan) -> Result<u64> {
    let mut rows = 0;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scan.source.downcast_ref::<DefaultTableSource>()
        {
            if let Some(table) = source.table_provider.downcast_ref::<SnapshotTable>() {
                rows += table.rows_selected(&scan.filters)?;
            } else if let Some(frame) = source.table_provider.downcast_ref::<FrameTable>() {
                rows += frame.rows();
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows)
}

/// The last rows of EXPLAIN: how long planning took, and running what it explains.
fn times_batch(batches: &[RecordBatch], planning: Duration, running: Duration) -> Result<RecordBatch> {
    let millis = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["planning time", "execution time"])),
        Arc::new(StringArray::from(vec![millis(planning), millis(running)])),
    ];
    let schema = batches
        .first()
        .map(RecordBatch::schema)
        .unwrap_or_else(datafusion::logical_expr::LogicalPlan::explain_schema);
    Ok(RecordBatch::try_new(schema, columns)?)
}

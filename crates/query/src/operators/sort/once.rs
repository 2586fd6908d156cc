//! [`OnceExec`].

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of a plan that were read in part, each partition once: for a node that takes another's work over.
pub(in crate::operators) struct OnceExec {
    properties: Arc<PlanProperties>,
    /// By partition.
    rows: Vec<Mutex<Option<SendableRecordBatchStream>>>,
}

impl OnceExec {
    /// The rows of `plan`, by partition; of one that has none here nobody asks for rows.
    pub(in crate::operators) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        rows: impl IntoIterator<Item = Option<SendableRecordBatchStream>>,
    ) -> Self {
        let rows = rows.into_iter().map(Mutex::new).collect();
        Self { properties: Arc::clone(plan.properties()), rows }
    }
}

impl fmt::Debug for OnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceExec")
    }
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceExec")
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &'static str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.get(partition);
        let rows = rows.and_then(|rows| rows.lock().unwrap_or_else(PoisonError::into_inner).take());
        rows.ok_or_else(|| internal_datafusion_err!("rows that are there once are read twice"))
    }
}

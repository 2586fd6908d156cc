//! [`OnceExec`].

use crate::operators::exec::{Core, Operator, operator};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of a plan that were read in part, each partition once: for a node that takes another's work over.
#[derive(Clone)]
pub(in crate::operators) struct OnceExec {
    core: Core<0>,
    /// By output.
    rows: Arc<[Mutex<Option<SendableRecordBatchStream>>]>,
}

impl OnceExec {
    /// The rows of `plan`, by output; of one that has none here nobody asks for rows.
    pub(in crate::operators) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        rows: impl IntoIterator<Item = Option<SendableRecordBatchStream>>,
    ) -> Self {
        let rows = rows.into_iter().map(Mutex::new).collect();
        Self { core: Core::new([], Arc::clone(plan.properties())), rows }
    }
}

impl fmt::Debug for OnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceExec")
    }
}

operator!(OnceExec);

impl Operator for OnceExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceExec")
    }

    fn run(&self, output: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.get(output);
        let rows = rows.and_then(|rows| rows.lock().unwrap_or_else(PoisonError::into_inner).take());
        rows.ok_or_else(|| internal_datafusion_err!("rows that are there once are read twice"))
    }
}

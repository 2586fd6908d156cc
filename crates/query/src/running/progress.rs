//! [`QueryProgress`]: how far a running query is.

use crate::scan::ScanExec;
use crate::wanted::Wanted;
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::sync::Arc;

/// So many rows are made in some milliseconds.
const FEW_ROWS: u64 = 1 << 18;

/// How far a query is, asked while its stream is read.
#[derive(Clone, Default)]
pub struct QueryProgress {
    plan: Option<Arc<dyn ExecutionPlan>>,
    /// `None` of a statement that is done at once.
    wanted: Option<Arc<Wanted>>,
}

impl QueryProgress {
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self { plan: Some(Arc::clone(plan)), wanted: None }
    }

    pub(crate) fn of_statement(self, wanted: &Arc<Wanted>) -> Self {
        Self { wanted: Some(Arc::clone(wanted)), ..self }
    }

    /// Says that nobody waits for the rows any more: what works for them in any thread stops soon, and the stream
    /// ends with an error. Dropping the stream says the same, but not while another thread reads it.
    pub fn leave(&self) {
        if let Some(wanted) = &self.wanted {
            wanted.leave();
        }
    }

    /// What is to be known of the rows read so far, such as that some are missing for damage.
    pub fn warnings(&self) -> Vec<String> {
        self.wanted.as_ref().map_or_else(Vec::new, |wanted| wanted.warnings())
    }

    /// Whether it may make many more rows than it reads, of several tables or of one several times: each with each are
    /// more than [`FEW_ROWS`], as far as is known.
    pub fn may_multiply(&self) -> bool {
        let mut open: Vec<&Arc<dyn ExecutionPlan>> = self.plan.iter().collect();
        let (mut leaves, mut rows) = (0, 1_u64);
        while let Some(plan) = open.pop() {
            let below = plan.children();
            if below.is_empty() {
                leaves += 1;
                let of_scan = plan.downcast_ref::<ScanExec>().map(|scan| scan.selected().rows);
                rows = rows.saturating_mul(of_scan.unwrap_or(u64::MAX).max(1));
            }
            open.extend(below);
        }
        leaves > 1 && rows > FEW_ROWS
    }

    /// Rows read of tables so far, and rows that there are to read; a query with a LIMIT may end before it
    /// has read them all, and one that reads no table has none.
    pub fn rows(&self) -> (u64, u64) {
        let (mut read, mut selected) = (0, 0);
        let mut open: Vec<&Arc<dyn ExecutionPlan>> = self.plan.iter().collect();
        while let Some(plan) = open.pop() {
            if let Some(scan) = plan.downcast_ref::<ScanExec>() {
                let rows = scan.selected().rows;
                // One side of a nested loop may be read more than once.
                read += rows.min(scan.rows_read());
                selected += rows;
            }
            open.extend(plan.children());
        }
        (read, selected)
    }
}

impl fmt::Debug for QueryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (read, selected) = self.rows();
        write!(f, "QueryProgress({read} of {selected} rows)")
    }
}

//! The operator that makes rows once and keeps them.

use crate::operators::exec::{Core, Need, Operator, known, operator};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, EmissionType};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows, and the claim of their memory.
struct Kept {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

/// Rows on their way, which whoever waits for them brings on.
type Coming = Shared<BoxFuture<'static, Result<Arc<Kept>, Arc<DataFusionError>>>>;

/// The rows of one execution, begun by the first operator that is asked for them.
#[derive(Default)]
pub(crate) struct Rows(Mutex<Option<Coming>>);

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rows")
    }
}

/// Yields rows that all operators with the same [`Rows`] yield. A plan with it runs once.
#[derive(Debug, Clone)]
pub(crate) struct CommonRowsExec {
    core: Core,
    rows: Arc<Rows>,
}

impl CommonRowsExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, rows: Arc<Rows>) -> Self {
        let properties = known(EquivalenceProperties::new(input.schema()), 1, EmissionType::Final);
        Self { core: Core::new([input], properties), rows }
    }

    /// The rows, which come from this input where no other operator has begun.
    fn coming(&self, context: Arc<TaskContext>) -> Coming {
        let mut rows = self.rows.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = || {
            let (input, memory) = (Arc::clone(self.core.input()), self.reservation(&context));
            let kept = async move {
                let (mut rows, mut batches) = (input.execute(0, context)?, Vec::new());
                while let Some(batch) = rows.try_next().await? {
                    memory.try_grow(batch.get_array_memory_size())?;
                    batches.push(batch);
                }
                Ok(Arc::new(Kept { batches, _memory: memory }))
            };
            kept.map(|kept: Result<_>| kept.map_err(Arc::new)).boxed().shared()
        };
        rows.get_or_insert_with(begin).clone()
    }
}

operator!(CommonRowsExec);

impl Operator for CommonRowsExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommonRowsExec")
    }

    fn needs(&self) -> Vec<Need> {
        vec![Need::One]
    }

    fn run(&self, _output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let each = |kept: Result<Arc<Kept>, Arc<DataFusionError>>| match kept {
            Ok(kept) => {
                let count = kept.batches.len();
                stream::iter((0..count).map(move |at| Ok(kept.batches[at].clone()))).left_stream()
            }
            Err(error) => {
                stream::once(std::future::ready(Err(DataFusionError::Shared(error)))).right_stream()
            }
        };
        Ok(self.stream(self.coming(context).map(each).flatten_stream()))
    }

    fn effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

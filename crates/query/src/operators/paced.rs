//! One side of a join in pieces that take a turn each.
//!
//! DataFusion 55.2 joins a batch of one side with all that it collected of the other before it looks up: ten thousand rows
//! with ten thousand, whose condition none fulfils, are a hundred million pairs in one call, in which neither a timeout nor
//! another statement of the thread has its turn. [`PacedExec`] hands the rows on in pieces, begins with one row, and has a
//! piece be twice as large as the last where that took little of a turn, half as large where it took much.

use super::exec::{Core, Operator, operator};
use crate::wanted::{self, TURN};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// See the file's header.
#[derive(Debug, Clone)]
pub(crate) struct PacedExec {
    core: Core,
}

impl PacedExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::clone(input.properties());
        Self { core: Core::new([input], properties) }
    }
}

operator!(PacedExec);

impl Operator for PacedExec {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacedExec")
    }

    fn keeps_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn run(&self, output: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.core.input().execute(output, context)?;
        Ok(make_cooperative(Box::pin(Paced { input, rest: None, rows: 1, given: None })))
    }

    fn effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn statistics(&self, inputs: &[Arc<Statistics>]) -> Statistics {
        inputs
            .first()
            .map_or_else(|| Statistics::new_unknown(&self.schema()), |input| Statistics::clone(input))
    }
}

struct Paced {
    input: SendableRecordBatchStream,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    /// Rows of a piece.
    rows: usize,
    /// When the last piece was handed on, and in which turn, until it is known what it took.
    given: Option<(Option<Instant>, Instant)>,
}

impl Paced {
    /// Learns of the time that the last piece took whoever asks for the next.
    fn learn(&mut self) {
        let Some((turn, given)) = self.given.take() else { return };
        // In another turn others were waited for, who take the rows that the piece gave.
        if turn != wanted::turn() {
            return;
        }
        let took = given.elapsed();
        if took > TURN / 2 {
            self.rows = (self.rows / 2).max(1);
        } else if took < TURN / 8 {
            self.rows = self.rows.saturating_mul(2);
        }
    }

    fn piece(&mut self, batch: RecordBatch) -> RecordBatch {
        self.given = Some((wanted::turn(), Instant::now()));
        if batch.num_rows() <= self.rows {
            return batch;
        }
        self.rest = Some(batch.slice(self.rows, batch.num_rows() - self.rows));
        batch.slice(0, self.rows)
    }
}

impl Stream for Paced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.learn();
        if let Err(over) = ready!(wanted::give_way(context)) {
            return Poll::Ready(Some(Err(over)));
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => batch,
                other => return Poll::Ready(other),
            },
        };
        Poll::Ready(Some(Ok(self.piece(batch))))
    }
}

impl RecordBatchStream for Paced {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use std::time::Duration;

    fn paced(batches: &[i64]) -> Paced {
        let batch = |rows: &i64| {
            let rows: ArrayRef = Arc::new((0..*rows).collect::<Int64Array>());
            RecordBatch::try_from_iter([("n", rows)]).unwrap()
        };
        let batches: Vec<RecordBatch> = batches.iter().map(batch).collect();
        let schema = batches[0].schema();
        let rows = futures::stream::iter(batches.into_iter().map(Ok));
        Paced {
            input: Box::pin(RecordBatchStreamAdapter::new(schema, rows)),
            rest: None,
            rows: 1,
            given: None,
        }
    }

    #[tokio::test]
    async fn all_rows_come_in_their_order_and_in_pieces_that_grow() {
        let pieces: Vec<RecordBatch> = paced(&[8_192, 1, 8_192]).map(Result::unwrap).collect().await;
        let rows =
            pieces.iter().flat_map(|piece| piece.column(0).as_primitive::<Int64Type>().values().to_vec());
        assert!(rows.eq((0..8_192).chain(0..1).chain(0..8_192)));
        assert_eq!(pieces[0].num_rows(), 1);
        assert!(pieces.len() < 100, "{} pieces", pieces.len());
    }

    #[tokio::test]
    async fn a_piece_that_takes_long_is_followed_by_a_smaller_one() {
        let mut paced = paced(&[8_192]);
        paced.rows = 1_024;
        let mut rows = Vec::new();
        for _ in 0..3 {
            rows.push(paced.next().await.unwrap().unwrap().num_rows());
            std::thread::sleep(TURN.max(Duration::from_millis(1)));
        }
        assert_eq!(rows, [1_024, 512, 256]);
    }
}

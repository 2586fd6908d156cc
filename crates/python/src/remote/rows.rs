//! Rows of a server as a stream of the engine's kind.

use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use tickstone_client::{ClientError, Kind, Rows};
use tickstone_query::{ErrorKind, QueryError};

/// The rows; their errors are those of the server.
pub(super) fn stream(rows: Rows) -> SendableRecordBatchStream {
    with_errors(rows, |error| DataFusionError::External(Box::new(error)))
}

/// The rows for who knows errors of the engine only.
pub(super) fn plain_stream(rows: Rows) -> SendableRecordBatchStream {
    with_errors(rows, |error| DataFusionError::External(Box::new(of_query(error))))
}

fn with_errors(
    rows: Rows,
    of: impl Fn(ClientError) -> DataFusionError + Send + 'static,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let batches = rows.map(move |batch| batch.map_err(&of));
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

fn of_query(error: ClientError) -> QueryError {
    let kind = match error.kind {
        Kind::Retry => ErrorKind::Retry,
        Kind::FixRequest => ErrorKind::FixRequest,
        Kind::FreeSpace => ErrorKind::FreeSpace,
        Kind::Report => ErrorKind::Report,
    };
    let mut made = QueryError::new(kind, "");
    (made.message, made.detail, made.hint) = (error.message, error.detail, error.hint);
    made
}

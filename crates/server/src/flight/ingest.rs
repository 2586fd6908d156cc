//! Rows that come: read from messages as they arrive, and appended to a table in one commit.

use super::connection::Charge;
use super::failure::{defect, in_arrow, not_supported, status, unreadable, wrong};
use super::service::Inner;
use super::sessions::{Session, Within};
use super::updates::add;
use crate::metrics::Counter;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use std::time::Instant;
use tickstone_client::protocol::INGEST_OPTIONS;
use tickstone_engine::{Engine, EngineError};
use tickstone_model::{PartitionBy, Rights, SyncPolicy};
use tickstone_query::append::{AppendRequest, append};
use tickstone_query::arrow::array::{RecordBatch, RecordBatchOptions};
use tickstone_query::arrow::datatypes::{Field, Schema, SchemaRef};
use tickstone_query::arrow::error::ArrowError;
use tickstone_query::import::claims::check_message;
use tickstone_query::{Access, Frame, QueryError, SqlState};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

/// Batches that wait to be stored.
const BATCHES_WAITING: usize = 2;

/// Rows that come.
pub(super) struct Incoming {
    schema: SchemaRef,
    messages: FlightDataDecoder,
    charge: Arc<Charge>,
}

impl Incoming {
    /// Reads rows from messages, the first of which was read already; `None` where there is no schema, and so no
    /// rows.
    ///
    /// # Errors
    /// Where they are no rows, and where the client is gone.
    pub(super) async fn of(
        first: FlightData,
        rest: Streaming<FlightData>,
        charge: Arc<Charge>,
    ) -> Result<Option<Self>, Status> {
        let messages = stream::iter([Ok(first)]).chain(rest);
        // A message of a descriptor or of metadata alone holds no rows.
        let messages = messages.try_filter(|message| {
            let holds = !message.data_header.is_empty();
            async move { holds }
        });
        let checked = messages.map_err(FlightError::from).and_then(|message| {
            let kept = check_message(&message.data_header, &message.data_body);
            std::future::ready(kept.map(|()| message).map_err(FlightError::from))
        });
        let mut messages = FlightDataDecoder::new(checked);
        let Some(first) = messages.next().await else { return Ok(None) };
        match first.map_err(unreadable)?.payload {
            DecodedPayload::Schema(schema) => Ok(Some(Self { schema, messages, charge })),
            _ => Err(wrong("rows begin with their schema")),
        }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` after the last. They are not counted among what requests hold any more.
    ///
    /// # Errors
    /// Where they are no rows of the schema, and where the client is gone.
    async fn next(&mut self) -> Result<Option<RecordBatch>, Status> {
        let next = self.messages.next().await.transpose().map_err(unreadable)?;
        self.charge.clear();
        match next.map(|message| message.payload) {
            None => Ok(None),
            Some(DecodedPayload::RecordBatch(batch)) => Ok(Some(batch)),
            Some(_) => Err(wrong("rows have one schema")),
        }
    }

    /// All rows, and what they take.
    ///
    /// # Errors
    /// As [`Self::next`], and where there is no room for them.
    pub(super) async fn all(mut self, inner: &Inner) -> Result<(Vec<RecordBatch>, Arc<Charge>), Status> {
        let (mut batches, charge) = (Vec::new(), Arc::new(Charge::new(&inner.shared)));
        while let Some(batch) = self.next().await? {
            charge.grow(batch.get_array_memory_size()).map_err(|error| status(&error))?;
            batches.push(batch);
        }
        Ok((batches, charge))
    }
}

/// A batch whose columns get these names; `None` where there are more or fewer.
pub(super) fn columns_named(batch: &RecordBatch, names: &[String]) -> Option<RecordBatch> {
    let fields = batch.schema().fields().clone();
    if fields.len() != names.len() {
        return None;
    }
    let fields = fields.iter().zip(names).map(|(field, name)| Field::clone(field).with_name(name));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options).ok()
}

/// What becomes of rows.
#[derive(Debug)]
struct Target {
    request: AppendRequest,
    /// Whether a table that is there is an error.
    fresh: bool,
    /// Whether they take the place of the table that is there.
    replace: bool,
}

impl Target {
    /// What a client says of its rows.
    ///
    /// # Errors
    /// Where it says what cannot be.
    fn of(command: &CommandStatementIngest) -> Result<Self, Status> {
        let elsewhere = |name: &Option<String>, ours: &str| {
            name.as_deref().is_some_and(|name| !name.is_empty() && !name.eq_ignore_ascii_case(ours))
        };
        if elsewhere(&command.catalog, super::metadata::CATALOG)
            || elsewhere(&command.schema, super::metadata::SCHEMA)
        {
            let what = "there is one catalog and one schema";
            let error = QueryError::request(what).hint("leave them out").state(SqlState::UndefinedTable);
            return Err(status(&error));
        }
        let mut request = AppendRequest::new(&command.table);
        let (mut fresh, mut replace) = (false, false);
        if let Some(options) = &command.table_definition_options {
            request.create = match TableNotExistOption::try_from(options.if_not_exist) {
                Ok(TableNotExistOption::Create) => true,
                Ok(TableNotExistOption::Fail) => false,
                _ => return Err(wrong("if_not_exist is create or fail")),
            };
            (fresh, replace) = match TableExistsOption::try_from(options.if_exists) {
                Ok(TableExistsOption::Append) => (false, false),
                Ok(TableExistsOption::Fail) => (true, false),
                Ok(TableExistsOption::Replace) => (false, true),
                _ => return Err(wrong("if_exists is append, fail or replace")),
            };
        }
        for (name, value) in &command.options {
            let model = |error| status(&QueryError::from(error));
            match INGEST_OPTIONS.iter().position(|known| known == name) {
                Some(0) => request.timestamp = Some(value.clone()),
                Some(1) => request.series = Some(value.lines().map(str::to_string).collect()),
                Some(2) => request.partition_by = Some(PartitionBy::parse(value).map_err(model)?),
                Some(3) => request.sync = Some(SyncPolicy::parse(value).map_err(model)?),
                _ => {
                    let error = QueryError::request(format!("there is no option '{name}'"));
                    return Err(status(&error.hint(format!("options are {}", INGEST_OPTIONS.join(", ")))));
                }
            }
        }
        Ok(Self { request, fresh, replace })
    }

    /// Appends batches; how many rows. Waits for the disk.
    ///
    /// # Errors
    /// Where they cannot be appended; nothing is stored then, and a table that was to be replaced is as it was.
    fn store(
        mut self,
        access: &Access,
        engine: &Engine,
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
    ) -> Result<u64, QueryError> {
        let name = self.request.table.clone();
        let is_there = access.table(Rights::NONE, &name)?.is_some();
        if is_there && self.fresh {
            return Err(EngineError::TableExists { name }.into());
        }
        if !(is_there && self.replace) {
            return append(access, &self.request, schema, batches);
        }
        access.may_make(&name)?;
        access.may(Rights::ALTER, &name)?;
        let begun = Instant::now();
        // Beside the table until all rows are there.
        let aside = Arc::new(engine.aside()?);
        self.request.table = aside.name().to_string();
        self.request.aside = Some(Arc::clone(&aside));
        self.request.create = true;
        let rows = append(access, &self.request, schema, batches)?;
        access.put_in_place(&aside, &name)?;
        access.tell("CREATE OR REPLACE TABLE", name.as_str().into(), rows, begun.elapsed(), None);
        Ok(rows)
    }
}

impl Inner {
    /// Stores rows that come, as a client says; how many.
    ///
    /// # Errors
    /// Where they cannot be stored; none is then.
    pub(super) async fn ingest(
        &self,
        access: &Access,
        command: CommandStatementIngest,
        rows: Option<Incoming>,
    ) -> Result<u64, Status> {
        let handle = command.transaction_id.clone().unwrap_or_default();
        let stored = self.stored(access, command, rows).await.inspect_err(|_| self.fail(access, &handle))?;
        self.shared.metrics.add(Counter::FlightRows, stored);
        Ok(stored)
    }

    async fn stored(
        &self,
        access: &Access,
        command: CommandStatementIngest,
        rows: Option<Incoming>,
    ) -> Result<u64, Status> {
        let target = Target::of(&command)?;
        let rows = rows.ok_or_else(|| wrong("there are no rows, nor the columns of any"))?;
        let handle = command.transaction_id.unwrap_or_default();
        if command.temporary {
            if handle.is_empty() {
                return Err(wrong("a temporary table is one of a session: name it"));
            }
            let session = self.session(access, &handle)?;
            return self.add_table(target, &session, rows).await;
        }
        let within = self.within(access, &handle)?;
        within.admit().map_err(|error| status(&error))?;
        access.turn(true).await.map_err(|error| status(&error))?;
        match within.in_transaction().await {
            true => self.added(access, target, rows, &within).await,
            false => self.store(access, target, rows).await,
        }
    }

    /// Adds rows to an open transaction.
    async fn added(
        &self,
        access: &Access,
        target: Target,
        rows: Incoming,
        within: &Within,
    ) -> Result<u64, Status> {
        self.prepare(access, &target, rows.schema()).await?;
        let (batches, _charge) = rows.all(self).await?;
        let table = target.request.table;
        let added =
            within.conversation().blocking(&self.shared, move |session| add(session, &table, &batches)).await;
        added.map_err(|error| status(&error))
    }

    /// Rows of a transaction go into a table that is there, or is made for them at once.
    async fn prepare(&self, access: &Access, target: &Target, schema: &SchemaRef) -> Result<(), Status> {
        let is_there = access.table(Rights::NONE, &target.request.table);
        let is_there = is_there.map_err(|error| status(&error))?.is_some();
        match (is_there, target.fresh, target.replace) {
            (true, true, _) => {
                let name = target.request.table.clone();
                Err(status(&QueryError::from(EngineError::TableExists { name })))
            }
            (true, _, true) => Err(not_supported("replacing a table inside of a transaction")),
            (true, ..) => Ok(()),
            (false, ..) => {
                let (access, request, schema) = (access.clone(), target.request.clone(), Arc::clone(schema));
                let make = move || append(&access, &request, &schema, std::iter::empty());
                let made = self.shared.database.runtime().spawn_blocking(make).await;
                let made = made.map_err(|error| defect(FlightError::ExternalError(error.into())))?;
                made.map(|_| ()).map_err(|error| status(&error))
            }
        }
    }

    async fn add_table(&self, target: Target, session: &Session, rows: Incoming) -> Result<u64, Status> {
        let schema = Arc::clone(rows.schema());
        let (batches, charge) = rows.all(self).await?;
        let AppendRequest { table, timestamp, series, .. } = target.request;
        let frame = Frame::new(table, &schema, batches, timestamp.as_deref(), &series.unwrap_or_default());
        let frame = Arc::new(frame.map_err(|error| status(&error))?);
        let rows = frame.rows() as u64;
        session.add_table(frame, charge).await;
        Ok(rows)
    }

    /// Stores rows as they come, on a thread that may wait for the disk.
    async fn store(&self, access: &Access, target: Target, mut rows: Incoming) -> Result<u64, Status> {
        let (send, mut receive) = mpsc::channel::<Result<Option<RecordBatch>, ArrowError>>(BATCHES_WAITING);
        let (access, schema) = (access.clone(), Arc::clone(rows.schema()));
        let database = self.shared.database.clone();
        let mut ended = false;
        let batches = std::iter::from_fn(move || match receive.blocking_recv() {
            _ if ended => None,
            Some(Ok(Some(batch))) => Some(Ok(batch)),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some(Err(error)),
            // Whoever sends them is gone: what came before is not all there is.
            None => {
                ended = true;
                Some(Err(ArrowError::IpcError("the rows were cut off".to_string())))
            }
        });
        let stored = self
            .shared
            .database
            .runtime()
            .spawn_blocking(move || target.store(&access, database.engine(), &schema, batches));
        let mut cut_off = None;
        loop {
            let (next, is_last) = match rows.next().await {
                Ok(batch) => {
                    let is_last = batch.is_none();
                    (Ok(batch), is_last)
                }
                Err(error) => {
                    cut_off = Some(error.clone());
                    (Err(in_arrow(error)), true)
                }
            };
            // Whoever stores them may have ended early: it says why.
            if send.send(next).await.is_err() || is_last {
                break;
            }
        }
        drop(send);
        let stored = stored.await.map_err(|error| defect(FlightError::ExternalError(error.into())))?;
        match (stored, cut_off) {
            (_, Some(error)) => Err(error),
            (stored, None) => stored.map_err(|error| status(&error)),
        }
    }
}

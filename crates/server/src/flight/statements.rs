//! Statements: described when a client asks about them, run when it asks for their rows.

use super::failure::{defect, status, wrong};
use super::handles::lock;
use super::prepared::ipc;
use super::rows::{Listed, Plain, Wire};
use super::service::Inner;
use super::sessions::Within;
use crate::parameters::{Bound, are_named, names};
use crate::shared::Shared;
use crate::statement::{self, Answer};
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, Ticket};
use bytes::Bytes;
use prost::Message;
use std::io::Cursor;
use std::sync::Arc;
use tickstone_client::protocol::{Head, StatementTicket};
use tickstone_query::arrow::array::RecordBatch;
use tickstone_query::arrow::datatypes::{Schema, SchemaRef};
use tickstone_query::arrow::ipc::reader::StreamReader;
use tickstone_query::dialect::Statement;
use tickstone_query::import::claims::check_file;
use tickstone_query::{Access, Description, ParameterValue, Parameters, QueryError};
use tonic::Status;

/// A statement that is to be described or run.
pub(super) struct Asked {
    pub(super) text: Arc<str>,
    pub(super) statement: Statement,
    pub(super) within: Within,
    /// Values of its placeholders; `None` where none were given.
    pub(super) parameters: Option<Vec<RecordBatch>>,
}

/// The one statement of a text.
///
/// # Errors
/// Where it is no SQL, and where there are several.
pub(super) fn parse(shared: &Shared, sql: &str) -> Result<(Arc<str>, Statement), QueryError> {
    statement::one(shared.database.parse_with_texts(sql)?)
}

impl Asked {
    /// What a ticket asks for.
    ///
    /// # Errors
    /// Where it is no statement, and where its session or prepared statement is not there.
    pub(super) fn of_ticket(
        inner: &Inner,
        access: &Access,
        ticket: &StatementTicket,
    ) -> Result<Self, Status> {
        if !ticket.prepared.is_empty() {
            let prepared = inner.prepared(access, &ticket.prepared)?;
            let within = inner.home(&prepared)?;
            let parameters = lock(&prepared.parameters).clone();
            let (text, statement) = (Arc::clone(&prepared.text), prepared.statement.clone());
            return Ok(Self { text, statement, within, parameters });
        }
        let within = inner.within(access, &ticket.session)?;
        let parsed = parse(&inner.shared, &ticket.sql).inspect_err(|_| within.fail());
        let (text, statement) = parsed.map_err(|error| status(&error))?;
        let parameters = match ticket.parameters.is_empty() {
            true => None,
            false => Some(batches_of(&ticket.parameters)?),
        };
        Ok(Self { text, statement, within, parameters })
    }

    /// The columns of its rows; `None` where it gives none.
    ///
    /// # Errors
    /// Where it could not be run.
    pub(super) async fn rows(&self, inner: &Inner) -> Result<Option<SchemaRef>, QueryError> {
        let first = match &self.parameters {
            None => None,
            some => {
                let mut bound = Bound::new(self.statement.clone(), some.clone());
                bound.next().inspect_err(|_| self.within.fail())?
            }
        };
        Ok(describe(inner, &self.within, first.as_ref().unwrap_or(&self.statement)).await?.rows)
    }
}

/// What a statement gives and takes; its placeholders may have names.
///
/// # Errors
/// Where it could not be run.
pub(super) async fn describe(
    inner: &Inner,
    within: &Within,
    statement: &Statement,
) -> Result<Description, QueryError> {
    let names = names(statement);
    if !are_named(&names) {
        return within.describe(inner, statement).await;
    }
    let mut bare = [statement.clone()];
    Parameters::Named(names.into_iter().map(|name| (name, ParameterValue::Null)).collect())
        .bind(&mut bare)?;
    within.describe(inner, &bare[0]).await
}

fn batches_of(bytes: &Bytes) -> Result<Vec<RecordBatch>, Status> {
    let unread = |error: tickstone_query::arrow::error::ArrowError| {
        wrong(format!("the parameters are no Arrow stream: {error}"))
    };
    check_file(&mut Cursor::new(bytes), false).map_err(unread)?;
    let reader = StreamReader::try_new(bytes.as_ref(), None).map_err(unread)?;
    reader.collect::<Result<_, _>>().map_err(unread)
}

impl Inner {
    /// Describes a statement, and runs it where it gives no rows: what a client then gets for its ticket.
    ///
    /// # Errors
    /// Where it cannot be run.
    pub(super) async fn statement_info(
        &self,
        access: &Access,
        mut ticket: StatementTicket,
        descriptor: FlightDescriptor,
        plain: Plain,
    ) -> Result<FlightInfo, Status> {
        let asked = Asked::of_ticket(self, access, &ticket)?;
        let rows = asked.rows(self).await.map_err(|error| status(&error))?;
        let schema = match rows {
            Some(schema) => plain.schema(&schema),
            None => {
                self.update(asked).await?;
                ticket = StatementTicket { done: true, ..StatementTicket::default() };
                Arc::new(Schema::empty())
            }
        };
        ticket.number = self.number();
        ticket.columns = ipc(&schema)?;
        let ticket = TicketStatementQuery { statement_handle: ticket.encode_to_vec().into() };
        info(&schema, ticket.as_any().encode_to_vec(), descriptor)
    }

    /// Runs what a ticket asks for; its rows as they come.
    ///
    /// # Errors
    /// Where it fails before its first row.
    pub(super) async fn statement_rows(
        self: &Arc<Self>,
        access: &Access,
        ticket: StatementTicket,
        plain: Plain,
    ) -> Result<Wire, Status> {
        if ticket.done {
            return Ok(Wire::done(&Head { tag: Some(String::new()), ..Head::default() }));
        }
        let asked = Asked::of_ticket(self, access, &ticket)?;
        let gives_rows = match &asked.statement {
            Statement::Execute { .. } => asked.rows(self).await.map_err(|error| status(&error))?.is_some(),
            other => other.gives_rows(),
        };
        if !gives_rows {
            let (tag, changed) = self.update(asked).await?;
            return Ok(Wire::done(&Head { tag: Some(tag), changed, planning_nanos: 0 }));
        }
        let rows = asked.parameters.iter().flatten().map(RecordBatch::num_rows).sum::<usize>();
        if asked.statement.returns_rows() && rows > 1 {
            return Err(wrong("RETURNING takes one row of parameters: leave RETURNING out to store several"));
        }
        let mut bound = Bound::new(asked.statement, asked.parameters);
        let first = bound.next().inspect_err(|_| asked.within.fail()).map_err(|error| status(&error))?;
        let first = first.ok_or_else(|| wrong("the parameters have no row to run the statement for"))?;
        let mut listed = Listed::new(self, access.owner(), ticket.number);
        let run = asked.within.run_until(self, &asked.text, first, listed.cancelled()).await;
        match run.inspect_err(|_| asked.within.fail()).map_err(|error| status(&error))? {
            Answer::Rows(rows) => {
                let told = (!ticket.columns.is_empty()).then(|| Schema::try_from(IpcMessage(ticket.columns)));
                let told =
                    told.transpose().map_err(|error| wrong(format!("the ticket has no columns: {error}")))?;
                let schema = match told.filter(|told| told.fields().len() == rows.schema.fields().len()) {
                    Some(told) => Arc::new(told),
                    // Nobody was told of any, or the table has changed since.
                    None => plain.schema(&rows.schema),
                };
                Ok(Wire::rows(self, rows, schema, listed, (asked.within, asked.text, bound)))
            }
            Answer::Done { tag, rows } => {
                Ok(Wire::done(&Head { tag: Some(tag), changed: rows, planning_nanos: 0 }))
            }
        }
    }
}

/// What is told of rows before they are asked for.
///
/// # Errors
/// Where the columns cannot be told: a defect.
pub(super) fn info(
    schema: &Schema,
    ticket: Vec<u8>,
    descriptor: FlightDescriptor,
) -> Result<FlightInfo, Status> {
    let info = FlightInfo::new().try_with_schema(schema).map_err(defect)?;
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor))
}

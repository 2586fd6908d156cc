//! The calls of Flight, each handed on to who answers it.

use super::actions::{self, message};
use super::connection::{Caller, Charge};
use super::failure::{not_supported, status, wrong};
use super::handles::{Handles, Numbers};
use super::ingest::Incoming;
use super::metadata;
use super::prepared::{Prepared, count, ipc};
use super::rows::{Messages, Plain, Wire};
use super::sessions::Session;
use super::statements::{Asked, info};
use crate::logins::bearer_of;
use crate::shared::Shared;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    Any, Command, CommandStatementIngest, DoPutPreparedStatementResult, DoPutUpdateResult,
    TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use prost::Message;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tickstone_client::protocol::StatementTicket;
use tickstone_query::arrow::datatypes::Schema;
use tickstone_query::{Access, listed};
use tokio::sync::watch;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};
use tracing::info;

/// The token that who logs in is given. Any is taken, as any name is, until there are users.
const TOKEN: &str = "Bearer tickstone";

/// What cancels statements, by the numbers of their users and their own.
type Cancels = HashMap<(Option<u32>, u64), watch::Sender<bool>>;

/// Everything that clients of the port share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) shared: Arc<Shared>,
    pub(super) handles_max: usize,
    pub(super) numbers: Numbers,
    pub(super) sessions: Handles<Session>,
    pub(super) prepared: Handles<Prepared>,
    /// Statements whose rows are read, by their user and their numbers: what cancels them.
    pub(super) running: Mutex<Cancels>,
}

impl Inner {
    /// The number of a statement.
    pub(super) fn number(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.numbers.next();
        u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
    }
}

/// The service of the port. Clones are of the same.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    inner: Arc<Inner>,
}

impl Flight {
    /// A service over a database; what nobody uses goes after `flight_idle_timeout`.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let inner = Arc::new(Inner {
            shared: Arc::clone(shared),
            handles_max: shared.settings.count("flight_handles_max"),
            numbers: Numbers::default(),
            sessions: Handles::default(),
            prepared: Handles::default(),
            running: Mutex::default(),
        });
        if let Some(idle) = shared.settings.time("flight_idle_timeout") {
            let weak = Arc::downgrade(&inner);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(idle / 4).await;
                    let Some(inner) = weak.upgrade() else { return };
                    let (sessions, statements) =
                        (inner.sessions.forget_idle(idle), inner.prepared.forget_idle(idle));
                    if sessions + statements > 0 {
                        info!(
                            sessions,
                            statements, "Flight: not used for flight_idle_timeout, and forgotten"
                        );
                    }
                }
            });
        }
        Self { inner }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// What a descriptor asks for.
    fn asked(&self, descriptor: &FlightDescriptor) -> Result<Wanted, Status> {
        match descriptor.path.as_slice() {
            [] => Wanted::of(&descriptor.cmd),
            [table] => Ok(Wanted::Statement(all_of(table))),
            _ => Err(wrong("a path is the name of one table")),
        }
    }

    /// What is told of the rows of a request.
    async fn info(&self, request: Request<FlightDescriptor>) -> Result<FlightInfo, Status> {
        let (inner, plain) = (&self.inner, Plain::of(request.metadata()));
        let access = Caller::of(&request)?.access;
        let descriptor = request.into_inner();
        match self.asked(&descriptor)? {
            Wanted::Statement(ticket) => inner.statement_info(&access, ticket, descriptor, plain).await,
            Wanted::Metadata(command) => {
                let schema = metadata::schema(&command)?;
                info(&schema, command.into_any().encode_to_vec(), descriptor)
            }
        }
    }

    /// What is told of the rows of a table by itself.
    async fn table_info(&self, access: &Access, table: String) -> Result<FlightInfo, Status> {
        let descriptor = FlightDescriptor::new_path(vec![table.clone()]);
        self.inner.statement_info(access, all_of(&table), descriptor, Plain::default()).await
    }

    async fn put(&self, request: Request<Streaming<FlightData>>) -> Result<Bytes, Status> {
        let access = Caller::of(&request)?.access;
        let charge = request.extensions().get::<Arc<Charge>>().map(Arc::clone);
        let charge = charge.unwrap_or_else(|| Arc::new(Charge::new(&self.inner.shared)));
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| wrong("there is no message"))?;
        let descriptor = first.flight_descriptor.clone();
        let descriptor = descriptor.ok_or_else(|| wrong("the first message says no descriptor"))?;
        let rows = Incoming::of(first, messages, charge).await?;
        if let [table] = descriptor.path.as_slice() {
            return self.update(self.inner.ingest(&access, self.simple_ingest(table), rows).await?);
        }
        let command: Any = message(&descriptor.cmd)?;
        match command_of(command)? {
            Command::CommandStatementUpdate(command) => {
                let session = command.transaction_id.unwrap_or_default();
                let ticket = StatementTicket { sql: command.query, session, ..StatementTicket::default() };
                let (_, changed) =
                    self.inner.update(Asked::of_ticket(&self.inner, &access, &ticket)?).await?;
                Ok(updated(count(changed)))
            }
            Command::CommandStatementIngest(command) => {
                self.update(self.inner.ingest(&access, command, rows).await?)
            }
            Command::CommandPreparedStatementQuery(command) => {
                self.inner.bind(&access, &command.prepared_statement_handle, rows).await?;
                let handle = Some(command.prepared_statement_handle);
                Ok(DoPutPreparedStatementResult { prepared_statement_handle: handle }.encode_to_vec().into())
            }
            Command::CommandPreparedStatementUpdate(command) => {
                let changed =
                    self.inner.update_prepared(&access, &command.prepared_statement_handle, rows).await?;
                Ok(updated(changed))
            }
            other => Err(not_supported(&format!("putting rows to '{}'", other.type_url()))),
        }
    }

    fn update(&self, rows: u64) -> Result<Bytes, Status> {
        Ok(updated(count(Some(rows))))
    }

    /// What rows for a path do: they are appended, and make the table where that is allowed.
    fn simple_ingest(&self, table: &str) -> CommandStatementIngest {
        let missing = match self.inner.shared.making().tables {
            true => TableNotExistOption::Create,
            false => TableNotExistOption::Fail,
        };
        let options = TableDefinitionOptions {
            if_not_exist: missing as i32,
            if_exists: TableExistsOption::Append as i32,
        };
        let table = table.to_string();
        CommandStatementIngest { table_definition_options: Some(options), table, ..Default::default() }
    }
}

fn updated(record_count: i64) -> Bytes {
    DoPutUpdateResult { record_count }.encode_to_vec().into()
}

/// All rows of a table.
fn all_of(table: &str) -> StatementTicket {
    let sql = format!("SELECT * FROM \"{}\"", table.replace('"', "\"\""));
    StatementTicket { sql, ..StatementTicket::default() }
}

/// A command of Flight SQL.
fn command_of(command: Any) -> Result<Command, Status> {
    Command::try_from(command).map_err(|error| wrong(format!("the command cannot be read: {error}")))
}

/// Rows that a client asks about, or for.
enum Wanted {
    Statement(StatementTicket),
    Metadata(Command),
}

impl Wanted {
    /// What the bytes of a command or of a ticket ask for: one of Flight SQL, or a statement as it is written.
    fn of(bytes: &Bytes) -> Result<Self, Status> {
        let any = Any::decode(bytes.clone()).ok().filter(|any| any.type_url.contains('/'));
        let Some(any) = any else {
            return match std::str::from_utf8(bytes) {
                Ok(sql) if !sql.trim().is_empty() => Ok(Wanted::Statement(StatementTicket {
                    sql: sql.to_string(),
                    ..StatementTicket::default()
                })),
                _ => Err(wrong("it is neither a command of Flight SQL nor a statement")),
            };
        };
        Ok(match command_of(any)? {
            Command::CommandStatementQuery(command) => Wanted::Statement(StatementTicket {
                sql: command.query,
                session: command.transaction_id.unwrap_or_default(),
                ..StatementTicket::default()
            }),
            Command::CommandPreparedStatementQuery(command) => Wanted::Statement(StatementTicket {
                prepared: command.prepared_statement_handle,
                ..StatementTicket::default()
            }),
            Command::TicketStatementQuery(ticket) => Wanted::Statement(message(&ticket.statement_handle)?),
            other => Wanted::Metadata(other),
        })
    }
}

#[async_trait::async_trait]
impl FlightService for Flight {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = Messages;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = Messages;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    /// Takes any name and password where there are no users; where there are some, the header was checked.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let said = request.metadata().get("authorization").cloned();
        let mut messages = request.into_inner();
        let first = messages.message().await?.unwrap_or_default();
        let payload = Bytes::from_static(TOKEN.as_bytes());
        let answer = HandshakeResponse { protocol_version: first.protocol_version, payload };
        let mut response = Response::new(stream::iter([Ok(answer)]).boxed());
        // What proved the client goes with each of its calls, where there are users.
        let has_users = self.shared().database.has_users().unwrap_or(true);
        let said = said.as_ref().filter(|_| has_users).and_then(|said| said.to_str().ok());
        let token = said.and_then(bearer_of).and_then(|token| token.parse().ok());
        let token = token.unwrap_or(MetadataValue::from_static(TOKEN));
        response.metadata_mut().insert("authorization", token);
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        if !request.get_ref().expression.is_empty() {
            return Err(not_supported("criteria of flights"));
        }
        let access = Caller::of(&request)?.access;
        let snapshot = access.snapshot().map_err(|error| status(&error))?;
        let names: Vec<String> = listed(&snapshot).map(|table| table.schema().name().to_string()).collect();
        let flight = self.clone();
        let infos = stream::iter(names).filter_map(move |name| {
            let (flight, access) = (flight.clone(), access.clone());
            // A view that cannot be read, because its owner was dropped for one, takes no other's place.
            async move { flight.table_info(&access, name).await.ok().map(Ok) }
        });
        Ok(Response::new(infos.boxed()))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        self.info(request).await.map(Response::new)
    }

    /// All there is to tell is told at once.
    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let info = Some(self.info(request).await?);
        Ok(Response::new(PollInfo {
            info,
            flight_descriptor: None,
            progress: Some(1.0),
            expiration_time: None,
        }))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let (plain, access) = (Plain::of(request.metadata()), Caller::of(&request)?.access);
        let schema = match self.asked(request.get_ref())? {
            Wanted::Statement(ticket) => {
                let asked = Asked::of_ticket(&self.inner, &access, &ticket)?;
                let rows = asked.rows(&self.inner).await.map_err(|error| status(&error))?;
                rows.map_or_else(|| Arc::new(Schema::empty()), |rows| plain.schema(&rows))
            }
            Wanted::Metadata(command) => metadata::schema(&command)?,
        };
        Ok(Response::new(SchemaResult { schema: ipc(&schema)? }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let (plain, access) = (Plain::of(request.metadata()), Caller::of(&request)?.access);
        let wire = match Wanted::of(&request.get_ref().ticket)? {
            Wanted::Statement(ticket) => self.inner.statement_rows(&access, ticket, plain).await?,
            Wanted::Metadata(command) => Wire::batch(metadata::rows(&self.inner, &access, command).await?),
        };
        Ok(Response::new(wire.messages))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let app_metadata = self.put(request).await?;
        Ok(Response::new(stream::iter([Ok(PutResult { app_metadata })]).boxed()))
    }

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(not_supported("DoExchange"))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let results = self.inner.act(request.get_ref(), &Caller::of(&request)?).await?;
        let results = results.into_iter().map(|body| Ok(arrow_flight::Result { body }));
        Ok(Response::new(stream::iter(results.collect::<Vec<_>>()).boxed()))
    }

    async fn list_actions(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        Ok(Response::new(stream::iter(actions::types().map(Ok).collect::<Vec<_>>()).boxed()))
    }
}

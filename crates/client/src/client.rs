//! [`Client`]: a connection to a server, or a session of it.

use crate::address::{Address, Trust, authorities};
use crate::append::{self, Append};
use crate::credentials::{Authorization, Service};
use crate::error::{ClientError, Kind, Result, is_cut_off};
use crate::protocol::{
    BEGIN_SESSION, END_SESSION, FORGET_TABLES, KEEP_SESSION, PORT, SessionBegun, StatementTicket,
};
use crate::rows::{self, Answer, unreadable};
use crate::tls;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{CommandGetTables, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{Action, Empty, FlightDescriptor, IpcMessage, Ticket};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use prost::Message;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection that is used is asked for a sign of life, and how long that may take.
const ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Bytes of rows that may come before they are read.
const WINDOW_BYTES: u32 = 8 << 20;

/// A connection to a server, or a session of it; clones share it. Each statement has a session of its own, unless the
/// client is that of a [`session`](Client::session).
#[derive(Clone)]
pub struct Client {
    service: Service,
    address: Address,
    session: Option<Arc<Session>>,
}

/// A session of the server, until the last that refers to it goes.
struct Session {
    handle: Bytes,
    service: Service,
    runtime: Handle,
    /// Says now and then that it is still wanted.
    keeping: Option<AbortHandle>,
}

impl Session {
    fn new(begun: SessionBegun, service: Service) -> Self {
        let (runtime, handle) = (Handle::current(), begun.handle);
        let keeping = (begun.idle_millis > 0).then(|| {
            let every = Duration::from_millis(begun.idle_millis.div_ceil(4));
            let (mut service, handle) = (service.clone(), handle.clone());
            let keep = async move {
                loop {
                    tokio::time::sleep(every).await;
                    // A server that is gone may come back; one that has no such session says so at the next
                    // statement.
                    let _ = service.do_action(Action::new(KEEP_SESSION, handle.clone())).await;
                }
            };
            runtime.spawn(keep).abort_handle()
        });
        Self { handle, service, runtime, keeping }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(keeping) = &self.keeping {
            keeping.abort();
        }
        let (mut service, handle) = (self.service.clone(), self.handle.clone());
        // Where the runtime is gone, so is the connection, and the server ends the session after a while.
        self.runtime
            .spawn(async move { service.do_action(Action::new(END_SESSION, handle)).await.map(|_| ()) });
    }
}

/// How TLS is spoken with a server: by the name that its address has.
///
/// # Errors
/// Where a file of certificates cannot be read.
fn tls_config(address: &Address, trust: &Trust) -> Result<ClientTlsConfig> {
    let config = ClientTlsConfig::new().domain_name(address.host_name());
    let config = match trust {
        Trust::System => config.with_native_roots(),
        Trust::File(path) => config.ca_certificate(Certificate::from_pem(authorities(path)?)),
    };
    let Some(identity) = &address.identity else { return Ok(config) };
    let text = identity.read()?;
    Ok(config.identity(Identity::from_pem(text.certificate, text.key)))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_session = self.session.is_some();
        f.debug_struct("Client").field("address", &self.address).field("in_session", &in_session).finish()
    }
}

/// Whether a server ended a connection because of the client's certificate (RFC 8446, 6.2), by what rustls says of it.
fn is_refused_certificate(cause: &str) -> bool {
    let alert = cause.split_once("received fatal alert: ").map_or("", |(_, alert)| alert);
    ["UnknownCA", "DecryptError", "AccessDenied"].iter().any(|known| alert.starts_with(known))
        || alert.contains("Certificate")
}

/// A server that does not take the certificate of this client.
fn refused_certificate(address: &Address, cause: &str) -> ClientError {
    let Address { host, port, .. } = address;
    let what = format!("{host}:{port} refuses the certificate of this client: {cause}");
    ClientError::new(Kind::FixRequest, what).hint(
        "it must be signed by an authority in tls_client_ca of the server, and neither have expired nor be revoked: \
         `tickstone cert --user` makes one",
    )
}

impl Client {
    /// Connects to an address as [`Address::parse`] reads it.
    ///
    /// # Errors
    /// Where that is no address, and as [`Self::connect_to`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_to(Address::parse(url)?).await
    }

    /// Connects to an address.
    ///
    /// # Errors
    /// Where the file of authorities cannot be read, where no server answers there, or one whose certificate is not
    /// trusted, and where the server does not know who connects.
    pub async fn connect_to(address: Address) -> Result<Self> {
        let uri = address.uri();
        let wrong = |error: tonic::transport::Error| {
            ClientError::request(format!("'{uri}' is no address of a server: {error}"))
        };
        let authorization = Authorization::of(address.credentials.as_ref())?;
        let endpoint = Endpoint::from_shared(uri.clone()).map_err(wrong)?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_INTERVAL)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let endpoint = match &address.trust {
            None => endpoint,
            Some(trust) => endpoint.tls_config(tls_config(&address, trust)?).map_err(wrong)?,
        };
        let channel = endpoint.connect().await.map_err(|error| unreached(&address, &error))?;
        let service = FlightServiceClient::with_interceptor(channel, authorization)
            .max_decoding_message_size(usize::MAX);
        let client = Self { service, address, session: None };
        client.greet().await?;
        Ok(client)
    }

    /// Finds out whether what is there speaks Flight: a connection is there also where it does not.
    async fn greet(&self) -> Result<()> {
        let Err(mut cause) = self.ask_actions().await? else { return Ok(()) };
        let address = &self.address;
        if let Some(trust) = &address.trust {
            // A refusal may have reset the connection on which the request was on its way, and be lost.
            if !is_refused_certificate(&cause) {
                let (address, trust) = (address.clone(), trust.clone());
                let asked =
                    tokio::task::spawn_blocking(move || tls::refusal(&address, &trust, CONNECT_TIMEOUT));
                if let Ok(Ok(Some(refusal))) = asked.await {
                    cause = refusal;
                }
            }
            if is_refused_certificate(&cause) {
                return Err(refused_certificate(address, &cause));
            }
        }
        let Address { host, port, .. } = address;
        let what = format!("what listens at {host}:{port} does not answer as Arrow Flight SQL does: {cause}");
        Err(ClientError::new(Kind::Retry, what).hint(format!(
            "name the flight_port of the server, {PORT} unless it was told another; 9000 is its port of REST, 8812 that \
             of PostgreSQL. One that requires TLS wants tickstone+tls://"
        )))
    }

    /// Asks what every server of Flight SQL answers; the inner error is why there is no answer.
    ///
    /// # Errors
    /// Where the server does not know who asks.
    async fn ask_actions(&self) -> Result<std::result::Result<(), String>> {
        let mut service = self.service();
        let asked = service.list_actions(Empty::default());
        match tokio::time::timeout(CONNECT_TIMEOUT, asked).await {
            Ok(Err(status)) if is_cut_off(&status) => Ok(Err(innermost(&status))),
            Ok(Err(status)) if status.code() == Code::Unauthenticated => {
                let hint = match &self.address.credentials {
                    None => {
                        "write tickstone://user:password@host (Python: user= and password=, token=, or cert= and key=)"
                    }
                    Some(_) => "an admin gives another password: ALTER USER … PASSWORD …",
                };
                Err(ClientError::from(status).hint(hint))
            }
            Ok(_) => Ok(Ok(())),
            Err(_) => Ok(Err(format!("no answer for {CONNECT_TIMEOUT:?}"))),
        }
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A session of the server: settings, prepared statements and a transaction that its statements share. It ends
    /// when all clones of the client and all rows of its statements are dropped, or a while after the program is
    /// gone; an open transaction is rolled back then.
    ///
    /// # Errors
    /// Where there are too many sessions, and where the server is gone.
    pub async fn session(&self) -> Result<Self> {
        let begun = self.act(BEGIN_SESSION, Bytes::new()).await?.unwrap_or_default();
        let begun = SessionBegun::decode(begun).map_err(|error| unreadable(&error.to_string()))?;
        if begun.handle.is_empty() {
            return Err(unreadable("it began no session"));
        }
        let session = Session::new(begun, self.service());
        Ok(Self { session: Some(Arc::new(session)), ..self.clone() })
    }

    /// Ends its session before it is dropped, and waits for that: an open transaction is rolled back.
    ///
    /// # Errors
    /// Where the server is gone: it ends the session itself after a while.
    pub async fn end(&self) -> Result<()> {
        match &self.session {
            Some(session) => self.act(END_SESSION, session.handle.clone()).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// The handle of its session; empty where it has none.
    fn handle(&self) -> Bytes {
        self.session.as_ref().map(|session| session.handle.clone()).unwrap_or_default()
    }

    fn service(&self) -> Service {
        self.service.clone()
    }

    /// Runs the one statement of a text. `parameters` are the values of its placeholders: a column each, in the order
    /// of `$1`, `$2`, … or named as `:name`; a statement is run once for each row of them.
    ///
    /// # Errors
    /// Those of the statement; nothing of it was stored then.
    pub async fn query(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<Answer> {
        let ticket = Ticket::new(self.ticket(sql, parameters)?);
        let messages = self.service().do_get(ticket).await?.into_inner();
        let session = self.session.as_ref().map(|session| Arc::clone(session) as Arc<dyn Send + Sync>);
        rows::answer(messages, session).await
    }

    /// Runs a statement to its end; the rows it changed, where it did that.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn execute(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<Option<u64>> {
        match self.query(sql, parameters).await? {
            Answer::Done { rows, .. } => Ok(rows),
            Answer::Rows(rows) => rows.try_for_each(|_| std::future::ready(Ok(()))).await.map(|()| None),
        }
    }

    /// The columns that a statement gives, without running it; none where it gives no rows.
    ///
    /// # Errors
    /// Where the statement could not be run.
    pub async fn schema(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<SchemaRef> {
        let descriptor = FlightDescriptor::new_cmd(self.ticket(sql, parameters)?);
        let told = self.service().get_schema(descriptor).await?.into_inner();
        Ok(Arc::new(Schema::try_from(IpcMessage(told.schema))?))
    }

    /// The tables, or the tables and views, with their columns: the designated timestamp and the series key are
    /// marked in the metadata of their fields.
    ///
    /// # Errors
    /// Where the server is gone.
    pub async fn tables(&self, views: bool) -> Result<Vec<(String, Schema)>> {
        let mut wanted = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
        if !views {
            wanted.table_types.push("TABLE".to_string());
        }
        let ticket = Ticket::new(wanted.as_any().encode_to_vec());
        let messages = self.service().do_get(ticket).await?.into_inner();
        let batches = FlightRecordBatchStream::new_from_flight_data(messages.map_err(FlightError::from));
        let batches: Vec<RecordBatch> = batches.try_collect().await?;
        let mut tables = Vec::new();
        for batch in &batches {
            let column =
                |name: &str| batch.column_by_name(name).ok_or_else(|| unreadable("a column is missing"));
            let (names, schemas) = (column("table_name")?, column("table_schema")?);
            let texts = names.as_string_opt::<i32>().ok_or_else(|| unreadable("names are no texts"))?;
            let bytes = schemas.as_binary_opt::<i32>().ok_or_else(|| unreadable("columns are no bytes"))?;
            for row in 0..batch.num_rows() {
                let schema = IpcMessage(Bytes::copy_from_slice(bytes.value(row)));
                tables.push((texts.value(row).to_string(), Schema::try_from(schema)?));
            }
        }
        Ok(tables)
    }

    /// Appends rows to a table in one commit; how many. They are as safe as the table wants them when it returns. In
    /// a session with an open transaction they are part of that.
    ///
    /// # Errors
    /// Where the rows do not fit the table or it is missing, and where `rows` gives an error, which is handed on.
    /// Nothing is stored then.
    pub async fn append<S>(&self, to: &Append, schema: &SchemaRef, rows: S) -> Result<u64>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'static,
    {
        append::append(self.service(), self.handle(), to, schema, rows).await
    }

    /// Forgets the temporary tables of the session.
    ///
    /// # Errors
    /// Where the session has ended, and where the server is gone.
    pub async fn forget_tables(&self) -> Result<()> {
        self.act(FORGET_TABLES, self.handle()).await.map(|_| ())
    }

    /// Calls an action; its first result.
    async fn act(&self, name: &str, body: Bytes) -> Result<Option<Bytes>> {
        let mut results = self.service().do_action(Action::new(name, body)).await?.into_inner();
        let mut first = None;
        while let Some(result) = results.message().await? {
            first.get_or_insert(result.body);
        }
        Ok(first)
    }

    fn ticket(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<Vec<u8>> {
        let parameters = parameters.map(stream_of).transpose()?.unwrap_or_default();
        let ticket = StatementTicket {
            sql: sql.to_string(),
            session: self.handle(),
            parameters: parameters.into(),
            ..StatementTicket::default()
        };
        let ticket = TicketStatementQuery { statement_handle: ticket.encode_to_vec().into() };
        Ok(ticket.as_any().encode_to_vec())
    }
}

fn stream_of(rows: &RecordBatch) -> std::result::Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema())?;
    writer.write(rows)?;
    writer.into_inner()
}

/// What an error says, in the words of whoever knows most.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Why no server answers.
fn unreached(address: &Address, error: &tonic::transport::Error) -> ClientError {
    let cause = innermost(error);
    if address.trust.is_some() && is_refused_certificate(&cause) {
        return refused_certificate(address, &cause);
    }
    if address.trust.is_some() && cause.contains("certificate") {
        let what = format!("the server at {}:{} is not trusted: {cause}", address.host, address.port);
        return ClientError::request(what).hint(
            "its certificate must be of the host in the address, and of an authority that the system trusts or that \
             ?ca=FILE names (Python: ca=)",
        );
    }
    let what = format!("no server answers at {}:{}: {cause}", address.host, address.port);
    let error = ClientError::new(Kind::Retry, what);
    error.hint("start one with `tickstone serve`; its flight_port is the one to name")
}

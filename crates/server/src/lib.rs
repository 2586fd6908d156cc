//! The server: a database behind the protocols that people already use.
//!
//! Owns every listening socket, what connections may take, and the settings and counters of a server. A protocol is a
//! folder or file that turns its messages into calls of [`Database`] and rows into bytes; what two protocols need stands
//! above them once: rows into tables ([`ingest`]), statements and their rows ([`statement`]), HTTP ([`http`]).
//!
//! ```text
//! socket ─► listen ─┬► ilp::tcp ───────────────► ingest ─► Engine
//!                   ├► http ─┬► ilp::http ──────┤
//!                   │        ├► qwp ──────┬─────┘
//!                   │        └► rest, mcp ┼────► statement ─► Session
//!                   ├► pg ────────────────┘
//!                   └► stream ──────────────────────► Engine
//! ```
//!
//! Never knows how rows are stored or statements planned. Enter at [`Server`].

mod audit;
mod certificate;
mod connection;
mod flight;
mod guesses;
mod half_closed;
mod http;
mod ilp;
mod ingest;
mod json;
mod listen;
mod logins;
pub mod mcp;
mod metrics;
mod parameters;
mod pg;
mod qwp;
mod rest;
pub mod settings;
mod shared;
mod socket;
mod statement;
mod stream;
mod subscribe;
mod tls;
mod told;
mod transport;

use audit::Audit;
use settings::{SettingError, Settings};
use shared::Shared;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_query::Database;
use tls::Tls;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tracing::{info, warn};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A port cannot be bound.
    #[error(
        "cannot listen on {address} ({setting}): {source}; stop what uses it, or choose another port or off"
    )]
    Bind {
        /// The setting of the port.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(#[source] std::io::Error),
}

/// A server that runs. It ends with [`Self::stop`]; dropped, it ends at once.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    addresses: Vec<(&'static str, SocketAddr)>,
    audit: Option<Arc<Audit>>,
}

impl Server {
    /// Binds the ports and serves a database behind them.
    ///
    /// # Errors
    /// [`StartError`]; nothing is bound then.
    pub fn start(database: Database, settings: Settings) -> Result<Self, StartError> {
        let host = settings
            .host()
            .ok_or_else(|| SettingError::new(format!("host = '{}' is no address", settings.text("host"))))?;
        settings::warn_of_variables();
        database.hurry(false);
        let is_loopback = host.is_loopback();
        let tls = Tls::of(&settings)?;
        let has_users = database.has_users().map_err(|error| SettingError::new(error.to_string()))?;
        let needs_tls = tls.as_ref().is_some_and(|tls| tls.is_required);
        let may_lack = |what: &str| [what, "true"].contains(&settings.text("insecure"));
        let lacks = if !has_users && !may_lack("users") {
            let made = "make an admin first, `tickstone user add NAME --admin --data DIR`";
            Some(("users", format!("there are no users: anybody could read and write everything; {made}")))
        } else if !needs_tls && !may_lack("tls") {
            let set = "set tls_certificate, tls_key and require_tls = true";
            Some(("tls", format!("passwords and rows could be read on their way; {set}")))
        } else {
            None
        };
        if let Some((word, lacks)) = lacks.filter(|_| !is_loopback) {
            let what = format!(
                "host = '{host}' is reached from other machines, and {lacks}; or set insecure = {word} if that is meant"
            );
            return Err(SettingError::new(what).into());
        }
        if !is_loopback && !has_users {
            warn!(%host, "insecure: anybody who reaches the ports may read and write everything");
        }
        if !is_loopback && tls.is_none() {
            warn!(%host, "insecure: without tls_certificate, what clients send and are sent may be read on its way");
        }
        database.show_settings(settings.shown());
        database.allow_files(settings.allowed_files());
        database.engine().streams().set_memory(settings.bytes("stream_memory"));
        let age = settings.time("tape_keep_age").unwrap_or(Duration::MAX);
        database.engine().keep_tape(settings.bytes("tape_keep_bytes") as u64, age);
        for table in database.engine().swept() {
            warn!(table, "a table was being filled when the process before ended: what it had is dropped");
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tickstone-server")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let shared = Arc::new(Shared::new(database, settings, is_loopback, tls));
        let audit = Audit::begin(&shared.database, &shared.settings, &shared.metrics)?;
        shared.database.set_auditor(audit.clone().map(|audit| audit as _));
        let (stop, _) = watch::channel(false);
        let mut bound = Vec::new();
        for port in listen::PORTS {
            let Some(number) = shared.settings.port(port.setting) else { continue };
            let address = SocketAddr::new(host, number);
            let socket = std::net::TcpListener::bind(address).map_err(|source| StartError::Bind {
                setting: port.setting,
                address,
                source,
            })?;
            bound.push((port, socket));
        }
        let mut addresses = Vec::new();
        for (port, socket) in bound {
            let address = socket.local_addr().map_err(StartError::Threads)?;
            socket.set_nonblocking(true).map_err(StartError::Threads)?;
            let listener = {
                let _inside = runtime.enter();
                tokio::net::TcpListener::from_std(socket).map_err(StartError::Threads)?
            };
            runtime.spawn(listen::listen(port, Arc::clone(&shared), listener, stop.subscribe()));
            info!(%address, "{} listens", port.setting);
            addresses.push((port.setting, address));
        }
        Ok(Self { shared, runtime: Some(runtime), stop, addresses, audit })
    }

    /// The ports that are bound, by the names of their settings.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// Ends it: no more connections are taken, those there are end after what they are at; whether all had ended before
    /// `shutdown_timeout`.
    pub fn stop(mut self) -> bool {
        self.shared.database.hurry(true);
        let _ = self.stop.send(true);
        let patience = self.shared.settings.time("shutdown_timeout").unwrap_or_default();
        let begun = Instant::now();
        let open = || self.shared.metrics.get(metrics::Counter::ConnectionsOpen);
        while open() > 0 && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = open() == 0;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        self.end_audit();
        ended
    }

    /// Writes down what the audit log lacks.
    fn end_audit(&mut self) {
        if let Some(audit) = self.audit.take() {
            self.shared.database.set_auditor(None);
            audit.end();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.end_audit();
    }
}

//! [`Shared`]: what every connection has at hand.

use crate::guesses::Guesses;
use crate::ingest::Making;
use crate::mcp::Calls;
use crate::metrics::Metrics;
use crate::pg::Cancels;
use crate::pg::catalog::PgCatalog;
use crate::settings::Settings;
use crate::tls::Tls;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};
use std::time::Instant;
use tickstone_engine::streams::Stream;
use tickstone_query::{Database, SystemCatalog};
use tracing::warn;

/// Files that are left to the database.
const FILES_LEFT: usize = 256;

/// What every connection has at hand.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    /// What TLS is spoken with; `None` where it is not.
    pub(crate) tls: Option<Tls>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) is_loopback: bool,
    pub(crate) connections_max: usize,
    /// Bytes of the bodies of all requests under way.
    pub(crate) body_bytes: AtomicUsize,
    /// The connections of the PostgreSQL port that can be cancelled.
    pub(crate) cancels: Arc<Cancels>,
    /// What tools of PostgreSQL ask.
    pub(crate) catalog: Arc<PgCatalog>,
    /// The streams that any connection has opened since the server began, by their ids.
    pub(crate) streams: RwLock<HashMap<u16, Stream>>,
    /// The requests of MCP under way, which can be cancelled.
    pub(crate) mcp_calls: Calls,
    /// Wrong passwords and tokens.
    pub(crate) guesses: Guesses,
    pub(crate) started: Instant,
}

impl Shared {
    pub(crate) fn new(database: Database, settings: Settings, is_loopback: bool, tls: Option<Tls>) -> Self {
        let connections_max = connections_max(settings.count("connections_max"));
        let catalog = Arc::new(PgCatalog::new(&database));
        database.set_system(Arc::clone(&catalog) as Arc<dyn SystemCatalog>);
        Self {
            database,
            settings,
            tls,
            metrics: Arc::default(),
            is_loopback,
            connections_max,
            body_bytes: AtomicUsize::new(0),
            cancels: Arc::default(),
            catalog,
            streams: RwLock::default(),
            mcp_calls: Calls::default(),
            guesses: Guesses::default(),
            started: Instant::now(),
        }
    }

    /// Whether clients must speak TLS.
    pub(crate) fn needs_tls(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_required)
    }

    /// What rows that come may make.
    pub(crate) fn making(&self) -> Making {
        let may = |name| self.settings.switch(name);
        Making { tables: may("auto_create_tables"), columns: may("auto_create_columns") }
    }
}

/// How many connections there may be: `connections_max`, and no more than the system has files for.
fn connections_max(wanted: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files =
        limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let Some(files) = files.and_then(|files| files.parse::<usize>().ok()) else { return wanted };
    let most = files.saturating_sub(FILES_LEFT).max(files / 2);
    if most < wanted {
        warn!(files, "connections_max is {wanted}, but the process may open {files} files: {most} are taken");
    }
    wanted.min(most)
}

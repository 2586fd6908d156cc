//! A connection, whatever is spoken on it.

use crate::metrics::Counter;
use crate::shared::Shared;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Bytes of rows and documents that are read behind the moment at which the server is told to stop: what the system held
/// by then, and no more of a client that goes on sending.
pub(crate) const LAST_BYTES: usize = 16 << 20;

/// How long none come until a connection ends then.
pub(crate) const LAST_PATIENCE: Duration = Duration::from_millis(50);

/// One connection that counts, until it goes.
#[derive(Debug)]
pub(crate) struct Open {
    shared: Arc<Shared>,
}

impl Open {
    /// `None` where there are as many as there may be.
    pub(crate) fn new(shared: &Arc<Shared>) -> Option<Self> {
        let metrics = &shared.metrics;
        metrics.add(Counter::ConnectionsOpen, 1);
        let open = Self { shared: Arc::clone(shared) };
        if metrics.get(Counter::ConnectionsOpen) > shared.connections_max as u64 {
            metrics.add(Counter::ConnectionsRefused, 1);
            return None;
        }
        metrics.add(Counter::Connections, 1);
        Some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.metrics.less(Counter::ConnectionsOpen);
    }
}

/// A connection, as a request that makes another protocol of it knows it.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) peer: SocketAddr,
    /// Changes when the server is told to stop.
    pub(crate) stopping: watch::Receiver<bool>,
    _open: Arc<Open>,
}

impl Taken {
    pub(crate) fn new(peer: SocketAddr, stopping: watch::Receiver<bool>, open: &Arc<Open>) -> Self {
        Self { peer, stopping, _open: Arc::clone(open) }
    }
}

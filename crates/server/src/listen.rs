//! Ports: who is taken, and who serves them.

use crate::metrics::Counter;
use crate::{Shared, http, ilp, rest};
use axum::Router;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::{debug, warn};

/// One port.
#[derive(Debug)]
pub(crate) struct Port {
    /// The setting that has its number.
    pub(crate) setting: &'static str,
    protocol: Protocol,
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Lines,
    Http(fn() -> Router<Arc<Shared>>),
}

/// Every port.
pub(crate) const PORTS: &[Port] = &[
    Port { setting: "http_port", protocol: Protocol::Http(rest::routes) },
    Port { setting: "influx_port", protocol: Protocol::Http(rest::influx_routes) },
    Port { setting: "ilp_port", protocol: Protocol::Lines },
];

/// Files that are left to the database.
const FILES_LEFT: usize = 256;

/// How many connections there may be: `connections_max`, and no more than the system has files for.
pub(crate) fn connections_max(wanted: usize) -> usize {
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

/// One connection that counts, until it goes.
struct Open {
    shared: Arc<Shared>,
}

impl Open {
    fn new(shared: &Arc<Shared>) -> Option<Self> {
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

/// Takes connections until the server stops.
pub(crate) async fn listen(
    port: &'static Port,
    shared: Arc<Shared>,
    listener: TcpListener,
    mut stopping: watch::Receiver<bool>,
) {
    let router = match port.protocol {
        Protocol::Lines => None,
        Protocol::Http(routes) => {
            let guard = axum::middleware::from_fn_with_state(Arc::clone(&shared), http::guarded);
            Some(routes().layer(guard).with_state(Arc::clone(&shared)))
        }
    };
    loop {
        let (stream, peer) = tokio::select! {
            taken = listener.accept() => match taken {
                Ok(taken) => taken,
                Err(error) => {
                    // Out of files, mostly: some will be closed.
                    warn!(%error, "{}: cannot take a connection", port.setting);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            _ = stopping.changed() => return,
        };
        let Some(open) = Open::new(&shared) else {
            warn!(%peer, "{}: more than connections_max; closed", port.setting);
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (shared, stopping, router) = (Arc::clone(&shared), stopping.clone(), router.clone());
        tokio::spawn(async move {
            match router {
                None => ilp::tcp::serve(shared, stream, peer, stopping).await,
                Some(router) => serve_http(&shared, router, stream, peer, stopping).await,
            }
            drop(open);
        });
    }
}

async fn serve_http(
    shared: &Shared,
    router: Router,
    stream: TcpStream,
    peer: SocketAddr,
    mut stopping: watch::Receiver<bool>,
) {
    let patience = shared.settings.time("idle_timeout");
    // hyper's own time begins with the first byte.
    if let Some(patience) = patience
        && tokio::time::timeout(patience, stream.readable()).await.is_err()
    {
        return;
    }
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(patience);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "HTTP: connection ended");
    }
}

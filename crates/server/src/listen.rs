//! Ports: who is taken, and who serves them.

use crate::connection::{Open, Taken};
use crate::half_closed::{Answer, HalfClosed, UnderWay};
use crate::metrics::Counter;
use crate::shared::Shared;
use crate::tls::Inside;
use crate::transport::{Beginning, Transport, drain};
use crate::{flight, http, ilp, logins, pg, rest, stream as streams};
use axum::Router;
use axum::http::Request;
use axum::http::header::UPGRADE;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tickstone_query::Access;
use tickstone_query::audit::Origin;
use tokio::io::AsyncWriteExt;
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
    Streams,
    Postgres,
    Flight,
    Http(fn() -> Router<Arc<Shared>>),
}

/// Every port.
pub(crate) const PORTS: &[Port] = &[
    Port { setting: "http_port", protocol: Protocol::Http(rest::routes) },
    Port { setting: "influx_port", protocol: Protocol::Http(rest::influx_routes) },
    Port { setting: "pg_port", protocol: Protocol::Postgres },
    Port { setting: "flight_port", protocol: Protocol::Flight },
    Port { setting: "ilp_port", protocol: Protocol::Lines },
    Port { setting: "stream_port", protocol: Protocol::Streams },
];

/// What the connections of a port are served with.
#[derive(Debug, Clone)]
enum Serving {
    Lines,
    Streams,
    Postgres,
    Flight(flight::Flight),
    Http(Router),
}

impl Serving {
    fn new(protocol: Protocol, shared: &Arc<Shared>) -> Self {
        match protocol {
            Protocol::Lines => Serving::Lines,
            Protocol::Streams => Serving::Streams,
            Protocol::Postgres => Serving::Postgres,
            Protocol::Flight => Serving::Flight(flight::Flight::new(shared)),
            Protocol::Http(routes) => {
                let guard = axum::middleware::from_fn_with_state(Arc::clone(shared), http::guarded);
                Serving::Http(routes().layer(guard).with_state(Arc::clone(shared)))
            }
        }
    }
}

impl Serving {
    /// As the audit log has it.
    fn protocol(&self) -> &'static str {
        match self {
            Serving::Lines => "line protocol",
            Serving::Streams => "streams",
            Serving::Postgres => "postgresql",
            Serving::Flight(_) => "flight",
            Serving::Http(_) => "http",
        }
    }

    /// What is spoken inside of TLS.
    fn inside(&self) -> Inside {
        match self {
            Serving::Lines | Serving::Streams => Inside::Unnamed,
            Serving::Postgres => Inside::Postgres,
            Serving::Flight(_) => Inside::Http2,
            Serving::Http(_) => Inside::Http,
        }
    }

    /// How long a client may take over its first byte, where the server has to see it.
    fn patience(&self, shared: &Shared) -> Option<Duration> {
        match self {
            // A feed may be silent for as long as it likes, but where it has to say who it is.
            Serving::Lines | Serving::Streams => {
                let proves = shared.needs_tls() || shared.database.has_users().unwrap_or(true);
                proves.then_some(logins::PATIENCE)
            }
            _ => shared.settings.time("idle_timeout"),
        }
    }
}

/// How long nothing comes until the system asks whether the client is still there, and how often it then does.
const PROBES_AFTER: Duration = Duration::from_secs(60);
const PROBES_APART: Duration = Duration::from_secs(10);

/// Takes connections until the server stops.
pub(crate) async fn listen(
    port: &'static Port,
    shared: Arc<Shared>,
    listener: TcpListener,
    mut stopping: watch::Receiver<bool>,
) {
    let serving = Serving::new(port.protocol, &shared);
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
        end_without_client(&stream, shared.settings.time("send_timeout"));
        let (shared, stopping, serving) = (Arc::clone(&shared), stopping.clone(), serving.clone());
        let open = Arc::new(open);
        tokio::spawn(async move {
            let Some(stream) = begin(&shared, stream, peer, &serving, stopping.clone()).await else { return };
            match serving {
                Serving::Lines => ilp::tcp::serve(shared, stream, peer, stopping).await,
                Serving::Streams => streams::serve(shared, stream, peer, stopping).await,
                Serving::Postgres => pg::serve(shared, stream, peer, stopping).await,
                Serving::Flight(flight) => flight::serve(flight, stream, peer, stopping).await,
                Serving::Http(router) => {
                    let taken = Taken::new(peer, stopping, &open);
                    serve_http(&shared, router, stream, taken).await;
                }
            }
            drop(open);
        });
    }
}

/// Has the system end a connection whose client has gone without a word, or takes nothing of what is sent to it. Where it
/// does not know how, the connection is served all the same.
fn end_without_client(stream: &TcpStream, send_timeout: Option<Duration>) {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(PROBES_AFTER).with_interval(PROBES_APART);
    let _ = socket.set_tcp_keepalive(&probes);
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(send_timeout);
    #[cfg(not(target_os = "linux"))]
    let _ = send_timeout;
}

/// What a connection is served on; `None` where it is not served, or the server stops before anything came.
async fn begin(
    shared: &Shared,
    stream: TcpStream,
    peer: SocketAddr,
    serving: &Serving,
    mut stopping: watch::Receiver<bool>,
) -> Option<Transport> {
    let begun = tokio::select! {
        begun = Transport::begin(stream, shared, serving.inside(), serving.patience(shared)) => begun,
        _ = stopping.changed() => return None,
    };
    match begun {
        Ok(Beginning::Served(transport)) => {
            if transport.is_encrypted() {
                shared.metrics.add(Counter::TlsConnections, 1);
            }
            Some(transport)
        }
        Ok(Beginning::Plain(stream)) => {
            shared.metrics.add(Counter::TlsRefused, 1);
            warn!(%peer, "a client without TLS, which require_tls wants; closed");
            if matches!(serving, Serving::Http(_)) {
                tell_of_tls(stream).await;
            }
            None
        }
        Ok(Beginning::Gone) => None,
        Err(error) => {
            shared.metrics.add(Counter::TlsRefused, 1);
            debug!(%peer, %error, "TLS: no handshake; closed");
            let origin = Origin { protocol: serving.protocol(), address: Some(peer.ip()) };
            logins::tell_certificate(shared, &error, origin).await;
            None
        }
    }
}

/// Tells a client of HTTP in the clear that this port does not speak it.
async fn tell_of_tls(mut stream: TcpStream) {
    const WHAT: &str = "{\"error\":\"this server takes TLS alone (require_tls): ask https://\"}\n";
    let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{WHAT}", WHAT.len());
    // It has room: nothing was written before.
    if stream.write_all(answer.as_bytes()).await.is_ok() {
        drain(stream).await;
    }
}

async fn serve_http(shared: &Shared, router: Router, mut stream: Transport, taken: Taken) {
    let patience = shared.settings.time("idle_timeout");
    // hyper's own time begins with the first byte.
    if let Some(patience) = patience
        && tokio::time::timeout(patience, stream.look(1, |_| false)).await.is_err()
    {
        return;
    }
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(patience);
    let (peer, mut stopping) = (taken.peer, taken.stopping.clone());
    let client = http::Peer { address: peer.ip(), certified: stream.certified() };
    let router = TowerToHyperService::new(router);
    let under_way = UnderWay::default();
    let stream = HalfClosed::new(stream, under_way.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client.clone());
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(taken.clone());
        }
        let (begun, answer) = (under_way.begin(), router.call(request));
        async move {
            let mut answer = answer.await?;
            let access = answer.extensions_mut().remove::<Access>();
            Ok::<_, Infallible>(answer.map(|body| Answer::new(body, (begun, access))))
        }
    });
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

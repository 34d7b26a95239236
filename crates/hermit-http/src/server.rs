//! Taking connections in, and serving each until it or the broker ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use hermit_broker::{Broker, StartProgress};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::blocking::holding;
use crate::config::HttpConfig;
use crate::door::Place;
use crate::guarded::{Guarded, Unwritten, Written};
use crate::held::{Endless, Held, Large};
use crate::listing::Listing;
use crate::problem::Problem;
use crate::router::{finish, is_health, router};
use crate::secure::{self, Begun};
use crate::stage::Standing;
use crate::timed::Timed;

/// After an accept that failed, as for the want of descriptors: the connection stays with the system, and trying at once would spin.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Time that requests have to end once the broker was closed: they can get no more than an error.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of the head of a request; the least that hyper takes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// From where a request came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// The client's address.
    pub(crate) address: SocketAddr,
    /// Whether others can not read along.
    pub(crate) encrypted: bool,
    /// Whether they must not, and can.
    pub(crate) wants_tls: bool,
}

/// An HTTP server for a broker that may still be being opened. Cheap to clone; all clones are the same server.
#[derive(Debug, Clone)]
pub struct HttpServer {
    standing: Arc<Standing>,
}

impl HttpServer {
    /// A server that says "starting" until it [has a broker](HttpServer::serves).
    #[must_use]
    pub fn new(config: HttpConfig) -> Self {
        Self { standing: Arc::new(Standing::starting(config)) }
    }

    /// What is told of the start on `/readyz`: to be given to the broker as [`BrokerConfig::start_progress`](hermit_broker::BrokerConfig::start_progress).
    #[must_use]
    pub fn start_progress(&self) -> Arc<StartProgress> {
        Arc::clone(self.standing.progress())
    }

    /// Answers for `broker` from now on, until it stops.
    pub fn serves(&self, broker: &Broker) {
        self.standing.serves(broker);
    }

    /// Reads certificate, key and authorities, for the first time or again: from then on clients that begin with a TLS handshake get it, on the same port as all others, and
    /// where it is required, those get nothing but `/healthz` and `/readyz`. Connections that are there go on.
    ///
    /// # Errors
    /// As [`Broker::reload_tls`]; everything is then as it was.
    #[cfg(feature = "tls")]
    pub fn reload_tls(&self, config: &hermit_broker::TlsConfig) -> Result<hermit_broker::TlsReport, hermit_broker::BrokerError> {
        self.standing.tls().reload(config)
    }

    /// Whether `/metrics` shows each partition from the next scrape on, whatever [`HttpConfig::metrics_per_partition`] said.
    pub fn show_partitions(&self, shown: bool) {
        self.standing.show_partitions(shown);
    }

    /// The settings that it was begun with.
    #[must_use]
    pub fn config(&self) -> &HttpConfig {
        self.standing.config()
    }

    /// From now on one address gets so many connections, whatever [`HttpConfig::max_connections_per_address`] said. Those that are there stay.
    pub fn limit_addresses(&self, max_connections_per_address: usize) {
        self.standing.door().limit_addresses(max_connections_per_address);
    }

    /// The metrics of `broker` as OpenTelemetry has them, to be sent to a collector, whether or not this server serves: lists of `Metric` in the JSON encoding of OTLP, all of one
    /// moment, each of about 1 MiB and made as it is asked for. Takes as long as a scrape: not on a thread that has no time to wait.
    pub fn otlp_metrics(&self, broker: &Broker) -> impl Iterator<Item = String> + use<> {
        crate::metrics::otlp(broker, &self.standing)
    }

    /// Serves a listener until the broker was closed. While that stops, what was asked is answered, within its drain timeout; `/healthz` and `/readyz` are answered
    /// to the end, and everything else is refused.
    pub async fn serve(&self, listener: TcpListener) {
        let (ending, end) = watch::channel(false);
        let router = router(Arc::clone(&self.standing));
        let mut connections = JoinSet::new();
        let mut followed = std::pin::pin!(self.standing.follow());
        loop {
            tokio::select! {
                () = &mut followed => break,
                Some(ended) = connections.join_next() => report_panic(ended),
                accepted = listener.accept() => match accepted {
                    Ok((socket, address)) => match self.standing.door().enter(address.ip()) {
                        Some(place) => {
                            let serving = Serving::new(&self.standing, router.clone(), place);
                            connections.spawn(take_in(socket, address, serving, end.clone()));
                        }
                        None => tracing::debug!(peer = %address, "there are too many HTTP connections"),
                    },
                    Err(error) => {
                        tracing::debug!(%error, "no HTTP connection can be taken in now");
                        tokio::time::sleep(BACK_OFF).await;
                    }
                },
            }
        }
        drop(listener);
        ending.send_replace(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(CUT_TIMEOUT, ended).await.is_err() {
            connections.shutdown().await;
        }
    }
}

/// Serves a broker over HTTP until it was closed.
pub async fn serve(listener: TcpListener, broker: &Broker, config: HttpConfig) {
    let server = HttpServer::new(config);
    server.serves(broker);
    server.serve(listener).await;
}

/// What answers the requests of a connection.
#[derive(Debug, Clone)]
struct Serving {
    standing: Arc<Standing>,
    router: Router,
    place: Arc<Place>,
    listing: Arc<Listing>,
    unwritten: Unwritten,
}

impl Serving {
    fn new(standing: &Arc<Standing>, router: Router, place: Place) -> Self {
        let (place, listing) = (Arc::new(place), Arc::new(Listing::new(standing)));
        Self { standing: Arc::clone(standing), router, place, listing, unwritten: Unwritten::default() }
    }

    async fn answer(mut self, request: Request<Incoming>, peer: Peer) -> Result<Response<Guarded>, Infallible> {
        // Who asks anew before it has taken the answer does not wait for that.
        self.unwritten.give_back();
        let is_health = is_health(request.uri().path());
        let busy = if is_health { None } else { self.place.begin() };
        let (response, held) = if busy.is_some() || is_health {
            let held = Arc::new(Held::new(busy));
            (self.route(request, peer, &held).await?, Some(held))
        } else {
            let problem = Problem::busy("too many requests are under way: try again, or stream and wait less");
            (problem.into_response(), None)
        };
        Ok(finish(&self.standing, response).map(|body| Guarded::new(body, held, self.unwritten)))
    }

    async fn route(&mut self, mut request: Request<Incoming>, peer: Peer, held: &Arc<Held>) -> Result<Response, Infallible> {
        self.listing.list(peer);
        request.extensions_mut().insert(Arc::clone(&self.listing));
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(Arc::clone(held));
        // What was changed is told in any case.
        let only_reads = request.method() == Method::GET;
        let mut response = holding(Arc::clone(held), self.router.call(request)).await?;
        if response.extensions().get::<Endless>().is_some() {
            held.lets_stop();
        }
        if only_reads
            && let Some(Large { bytes }) = response.extensions().get()
            && !held.takes_room(*bytes)
        {
            response = Problem::throttled().into_response();
        }
        Ok(response)
    }
}

/// Serves a connection to its end: through TLS, where it begins so.
async fn take_in(socket: TcpStream, address: SocketAddr, serving: Serving, end: watch::Receiver<bool>) {
    // Answers are written in one piece; waiting for more would only delay them.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "a socket does not take an option");
    }
    let put_out = serving.place.put_out();
    let served = async {
        match secure::begin(socket, &serving.place, &serving.standing).await {
            Ok(Begun::Plain { socket, wants_tls }) => {
                run(socket, Peer { address, encrypted: false, wants_tls }, serving, end).await;
            }
            #[cfg(feature = "tls")]
            Ok(Begun::Secure(stream)) => {
                run(stream, Peer { address, encrypted: true, wants_tls: false }, serving, end).await;
            }
            Err(error) => tracing::debug!(peer = %address, %error, "an HTTP connection did not begin"),
        }
    };
    tokio::select! {
        () = Box::pin(served) => {}
        () = put_out => tracing::debug!(peer = %address, "an HTTP connection that was idle made room for another"),
    }
}

async fn run<S>(stream: S, peer: Peer, serving: Serving, mut end: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    serving.listing.list(peer);
    let (standing, listing, unwritten) = (Arc::clone(&serving.standing), Arc::clone(&serving.listing), serving.unwritten.clone());
    let config = standing.config();
    let service = hyper::service::service_fn(move |request| serving.clone().answer(request, peer));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(config.header_timeout).max_buf_size(MAX_HEAD_BYTES);
    let stream = Written::new(Timed::new(stream, config.write_timeout, config.min_rate), unwritten);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = listing.to_be_closed() => return tracing::info!(peer = %peer.address, "an HTTP connection was closed by an administrator"),
        () = async { drop(end.wait_for(|end| *end).await) } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(peer = %peer.address, %error, "an HTTP connection ended");
    }
}

/// A panic takes one connection, and is a fault to be told.
fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "an HTTP connection's task panicked; the connection is closed");
    }
}

#[cfg(test)]
mod tests;

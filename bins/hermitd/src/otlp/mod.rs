//! OpenTelemetry: metrics and the log, pushed to a collector by OTLP over HTTP in its JSON encoding (the OpenTelemetry protocol specification 1.x).
//!
//! All of it is done by a thread of its own with a runtime of its own, so that no name that is looked up and no collector that is slow takes anything from the broker, its
//! start or its stop. What it is given waits in a queue of bounded size.

mod backoff;
mod endpoint;
mod event;
mod export;
mod post;
mod queue;
mod stop;
mod value;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::Context as _;
use hermit_broker::Broker;
use hermit_http::HttpServer;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::settings::Settings;

pub(crate) use endpoint::Endpoint;
pub(crate) use event::Events;
use export::Source;
use post::Post;
use queue::Queue;
use stop::Stop;
use value::{attribute, text, whole};

/// Time that a stop gives to what is not sent by then.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// For names that are looked up, and for reading the metrics.
const BLOCKING_THREADS: usize = 3;

/// Sends until it is dropped, which takes [`STOP_TIMEOUT`] at most.
#[derive(Debug)]
pub(crate) struct Exporter {
    queue: Arc<Queue>,
    source: watch::Sender<Option<Source>>,
    stop: watch::Sender<Option<Instant>>,
    /// Closed when it has ended.
    ended: mpsc::Receiver<()>,
}

/// Begins to send, if the settings say so.
///
/// # Errors
/// A setting that cannot be used, or no thread.
pub(crate) fn begin(settings: &Settings) -> anyhow::Result<Option<Exporter>> {
    if !settings.otlp.is_on() {
        return Ok(None);
    }
    let endpoint = Endpoint::open(&settings.otlp).map_err(|wrong| anyhow::anyhow!(wrong.message))?;
    let (every, resource) = (settings.otlp.interval, resource(settings));
    let (stop, stops) = Stop::channel();
    let (source, sources) = watch::channel(None);
    let (ending, ended) = mpsc::channel::<()>();
    let queue = Arc::new(Queue::default());
    let events = Arc::clone(&queue);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("hermitd-otlp")
        .build()
        .context("cannot start the runtime of the OpenTelemetry export")?;
    let export = move || {
        runtime.block_on(async {
            let metrics = export::metrics(sources, Post::to(&endpoint, "metrics"), &resource, every, stops.clone());
            let logs = export::logs(events, Post::to(&endpoint, "logs"), &resource, stops);
            tokio::join!(Box::pin(metrics), Box::pin(logs));
        });
        // A look-up of a name may never end.
        runtime.shutdown_background();
        drop(ending);
    };
    std::thread::Builder::new().name("hermitd-otlp".into()).spawn(export).context("no thread for the OpenTelemetry export")?;
    Ok(Some(Exporter { queue, source, stop, ended }))
}

impl Exporter {
    /// What takes the events of the log.
    pub(crate) fn events(&self) -> Events {
        Events::into(Arc::clone(&self.queue))
    }

    /// Sends the metrics of `broker`, as `server` would show them.
    pub(crate) fn serves(&self, server: &HttpServer, broker: &Broker) {
        self.source.send_replace(Some(Source { server: server.clone(), broker: broker.clone() }));
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.send_replace(Some(Instant::now() + STOP_TIMEOUT));
        // It ends by itself; this is for what does not look at the time.
        let _ended_or_late = self.ended.recv_timeout(STOP_TIMEOUT + Duration::from_millis(100));
    }
}

/// Whose metrics and events these are, in the words of OpenTelemetry's conventions.
fn resource(settings: &Settings) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let port = settings.listen.rsplit_once(':').map_or("", |(_, port)| port);
    let instance = settings.otlp.instance.clone().unwrap_or_else(|| format!("{host}:{port}"));
    let attributes = [
        attribute("service.name", text(&settings.otlp.service_name)),
        attribute("service.version", text(env!("CARGO_PKG_VERSION"))),
        attribute("service.instance.id", text(&instance)),
        attribute("host.name", text(&host)),
        attribute("process.pid", whole(std::process::id().into())),
    ];
    json!({ "attributes": attributes }).to_string()
}

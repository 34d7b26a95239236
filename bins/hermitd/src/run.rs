//! Running the broker until a signal ends it.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hermit_broker::Broker;
use tokio::signal::unix::Signal;
use tokio::task::JoinHandle;

use crate::http::{self, Http};
use crate::otlp::{self, Exporter};
use crate::reload::Reload;
use crate::settings::{Settings, Sources};
use crate::signals::{Hearing, WhileStarting};
use crate::{descriptors, listener, logs, notify, say, signals, takeover, watchdog};

/// Threads for requests that wait for the disk, such as creating topics. Searches and TLS handshakes, of which the broker does so many at a time as there are processors
/// and half as many, have others beside these: a flood of either leaves the rest their turn.
const BLOCKING_THREADS: usize = 8;
/// Time that they have to end once the data directory is closed.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens the broker, serves it, and stops it gracefully.
pub(crate) fn run(settings: &Settings, sources: Sources, hearing: Hearing) -> anyhow::Result<()> {
    let (hearing_runtime, signals, hangup) = hearing.into_parts();
    // Dropped after all that follows, so that it has what the rest says at its end.
    let exporter = otlp::begin(settings)?;
    let filter = logs::begin(&settings.log, settings.log_format, exporter.as_ref().map(Exporter::events))?;
    let mut config = settings.broker.clone();
    descriptors::arrange(&mut config);
    settings.notes.iter().for_each(|note| tracing::warn!(note, "a note on the settings"));
    let processors = std::thread::available_parallelism().map_or(2, |count| count.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.threads)
        .max_blocking_threads(BLOCKING_THREADS + 2 * processors)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let http = http::begin(&runtime, settings)?;
    let progress = http.as_ref().map_or_else(Arc::default, |http| http.server.start_progress());
    let following = runtime.spawn(notify::follow_start(Arc::clone(&progress)));
    takeover::take_over(&config, settings.import)?;
    config.described_settings = settings.described(&config);
    config.start_progress = Some(progress);
    let broker = Broker::open(config)?;
    following.abort();
    broker.report().log();
    let http_server = http.as_ref().map(|http| http.server.clone()).or_else(|| exporter.as_ref().map(|_| http::unserved(settings)));
    if let (Some(exporter), Some(server)) = (&exporter, &http_server) {
        exporter.serves(server, &broker);
    }
    let reload = Reload::new(sources, filter, settings.in_force(broker.config()), http_server);
    let served = runtime.block_on(serve(&broker, settings, http, reload, (signals, hangup)));
    if served.is_err() {
        Hearing::while_ending(&hearing_runtime);
    }
    // After an error the data directory is still to be closed; after a graceful stop this does nothing.
    let closed = broker.close().context("the stop was not a clean one");
    // A blocking request that nobody waits for any more must not hold the stop; the directory is closed to it.
    runtime.shutdown_timeout(BLOCKING_TIMEOUT);
    served.and(closed)
}

async fn serve(
    broker: &Broker,
    settings: &Settings,
    mut http: Option<Http>,
    reload: Reload,
    (signals, hangup): (WhileStarting, Signal),
) -> anyhow::Result<()> {
    // These and no others: a name may stand for something else the next time.
    let addresses = settings.addresses().map_err(|error| cannot_listen(&settings.listen, "--listen", error))?;
    settings.check_reach(&addresses)?;
    let listener = listener::listen(&addresses).map_err(|error| cannot_listen(&settings.listen, "--listen", error))?;
    let address = listener.local_addr()?;
    let mut serving = tokio::spawn({
        let broker = broker.clone();
        async move { broker.serve(listener).await }
    });
    // Not before the native port listens as well: `/readyz` sends clients to both.
    if let Some(http) = &http {
        http.server.serves(broker);
    }
    tracing::info!(%address, durability = ?broker.config().topic_defaults.durability, "ready");
    let http_words = http.as_ref().map(|http| http.words(settings)).unwrap_or_default();
    if let Err(error) = say(&format!("ready hermit={address}{http_words}\n")) {
        tracing::warn!(%error, "standard output does not take the line that says ready");
    }
    notify::ready(address, None);
    watchdog::begin(broker);
    let (mut signals, came) = signals.done().await?;
    let first = tokio::select! {
        biased;
        first = async { if let Some(came) = came { came } else { signals.next().await } } => first,
        error = ended(&mut serving, http.as_mut().map(|http| &mut http.serving)) => return Err(error),
        never = reloads(hangup, reload, broker, address) => match never {},
    };
    notify::stopping(broker.limits_in_force().drain_timeout);
    let closing = tokio::spawn({
        let broker = broker.clone();
        async move {
            broker.closing().await;
            notify::closing();
        }
    });
    tracing::info!("stopping; a second signal forces");
    tokio::select! {
        stopped = broker.shutdown() => stopped.context("the stop was not a clean one")?,
        () = signals.forcing(first) => signals::forced(),
    }
    // It was told, as all logs are closed.
    closing.await.context("telling the service manager ended badly")?;
    if let Some(http) = http {
        http.serving.await.context("serving HTTP ended badly")?;
    }
    serving.await.context("serving ended badly")
}

/// Waits until the one or the other serves no more, which nobody has asked for.
async fn ended(serving: &mut JoinHandle<()>, http: Option<&mut JoinHandle<()>>) -> anyhow::Error {
    let http = async {
        match http {
            Some(http) => http.await,
            None => std::future::pending().await,
        }
    };
    let (what, ended) = tokio::select! {
        ended = serving => ("serving", ended),
        ended = http => ("serving HTTP", ended),
    };
    match ended {
        Ok(()) => anyhow::anyhow!("{what} ended by itself"),
        Err(error) => anyhow::Error::new(error).context(format!("{what} ended badly")),
    }
}

/// Reads the settings again whenever that is asked for: one time after the other, on a thread where it may wait, so that a stop never waits for it.
async fn reloads(mut hangup: Signal, reload: Reload, broker: &Broker, address: SocketAddr) -> Infallible {
    let reload = Arc::new(reload);
    while hangup.recv().await.is_some() {
        notify::reloading();
        let (reload, broker) = (Arc::clone(&reload), broker.clone());
        let reloaded = tokio::task::spawn_blocking(move || reload.reload(&broker)).await;
        let word = reloaded.unwrap_or_else(|error| {
            tracing::error!(%error, "SIGHUP: a fault in the broker; not all of it may have been done");
            Some("not all settings may have changed, by a fault in the broker: the log tells more".to_owned())
        });
        notify::ready(address, word.as_deref());
    }
    std::future::pending().await
}

pub(crate) fn cannot_listen(listen: &str, flag: &str, error: std::io::Error) -> anyhow::Error {
    let what_to_do = match error.kind() {
        ErrorKind::AddrInUse => {
            format!(", which another process has: stop that one, or choose another address or port with {flag}")
        }
        ErrorKind::AddrNotAvailable => format!(", which is no address of this machine: choose another with {flag}"),
        ErrorKind::PermissionDenied => format!(", which this user may not: choose a port from 1024 on with {flag}"),
        _ => String::new(),
    };
    anyhow::Error::new(error).context(format!("cannot listen on {listen}{what_to_do}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_serves_no_more_is_noticed() {
        let (mut serves, mut ends) = (tokio::spawn(std::future::pending()), tokio::spawn(async { panic!("a fault") }));
        let told = format!("{:#}", ended(&mut serves, Some(&mut ends)).await);
        assert!(told.starts_with("serving HTTP ended badly") && told.contains("panic"), "{told}");
        let told = ended(&mut tokio::spawn(async {}), None).await.to_string();
        assert_eq!(told, "serving ended by itself");
        serves.abort();
    }
}

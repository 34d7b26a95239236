//! What is sent when: events soon after they came, metrics at an interval; and again after a while where a collector does not take it.

use std::sync::Arc;
use std::time::Duration;

use hermit_broker::Broker;
use hermit_broker::log::{Clock as _, SystemClock};
use hermit_http::HttpServer;
use hyper::body::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::backoff::Backoff;
use super::event;
use super::post::{Answer, Post};
use super::queue::{Queue, Record};
use super::stop::Stop;

/// Time for more events to come after the first.
const GATHER: Duration = Duration::from_millis(500);
/// Time between two words on events that were lost.
const TELL: Duration = Duration::from_secs(10);

/// What has the metrics.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) server: HttpServer,
    pub(super) broker: Broker,
}

/// How a collector takes one kind of what it is sent. It is told when that changes, and not each time.
struct Taking {
    signal: &'static str,
    post: Post,
    backoff: Backoff,
    is_good: bool,
}

impl Taking {
    fn new(post: Post, signal: &'static str) -> Self {
        Self { signal, post, backoff: Backoff::default(), is_good: true }
    }

    /// Sends a body; the time to wait before it is sent again, if it is to be. `None` where the end came first.
    async fn send(&mut self, body: String, stop: &mut Stop) -> Option<Result<Sent, Duration>> {
        let answer = stop.within(self.post.send(Bytes::from(body))).await?;
        let (signal, was_good) = (self.signal, self.is_good);
        self.is_good = matches!(answer, Answer::Taken { rejected: 0, .. });
        Some(match answer {
            Answer::Taken { rejected, why } => {
                self.backoff.after_success();
                if rejected > 0 && was_good {
                    tracing::warn!(
                        signal,
                        rejected,
                        error = why,
                        "OpenTelemetry: the collector has rejected a part of what was sent"
                    );
                } else if rejected == 0 && !was_good {
                    tracing::info!(signal, "OpenTelemetry: the collector takes what is sent again");
                }
                Ok(Sent::Taken)
            }
            Answer::Refused { why } => {
                if was_good {
                    tracing::warn!(
                        signal,
                        error = why,
                        "OpenTelemetry: the collector has refused what was sent, and it is not sent again"
                    );
                }
                Ok(Sent::Refused)
            }
            Answer::Later { after, why } => {
                let wait = self.backoff.after_failure(after);
                if was_good {
                    tracing::warn!(
                        signal,
                        error = why,
                        "OpenTelemetry: the collector cannot be sent anything now; it is tried again"
                    );
                }
                Err(wait)
            }
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Taken,
    Refused,
}

/// Sends events until the end.
pub(super) async fn logs(queue: Arc<Queue>, post: Post, resource: &str, mut stop: Stop) {
    let mut taking = Taking::new(post, "logs");
    let (mut lost, mut told): (u64, Option<Instant>) = (0, None);
    let mut batch = Vec::new();
    loop {
        let now = SystemClock.now();
        let before = batch.len();
        batch.retain(|record: &Record| !record.is_too_old(now));
        queue.lose(before - batch.len());
        if batch.is_empty() {
            batch = queue.take(now);
        }
        if batch.is_empty() {
            if stop.is_asked() {
                break;
            }
            let more = async {
                queue.filled().await;
                sleep(GATHER).await;
            };
            stop.asked_or(more).await;
            continue;
        }
        match taking.send(body_of_logs(resource, &batch), &mut stop).await {
            Some(Ok(sent)) => {
                if sent == Sent::Refused {
                    queue.lose(batch.len());
                }
                batch.clear();
                lost += queue.take_lost();
                // While it refuses, that is known.
                if lost > 0 && sent == Sent::Taken && told.is_none_or(|told| told.elapsed() >= TELL) {
                    tracing::warn!(lost, "OpenTelemetry: events of the log were not sent");
                    queue.push(event::lost(lost));
                    (lost, told) = (0, Some(Instant::now()));
                }
            }
            Some(Err(wait)) if !stop.is_asked() => stop.asked_or(sleep(wait)).await,
            // At the end there is one attempt.
            Some(Err(_)) | None => break,
        }
    }
    let lost = lost + queue.take_lost() + (batch.len() + queue.len()) as u64;
    if lost > 0 {
        tracing::warn!(lost, "OpenTelemetry: the stop came before all events of the log were sent");
    }
}

/// Sends metrics until the end, once there are any.
pub(super) async fn metrics(
    mut source: watch::Receiver<Option<Source>>,
    post: Post,
    resource: &str,
    every: Duration,
    mut stop: Stop,
) {
    stop.asked_or(async { drop(source.wait_for(Option::is_some).await) }).await;
    let Some(source) = source.borrow().clone() else { return };
    let mut taking = Taking::new(post, "metrics");
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut not_before = Instant::now();
    loop {
        stop.asked_or(async {
            ticks.tick().await;
        })
        .await;
        let is_last = stop.is_asked();
        if is_last || Instant::now() >= not_before {
            // What was not taken by the next round is told by that.
            not_before = round(&source, &mut taking, resource, Instant::now() + every, &mut stop).await;
        }
        if is_last {
            break;
        }
    }
}

/// Sends the metrics of one moment until the next are `due`; when the next attempt may be.
async fn round(source: &Source, taking: &mut Taking, resource: &str, due: Instant, stop: &mut Stop) -> Instant {
    let now = Instant::now();
    let Source { server, broker } = source.clone();
    // It looks at every partition, and may read logs.
    let collected = tokio::task::spawn_blocking(move || server.otlp_metrics(&broker));
    let Some(Ok(lists)) = stop.within(collected).await else { return now };
    for list in lists {
        let body = body_of_metrics(resource, &list);
        loop {
            let wait = match taking.send(body.clone(), stop).await {
                None => return now,
                Some(Ok(_)) => break,
                Some(Err(wait)) => wait,
            };
            let again = Instant::now() + wait;
            if stop.is_asked() || again >= due {
                return again;
            }
            stop.asked_or(sleep_until(again)).await;
            if stop.is_asked() {
                return now;
            }
        }
    }
    now
}

const SCOPE: &str = concat!("{\"name\":\"hermitd\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

fn body_of_metrics(resource: &str, list: &str) -> String {
    format!("{{\"resourceMetrics\":[{{\"resource\":{resource},\"scopeMetrics\":[{{\"scope\":{SCOPE},\"metrics\":{list}}}]}}]}}")
}

fn body_of_logs(resource: &str, records: &[Record]) -> String {
    let records = records.iter().map(|record| record.json.as_str()).collect::<Vec<_>>().join(",");
    format!("{{\"resourceLogs\":[{{\"resource\":{resource},\"scopeLogs\":[{{\"scope\":{SCOPE},\"logRecords\":[{records}]}}]}}]}}")
}

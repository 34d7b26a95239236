//! Stopping.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermit_log::Log;
use tokio::sync::watch;

use super::Broker;
use crate::error::BrokerError;
use crate::events::Event;
use crate::start::clean;

/// Where the broker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Serving.
    Running,
    /// No new connection, no new request; what was asked is being answered.
    Draining,
    /// Whoever is still connected is cut off.
    Cutting,
    /// The logs are closed.
    Closed,
}

/// Waits for a phase. The guard of the value is not kept, so that this can be awaited anywhere.
pub(crate) async fn reached(phase: &mut watch::Receiver<Phase>, at_least: Phase) {
    if phase.wait_for(|phase| *phase >= at_least).await.is_err() {
        // Nobody is left who could stop the broker.
        std::future::pending::<()>().await;
    }
}

/// Something that a graceful stop waits for, until this is dropped; see [`Broker::hold_stop`].
#[derive(Debug)]
pub struct StopHold {
    broker: Broker,
}

impl Drop for StopHold {
    fn drop(&mut self) {
        self.broker.inner.held.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Broker {
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.inner.phase.subscribe()
    }

    /// Goes on to a later phase; never back.
    pub(crate) fn advance(&self, phase: Phase) {
        self.inner.phase.send_if_modified(|current| {
            let later = *current < phase;
            if later {
                *current = phase;
            }
            later
        });
        if phase >= Phase::Draining && !self.inner.stop_told.swap(true, Ordering::Relaxed) {
            self.tell(|| Event::Stopping);
        }
    }

    /// Waits until the broker stops: from then on nothing new is to be begun. At once, where it has been stopped already.
    pub async fn stopping(&self) {
        reached(&mut self.phase(), Phase::Draining).await;
    }

    /// Whether the broker stops, or has been stopped.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.inner.phase.borrow() >= Phase::Draining
    }

    /// Waits until the broker was closed, or is being: from then on it does nothing more. At once, where it has been closed already.
    pub async fn closing(&self) {
        reached(&mut self.phase(), Phase::Closed).await;
    }

    /// Has a graceful stop wait, within [`Limits::drain_timeout`](crate::Limits::drain_timeout), until what this gives is dropped: for who serves requests by a protocol of its own.
    #[must_use]
    pub fn hold_stop(&self) -> StopHold {
        self.inner.held.send_modify(|count| *count += 1);
        StopHold { broker: self.clone() }
    }

    /// How many hold the stop.
    pub(crate) fn held(&self) -> watch::Receiver<usize> {
        self.inner.held.subscribe()
    }

    /// Closes the broker: flushes and checkpoints all logs, and leaves the marker of a clean stop, last. Whoever is served is cut off; see
    /// [`Broker::shutdown`] for a gentle end. Closing twice does nothing the second time.
    ///
    /// # Errors
    /// The first log that cannot be flushed or closed; the next start will not be a clean one then.
    pub fn close(&self) -> Result<(), BrokerError> {
        self.advance(Phase::Closed);
        let mut lock = self.inner.lock.lock();
        if lock.is_none() {
            return Ok(());
        }
        self.end_scrub(true);
        // Nobody changes topics any more.
        let manifest = self.inner.manifest.lock();
        let mut failed = None;
        let topics = self.topics();
        let partitions = topics.iter().flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)));
        let open: Vec<_> =
            partitions.filter_map(|(topic, partition)| Some((topic, partition.id(), partition.any_log()?))).collect();
        // Logs are closed with their indexes and checkpoints written: for the want of these few bytes the next start would have to recover them all.
        self.inner.reserve.make_room();
        let logs: Vec<Log> = open.iter().map(|(_, _, log)| Log::clone(log)).collect();
        for ((topic, partition, _), closed) in open.iter().zip(Log::close_all(&logs)) {
            if let Err(error) = closed {
                tracing::error!(topic = %topic.meta.name, %partition, error = %crate::error::line(&error), "a log could not be closed cleanly");
                failed.get_or_insert(BrokerError::Log(error));
            }
        }
        let data_dir = &self.inner.config.data_dir;
        let marked = match failed {
            Some(error) => Err(error),
            // Where the reserve is still there, from it if need be: closed logs are not to be recovered for the want of a mark.
            None => self.inner.reserve.with(|| {
                let marked = manifest.bytes().and_then(|bytes| clean::write(&*self.inner.env.disk, data_dir, &bytes));
                marked.map_err(|error| BrokerError::io("mark the clean stop in", data_dir, error))
            }),
        };
        drop(manifest);
        // After the marker: another broker may have the directory from here on.
        drop(lock.take());
        drop(lock);
        tracing::info!(clean = marked.is_ok(), "closed the data directory");
        self.tell(|| Event::Stopped { clean: marked.is_ok() });
        marked
    }

    /// Ends as a process ends that is killed: nothing more is written, nothing is flushed, and no marker of a clean stop is left.
    #[cfg(feature = "testing")]
    pub(crate) fn abandon(&self) {
        self.advance(Phase::Closed);
        let mut lock = self.inner.lock.lock();
        self.end_scrub(false);
        // Whoever changes topics is let finish; nobody begins any more.
        let manifest = self.inner.manifest.lock();
        for topic in self.topics() {
            topic.partitions.iter().filter_map(|partition| partition.any_log()).for_each(Log::abandon);
        }
        drop(manifest);
        drop(lock.take());
    }

    /// How many handles on this broker there are, for tests of what is left behind.
    #[doc(hidden)]
    #[must_use]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.inner)
    }
}

//! The end of the exporter: what waits is sent, for as long as that may take.

use std::future::Future;

use tokio::sync::watch;
use tokio::time::Instant;

/// Whether to end, and until when at the latest.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<Option<Instant>>);

impl Stop {
    pub(super) fn channel() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.borrow().is_some() || self.0.has_changed().is_err()
    }

    /// Waits until it is asked for.
    async fn asked(&mut self) {
        // Who could ask is gone: that is the same.
        drop(self.0.wait_for(Option::is_some).await);
    }

    /// Waits for something, or until it is asked for.
    pub(super) async fn asked_or(&mut self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = self.asked() => {}
            () = work => {}
        }
    }

    /// Does something, unless the end comes before it is done.
    pub(super) async fn within<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let end = async {
            let until = self.0.wait_for(Option::is_some).await.ok().and_then(|until| *until);
            tokio::time::sleep_until(until.unwrap_or_else(Instant::now)).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = end => None,
        }
    }
}

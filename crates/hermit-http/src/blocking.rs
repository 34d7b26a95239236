//! Calls that wait for the disk, away from the threads that serve connections.

use std::sync::Arc;

use hermit_broker::Broker;

use crate::held::Held;
use crate::problem::Problem;

tokio::task_local! {
    /// What the request at hand holds.
    static HELD: Arc<Held>;
}

/// Has what a request begins on other threads hold what it holds, to its end.
pub(crate) async fn holding<F: Future>(held: Arc<Held>, request: F) -> F::Output {
    HELD.scope(held, request).await
}

/// Does it on a thread that may block. Who goes meanwhile does not end it, and counts as long: sending, closing and sending again would be work without a limit.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Problem> + Send + 'static) -> Result<T, Problem> {
    let held = HELD.try_with(Arc::clone).ok();
    let counted = move || {
        let done = work();
        drop(held);
        done
    };
    match tokio::task::spawn_blocking(counted).await {
        Ok(done) => done,
        Err(error) if error.is_cancelled() => Err(Problem::stopping()),
        Err(error) => {
            tracing::error!(%error, "a request over HTTP panicked");
            Err(Problem::internal())
        }
    }
}

/// The same for what searches in logs, or reads them: as few at a time as the broker lets, so that other requests get their turn.
pub(crate) async fn searching<T: Send + 'static>(
    broker: &Broker,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let turn = broker.search_turn().await;
    // Held by the work itself: who goes meanwhile does not end it.
    blocking(move || {
        let done = work();
        drop(turn);
        done
    })
    .await
}

//! Calls that wait for the disk, away from the threads that serve connections.

use hermit_broker::Broker;

use crate::problem::Problem;

/// Does it on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Problem> + Send + 'static) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
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

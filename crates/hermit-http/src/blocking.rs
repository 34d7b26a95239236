//! Calls that wait for the disk, away from the threads that serve connections.

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

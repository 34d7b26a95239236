//! The thread on which the async half lives.

use std::sync::Arc;

use tokio::runtime;

use crate::error::{Error, Result};

/// A runtime with one thread of its own. Ends with the last handle, without waiting for what still runs.
#[derive(Debug)]
pub(super) struct Runtime {
    /// Taken only by the drop.
    inner: Option<runtime::Runtime>,
}

impl Runtime {
    pub(super) fn start() -> Result<Arc<Self>> {
        let started = runtime::Builder::new_multi_thread().worker_threads(1).thread_name("hermit-client").enable_all().build();
        let inner = started.map_err(|source| Error::Runtime { source: Arc::new(source) })?;
        Ok(Arc::new(Self { inner: Some(inner) }))
    }

    /// Waits for `future` in the caller's thread.
    pub(super) fn run<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        if runtime::Handle::try_current().is_ok() {
            return Err(Error::WithinRuntime);
        }
        match &self.inner {
            Some(inner) => inner.block_on(future),
            None => Err(Error::Closed { what: "client" }),
        }
    }

    /// Runs what starts tasks.
    pub(super) fn enter<T>(&self, start: impl FnOnce() -> T) -> T {
        let _entered = self.inner.as_ref().map(runtime::Runtime::enter);
        start()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            // Waiting for tasks that have no end would be for ever, and within another runtime a panic.
            inner.shutdown_background();
        }
    }
}

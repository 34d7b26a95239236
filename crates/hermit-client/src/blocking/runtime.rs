//! The thread on which the async half lives.

use std::cell::Cell;
use std::sync::Arc;

use tokio::runtime;

use crate::error::{Error, Result};

thread_local! {
    /// Whether this thread may be held up although a runtime owns it.
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Runs an application's function on a thread that a runtime keeps for what waits: there calls of the facade may wait too.
pub(super) fn waiting<T>(function: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            MAY_WAIT.set(false);
        }
    }
    MAY_WAIT.set(true);
    // Also where it panics: the thread is used again.
    let _reset = Reset;
    function()
}

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
        if !MAY_WAIT.get() && runtime::Handle::try_current().is_ok() {
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

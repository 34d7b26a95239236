//! The log of the process: lines on standard error.

use std::fmt;
use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::otlp::Events;
use crate::settings::LogFormatName;

/// What decides which lines are written, and can be changed.
pub(crate) struct LogFilter {
    check: Box<dyn Fn() -> anyhow::Result<()> + Send + Sync>,
    set: Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>,
}

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFilter").finish_non_exhaustive()
    }
}

impl LogFilter {
    fn of<S: 'static>(handle: Handle<EnvFilter, S>) -> Self {
        let again = handle.clone();
        Self {
            check: Box::new(move || Ok(handle.with_current(|_filter| ())?)),
            set: Box::new(move |filter| Ok(again.reload(filter)?)),
        }
    }

    /// Whether it can be changed.
    ///
    /// # Errors
    /// It cannot: whatever writes the log is gone, or a thread panicked while it changed the filter.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        (self.check)()
    }

    /// Changes it.
    ///
    /// # Errors
    /// As [`LogFilter::check`], after which this succeeds.
    pub(crate) fn set(&self, filter: EnvFilter) -> anyhow::Result<()> {
        (self.set)(filter)
    }

    #[cfg(test)]
    pub(crate) fn broken() -> Self {
        Self { check: Box::new(|| anyhow::bail!("poisoned")), set: Box::new(|_filter| anyhow::bail!("poisoned")) }
    }
}

/// Begins to write it, and to hand what is written to `events`.
pub(crate) fn begin(log: &str, format: LogFormatName, events: Option<Events>) -> anyhow::Result<LogFilter> {
    let filter = EnvFilter::try_new(log).context("the setting `log`")?;
    // What cannot be logged is lost: telling so on standard error, which is what failed, would panic.
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    Ok(match format {
        LogFormatName::Text => {
            let logs = logs.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
            let handle = logs.reload_handle();
            logs.finish().with(events).init();
            LogFilter::of(handle)
        }
        LogFormatName::Json => {
            // No event has a field called `timestamp`, `level` or `target`, so that all can stand side by side: a test sees to it.
            let logs = logs.json().flatten_event(true).with_current_span(false).with_span_list(false).with_filter_reloading();
            let handle = logs.reload_handle();
            logs.finish().with(events).init();
            LogFilter::of(handle)
        }
    })
}

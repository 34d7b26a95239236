//! The log of the process: lines on standard error.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::reload::SetFilter;
use crate::settings::LogFormatName;

/// Begins to write it. What comes back changes what is written.
pub(crate) fn begin(log: &str, format: LogFormatName) -> anyhow::Result<SetFilter> {
    let filter = EnvFilter::try_new(log).context("the setting `log`")?;
    // What cannot be logged is lost: telling so on standard error, which is what failed, would panic.
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    Ok(match format {
        LogFormatName::Text => {
            let logs = logs.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
            let handle = logs.reload_handle();
            logs.init();
            Box::new(move |filter| Ok(handle.reload(filter)?))
        }
        LogFormatName::Json => {
            // No event has a field called `timestamp`, `level` or `target`, so that all can stand side by side: a test sees to it.
            let logs = logs.json().flatten_event(true).with_current_span(false).with_span_list(false).with_filter_reloading();
            let handle = logs.reload_handle();
            logs.init();
            Box::new(move |filter| Ok(handle.reload(filter)?))
        }
    })
}

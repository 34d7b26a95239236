//! Progress where somebody can see it.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for files of known size, else a count.
pub(crate) fn of_reading(files: &[PathBuf]) -> ProgressBar {
    let standard_input = files.iter().all(|file| file.as_os_str() == "-");
    if !io::stderr().is_terminal() || (standard_input && io::stdin().is_terminal()) {
        return ProgressBar::hidden();
    }
    let size = |file: &Path| std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
    let total: Option<u64> = files.iter().map(|file| size(file)).sum();
    let total = total.filter(|total| *total > 0);
    let template = match total {
        Some(_) => "{bar:40} {bytes}/{total_bytes}, {msg} records, {bytes_per_sec}, {eta} to go",
        None => "{spinner} {bytes}, {msg} records, {bytes_per_sec}",
    };
    shown(total, "0", template)
}

/// A bar for so many bytes as are told of later.
pub(crate) fn of_bytes() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    shown(Some(0), "", "{bar:40} {bytes}/{total_bytes}, {msg}, {eta} to go")
}

/// A count of records, which is told of by who calls.
pub(crate) fn of_records(total: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match total {
        Some(_) => "{bar:40} {human_pos}/{human_len} records, {msg}",
        None => "{spinner} {elapsed}: {human_pos} records, {msg}",
    };
    shown(total, "", template)
}

/// Nothing is drawn before all is set: neither another style, nor one without its message.
fn shown(total: Option<u64>, message: &'static str, template: &str) -> ProgressBar {
    let mut bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden()).with_message(message);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar = bar.with_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar
}

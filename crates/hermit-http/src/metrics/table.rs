//! The manual's table of metrics.

use super::families::{ALL, Kind};

/// All metrics, in a table of Markdown.
pub(super) fn markdown() -> String {
    let mut text = "| metric | kind | labels | what it tells |\n| --- | --- | --- | --- |\n".to_owned();
    for family in ALL {
        let name = family.shown_name();
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = if family.kind == Kind::Histogram { "histogram, with `_bucket`, `_sum`, `_count`" } else { family.kind.name() };
        text.push_str(&format!("| `{name}` | {kind} | {} | {} |\n", labels.join(", "), family.help));
    }
    text
}

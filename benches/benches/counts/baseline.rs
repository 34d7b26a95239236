//! The counts that were committed: `counts.txt`, a line for each case.

use anyhow::{Context, Result};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.txt");
const HEAD: &str = "# Instructions per unit, counted by `cargo xtask counts --save`. See benches/benches/counts/main.rs.\n";

/// Names and counts; none where there is no file.
pub(crate) fn read() -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(PATH).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(": "))
        .filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
        .collect()
}

/// Writes the new counts; those of cases that were left out stay.
pub(crate) fn write(before: Vec<(String, f64)>, now: Vec<(String, f64)>) -> Result<()> {
    let kept = before.into_iter().filter(|(name, _)| !now.iter().any(|(newer, _)| newer == name)).collect::<Vec<_>>();
    let mut lines: Vec<_> = kept.into_iter().chain(now).map(|(name, count)| format!("{name}: {count:.1}\n")).collect();
    lines.sort();
    std::fs::write(PATH, HEAD.to_owned() + &lines.concat()).with_context(|| format!("{PATH} cannot be written"))
}

//! What a soak has shown, for people.

use std::fmt;

use super::sample::Incarnation;
use super::slope::Verdict;
use crate::kill;

/// Samples, slopes, and the checked history.
#[derive(Debug)]
pub struct Report {
    /// The broker's incarnations, in order.
    pub incarnations: Vec<Incarnation>,
    /// What grew, and by how much.
    pub verdicts: Vec<Verdict>,
    /// Connections that came, asked and went.
    pub visits: u64,
    /// What clients saw.
    pub history: kill::Report,
}

impl Report {
    /// Whether nothing grew, and every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.history.is_good() && !self.verdicts.iter().any(Verdict::is_growth)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in &self.verdicts {
            let word = if verdict.is_growth() { "GROWS" } else { "flat " };
            writeln!(f, "{word} {verdict}")?;
        }
        writeln!(f, "{} connections came and went besides", self.visits)?;
        write!(f, "{}", self.history)
    }
}

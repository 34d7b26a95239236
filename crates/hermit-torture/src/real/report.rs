//! What a run has shown, for people.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use super::Plan;
use crate::check::{Checksum, ConsumerCheck, LogFacts, Violations, sorted_checksum};

/// A crash on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    /// Lines that were answered when the broker was killed.
    pub answered: usize,
    /// Whether the consumer was killed with it.
    pub with_consumer: bool,
    /// How long the broker took to be ready again.
    pub ready_after: Duration,
}

/// A run's counts, rates and checksums, and what was wrong.
#[derive(Debug)]
pub struct Report {
    /// Lines sent.
    pub sent: usize,
    /// Their bytes, without line breaks.
    pub sent_bytes: u64,
    /// Distinct keys among them.
    pub keys: usize,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Answers that said where the line is.
    pub answers: usize,
    /// Records in the log.
    pub logged: usize,
    /// Records that the consumer was shown, repeated ones included.
    pub reads: u64,
    /// Distinct records among these.
    pub distinct_reads: usize,
    /// Records that were committed as processed.
    pub committed: u64,
    /// Of the file's lines.
    pub sent_checksum: Checksum,
    /// Of the log's records.
    pub log_checksum: Checksum,
    /// Of the distinct records that the consumer was shown.
    pub read_checksum: Checksum,
    /// Until the last line was answered, crashes included.
    pub produced_in: Duration,
    /// Until the last record was committed.
    pub consumed_in: Duration,
    /// The crashes.
    pub kills: Vec<Kill>,
    /// What was wrong.
    pub violations: Violations,
}

impl Report {
    pub(super) fn new(plan: &Plan, log: &LogFacts, check: &ConsumerCheck, kills: Vec<Kill>) -> Self {
        Self {
            sent: plan.lines.len(),
            sent_bytes: plan.lines.iter().map(|line| line.text.len() as u64).sum(),
            keys: plan.lines.iter().map(|line| &line.key).collect::<HashSet<_>>().len(),
            partitions: plan.partitions,
            answers: 0,
            logged: log.records().count(),
            reads: check.reads(),
            distinct_reads: check.distinct().count(),
            committed: check.done(),
            sent_checksum: sorted_checksum(plan.lines.iter().map(|line| &line.text[..])),
            log_checksum: log.checksum(),
            read_checksum: sorted_checksum(check.distinct().map(|found| &found.text[..])),
            produced_in: Duration::ZERO,
            consumed_in: Duration::ZERO,
            kills,
            violations: Violations::default(),
        }
    }

    /// Whether every promise was kept, and all of it was really done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
            && self.sent_checksum == self.log_checksum
            && self.sent_checksum == self.read_checksum
            && self.committed == self.sent as u64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kill in &self.kills {
            let who = if kill.with_consumer { "broker and consumer" } else { "broker" };
            let ready = kill.ready_after.as_millis();
            writeln!(f, "killed {who} after {} answered lines; ready again in {ready} ms", kill.answered)?;
        }
        writeln!(
            f,
            "sent       {:>8} lines, {} bytes, {} keys, {} partitions",
            self.sent, self.sent_bytes, self.keys, self.partitions
        )?;
        writeln!(f, "answered   {:>8} with an offset, in {}", self.answers, Rate(self.sent, self.produced_in))?;
        writeln!(f, "in the log {:>8} records", self.logged)?;
        let again = self.reads - self.distinct_reads as u64;
        writeln!(f, "consumed   {:>8} records, and {again} of them again before their commit", self.distinct_reads)?;
        writeln!(f, "committed  {:>8} records, in {}", self.committed, Rate(self.distinct_reads, self.consumed_in))?;
        writeln!(f, "SHA-256 of the sorted lines: sent     {}", self.sent_checksum)?;
        writeln!(f, "                             log      {}", self.log_checksum)?;
        writeln!(f, "                             consumer {}", self.read_checksum)?;
        write!(f, "{}", self.violations)
    }
}

/// So many things in such a time.
struct Rate(usize, Duration);

impl fmt::Display for Rate {
    #[expect(clippy::cast_precision_loss, reason = "a rate is read to three digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.1.as_secs_f64();
        write!(f, "{seconds:.2} s ({:.0} a second)", self.0 as f64 / seconds.max(f64::MIN_POSITIVE))
    }
}

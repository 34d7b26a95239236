//! What can be wrong, counted by kind, with a few examples of each.

use std::collections::BTreeMap;
use std::fmt;

/// Examples kept of each kind: enough to see a pattern, few enough to read.
const EXAMPLES: usize = 3;

/// A broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A line that was sent and is not in the log.
    Lost,
    /// A line that is in the log more often than it was sent.
    Doubled,
    /// Something in the log that was never sent.
    Phantom,
    /// A line behind a later line of its key.
    Reordered,
    /// A record under another key than its line has.
    WrongKey,
    /// One key in two partitions.
    SplitKey,
    /// An offset that does not follow the one before.
    Gap,
    /// An answered line that is not at the offset of the answer.
    AnswerBroken,
    /// A line that the consumer was never shown.
    NeverRead,
    /// A record that the consumer was shown, and that the log does not hold at that offset.
    TakenBack,
    /// A record below the committed offset, shown again after a restart.
    CommittedReadAgain,
    /// A committed offset that is lower than one whose commit was answered.
    CommitLost,
    /// A committed offset that nobody committed.
    CommitInvented,
    /// A partition with two owners at a time.
    TwoOwners,
    /// A message that was refused for good, and is there.
    RefusedStored,
    /// An offset that held one message, and then another.
    OffsetChanged,
    /// A reader that was shown an offset at or below one that it had.
    Backwards,
    /// A reader that was not shown what is there, and went on behind it.
    Skipped,
    /// A partition's end, or start, that was further before, or that is below what was answered or shown.
    EndFell,
    /// A topic that was created, not deleted, and is gone.
    TopicLost,
    /// A topic that was deleted and is there.
    TopicBack,
    /// An error or an answer that no client should meet.
    Problem,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Phantom => "never sent",
            Self::Reordered => "out of order",
            Self::WrongKey => "under a wrong key",
            Self::SplitKey => "key in two partitions",
            Self::Gap => "gap in the offsets",
            Self::AnswerBroken => "not where the answer said",
            Self::NeverRead => "never read",
            Self::TakenBack => "taken back after it was shown",
            Self::CommittedReadAgain => "committed and read again",
            Self::CommitLost => "commit lost",
            Self::CommitInvented => "commit invented",
            Self::TwoOwners => "with two owners",
            Self::RefusedStored => "refused and stored all the same",
            Self::OffsetChanged => "one offset, two messages",
            Self::Backwards => "shown backwards",
            Self::Skipped => "skipped",
            Self::EndFell => "end or start that went back",
            Self::TopicLost => "topic lost",
            Self::Problem => "met by a client",
            Self::TopicBack => "topic back after its deletion",
        })
    }
}

/// All violations found, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Violations(BTreeMap<Kind, (u64, Vec<String>)>);

impl Violations {
    /// Notes one; `example` is only called while few of its kind are known.
    pub fn add(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        let (count, examples) = self.0.entry(kind).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(example());
        }
    }

    /// How many of a kind there are.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.0.get(&kind).map_or(0, |(count, _)| *count)
    }

    /// Whether every promise was kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes those of another check in.
    pub fn merge(&mut self, other: Self) {
        for (kind, (count, examples)) in other.0 {
            let (mine, known) = self.0.entry(kind).or_default();
            *mine += count;
            known.extend(examples.into_iter().take(EXAMPLES.saturating_sub(known.len())));
        }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, (count, examples)) in &self.0 {
            writeln!(f, "{kind}: {count}")?;
            for example in examples {
                writeln!(f, "    {example}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_when_there_are_examples_enough() {
        let mut violations = Violations::default();
        for at in 0..5 {
            violations.add(Kind::Lost, || format!("line {at}"));
        }
        let mut other = Violations::default();
        other.add(Kind::Lost, || "line 9".to_owned());
        other.add(Kind::Gap, || "hole".to_owned());
        violations.merge(other);
        assert_eq!((violations.count(Kind::Lost), violations.count(Kind::Gap), violations.count(Kind::Doubled)), (6, 1, 0));
        assert_eq!(violations.to_string(), "lost: 6\n    line 0\n    line 1\n    line 2\ngap in the offsets: 1\n    hole\n");
    }
}

//! What a start found and did.

use std::path::PathBuf;
use std::time::Duration;

use hermit_log::{LogError, RecoveryReport};
use hermit_proto::{LeaderEpoch, PartitionId, TopicName};

use crate::access::AccessDamage;
use crate::error::BrokerError;
use crate::manifest::Damage;
use crate::offsets::ReplayReport;

/// What a start found and did. Nothing in it is lost data: damage is named here, not removed.
#[derive(Debug, Clone, Default)]
pub struct OpenReport {
    /// Whether the last broker stopped cleanly, or there was none.
    pub clean: bool,
    /// The leader epoch from now on.
    pub leader_epoch: LeaderEpoch,
    /// The manifest was damaged, and made good.
    pub manifest: Option<ManifestRepair>,
    /// Topics whose interrupted creation, growth or deletion was completed.
    pub finished: Vec<TopicName>,
    /// Topics whose interrupted creation, growth or deletion could not be completed now, and why.
    pub unfinished: Vec<(TopicName, BrokerError)>,
    /// The file of users and rules was damaged, so that there are none.
    pub access: Option<AccessDamage>,
    /// Directories below `partitions/` that no topic claims. They are left alone.
    pub unknown: Vec<String>,
    /// How long it took to open all partitions.
    pub opening_time: Duration,
    /// Each partition, and what its recovery found or why it could not be opened.
    pub partitions: Vec<PartitionReport>,
    /// The committed positions.
    pub positions: ReplayReport,
    /// Why positions can neither be read nor committed, if so.
    pub positions_down: Option<BrokerError>,
}

/// How a damaged manifest was made good.
#[derive(Debug, Clone)]
pub struct ManifestRepair {
    /// What was wrong.
    pub damage: Damage,
    /// The damaged file; `None` where there was nothing to keep.
    pub kept: Option<PathBuf>,
    /// Topics that were found by the copies in their directories.
    pub adopted: Vec<TopicName>,
    /// Topics of which the copies tell later changes than the manifest did.
    pub renewed: Vec<TopicName>,
    /// Topics of which no directory is there, so that their deletion must have been recorded behind the damage.
    pub forgotten: Vec<TopicName>,
}

/// One partition at start.
#[derive(Debug, Clone)]
pub struct PartitionReport {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionId,
    /// What its recovery found, or why it could not be opened.
    pub recovery: Result<RecoveryReport, LogError>,
}

impl OpenReport {
    /// Tells the log of the process what an operator should know.
    pub fn log(&self) {
        tracing::info!(
            clean = self.clean,
            leader_epoch = %self.leader_epoch,
            partitions = self.partitions.len(),
            positions = self.positions.positions,
            "opened the data directory"
        );
        if let Some(ManifestRepair { damage, kept, adopted, renewed, forgotten }) = &self.manifest {
            let names = |topics: &[TopicName]| topics.iter().map(TopicName::to_string).collect::<Vec<_>>();
            let (adopted, renewed, forgotten) = (names(adopted), names(renewed), names(forgotten));
            tracing::error!(%damage, ?kept, ?adopted, ?renewed, ?forgotten, "the manifest was damaged; it was made good from the topics' directories");
        }
        for (topic, error) in &self.unfinished {
            tracing::error!(%topic, error = %crate::error::line(&error), "an interrupted change of this topic cannot be completed now");
        }
        for dir in &self.unknown {
            tracing::error!(dir, "no topic claims this directory; it is left alone");
        }
        for PartitionReport { topic, partition, recovery } in &self.partitions {
            match recovery {
                Err(error) => {
                    tracing::error!(%topic, %partition, error = %crate::error::line(error), "the partition cannot be served");
                }
                Ok(recovery) => {
                    for what in lost(recovery) {
                        tracing::error!(%topic, %partition, %what, "the log is damaged; `hermit-cli log verify` tells more");
                    }
                    for what in mended(recovery) {
                        tracing::warn!(%topic, %partition, %what, "the log was mended");
                    }
                }
            }
        }
        if let Some(error) = &self.positions_down {
            tracing::error!(error = %crate::error::line(&error), "committed positions can neither be read nor stored");
        }
        if self.positions.refused > 0 || self.positions.damaged_ranges > 0 {
            let ReplayReport { refused, damaged_ranges, .. } = self.positions;
            tracing::error!(refused, damaged_ranges, "some committed positions cannot be read");
        }
    }
}

/// Lines for the damaged ranges of one partition; more are counted.
const MOST_RANGES: usize = 10;

/// What this start has found to be lost.
fn lost(recovery: &RecoveryReport) -> Vec<String> {
    let told = recovery.fenced.iter().take(MOST_RANGES);
    let mut lost: Vec<_> =
        told.map(|range| format!("offsets {} to {} (exclusive) are damaged or missing", range.from, range.next)).collect();
    if let Some(more) = recovery.fenced.len().checked_sub(MOST_RANGES).filter(|more| *more > 0) {
        lost.push(format!("{more} more ranges are damaged or missing"));
    }
    lost
}

/// What it has found, and costs nothing that a `sync` topic has promised.
fn mended(recovery: &RecoveryReport) -> Vec<String> {
    let cut = recovery.cut.as_ref().map(|cut| {
        let kept = if cut.kept_in.is_empty() { "nowhere, for want of space".to_owned() } else { cut.kept_in.join(", ") };
        format!("a torn tail of {} bytes was cut off at offset {}, and is kept in {kept}", cut.bytes, cut.end)
    });
    let state = (!recovery.damaged_state.is_empty())
        .then(|| format!("these files were damaged, and made again or done without: {}", recovery.damaged_state.join(", ")));
    cut.into_iter().chain(state).collect()
}

#[cfg(test)]
mod tests {
    use hermit_log::{CutTail, FencedRange};
    use hermit_proto::Offset;

    use super::*;

    #[test]
    fn what_a_start_finds_lost_or_mends_is_told_line_by_line() {
        assert_eq!((lost(&RecoveryReport::default()), mended(&RecoveryReport::default())), (vec![], vec![]));
        let range = |from| FencedRange {
            segment: Offset(0),
            position: from,
            next_position: from,
            from: Offset(from),
            next: Offset(from + 5),
        };
        let recovery = RecoveryReport {
            fenced: (0..12).map(|at| range(at * 10)).collect(),
            cut: Some(CutTail { end: Offset(7), bytes: 33, kept_in: vec!["x.cut".into()] }),
            damaged_state: vec!["fenced".into(), "start".into()],
            ..RecoveryReport::default()
        };
        let lines = lost(&recovery);
        assert_eq!((lines.len(), &*lines[1]), (11, "offsets 10 to 15 (exclusive) are damaged or missing"));
        assert_eq!(lines[10], "2 more ranges are damaged or missing");
        assert_eq!(
            mended(&recovery),
            [
                "a torn tail of 33 bytes was cut off at offset 7, and is kept in x.cut",
                "these files were damaged, and made again or done without: fenced, start"
            ]
        );
    }
}

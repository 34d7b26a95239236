//! What a start found and did.

use std::path::PathBuf;

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
            if let Err(error) = recovery {
                tracing::error!(%topic, %partition, error = error as &dyn std::error::Error, "the partition cannot be served");
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

//! What the broker is, and how it fares.

use std::collections::HashSet;

use hermit_proto::GroupName;
use hermit_proto::session::{BrokerFigures, BrokerSetting, DescribeBrokerResponse};

use super::Broker;
use super::gone::Sums;
use crate::metrics::{Health, PartitionMetrics};

/// Name and version of the program, as clients are told.
pub(crate) const PROGRAM: &str = concat!("hermitmq ", env!("CARGO_PKG_VERSION"));

impl Broker {
    /// What the broker is, and how it fares: what clients get from the operation DescribeBroker. Costs a look at every partition.
    #[must_use]
    pub fn describe(&self) -> DescribeBrokerResponse {
        let limits = self.limits_in_force();
        let (topics, gone) = self.topics_and_gone();
        let public = || topics.iter().filter(|topic| !topic.meta.name.is_internal());
        let partitions: Vec<_> = topics.iter().flat_map(|topic| topic.partitions()).map(|partition| partition.metrics()).collect();
        let live = self.live();
        let settings = live.described_settings.iter();
        DescribeBrokerResponse {
            broker: PROGRAM.into(),
            broker_id: self.broker_id(),
            instance: self.instance(),
            leader_epoch: self.report().leader_epoch,
            started_at: self.inner.started_at,
            topics: count(public().count()),
            partitions: public().map(|topic| topic.meta.partitions).fold(0, u32::saturating_add),
            groups: count(self.group_count()),
            connections: count(self.connections()),
            max_connections: count(limits.max_connections),
            inflight_bytes: self.inflight_bytes(),
            max_inflight_bytes: limits.max_inflight_bytes,
            log_bytes: partitions.iter().map(|partition| partition.log.size_bytes).fold(0, u64::saturating_add),
            free_bytes: self.inner.env.disk.free_bytes(&self.config().data_dir).unwrap_or(0),
            held_bytes: self.held_bytes(),
            settings: settings.map(|(name, value)| BrokerSetting { name: name.clone(), value: value.clone() }).collect(),
            figures: Some(self.figures(&partitions, gone)),
        }
    }

    /// With the sums of all other topics that there were.
    fn figures(&self, partitions: &[PartitionMetrics], mut sums: Sums) -> BrokerFigures {
        let (mut read_only, mut down, mut damaged) = (0, 0, 0);
        for partition in partitions {
            read_only += u32::from(partition.health == Health::ReadOnly);
            down += u32::from(partition.health == Health::Down);
            damaged += u32::from(partition.log.fenced_ranges > 0);
            sums.add(partition);
        }
        let (disk, dir) = (&self.inner.env.disk, &self.config().data_dir);
        BrokerFigures {
            taken_at: self.inner.env.clock.now(),
            disk_bytes: disk.total_bytes(dir).unwrap_or(0),
            disk_low_bytes: self.limits_in_force().disk_low_bytes,
            disk_is_low: self.is_low_on_space(),
            read_only_partitions: read_only,
            down_partitions: down,
            damaged_partitions: damaged,
            appended_records: sums.appended_records,
            appended_bytes: sums.appended_bytes,
            delivered_records: sums.delivered_records,
            delivered_bytes: sums.delivered_bytes,
            scrub: self.scrub_status(),
        }
    }

    /// Names and values of the settings in force, none of them a secret: as [`BrokerConfig::described_settings`](crate::BrokerConfig::described_settings) was
    /// at the start or at the last [`reconfigure`](Self::reconfigure).
    #[must_use]
    pub fn described_settings(&self) -> Vec<(String, String)> {
        self.live().described_settings.clone()
    }

    /// Groups with members or positions.
    fn group_count(&self) -> usize {
        let mut names: HashSet<GroupName> = self.groups().names().into_iter().collect();
        names.extend(self.offsets().into_iter().flat_map(|offsets| offsets.groups("", usize::MAX)));
        names.len()
    }

    /// Bytes of log files that were deleted while somebody read them, and that come free when the last reader is done. They explain a disk
    /// that stays full after a deletion.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.inner.env.files.unlinked_bytes()
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

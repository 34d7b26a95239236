//! The topics of a workload, and who works on which.

use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Durability, TopicConfig};
use hermit_proto::{PartitionId, TopicName};
use tokio::task::JoinSet;

use super::member::Membership;
use super::place::{Pace, Place};
use super::recorder::Recorder;
use super::send_sdk::Manner;
use super::target::Target;
use super::{Plan, Task, member, read_sdk, read_v1, send_sdk, send_v1};
use crate::check::history::{Happened, Keeps, Part};

/// Keys of a producer, in compacted topics.
const KEYS: u32 = 32;
/// Small, so that segments are rolled, and retention and compaction have work.
const SEGMENT_BYTES: u64 = 256 << 10;
const RETENTION_BYTES: u64 = 1 << 20;
/// Long enough for a broker that is killed several times.
const PATIENT: Manner = Manner { batches: false, delivery_timeout: Duration::from_secs(60) };
/// So short that some messages fail, which then must not be there, and of some it is not known.
const HASTY: Manner = Manner { batches: false, delivery_timeout: Duration::from_millis(1500) };
const BATCHES: Manner = Manner { batches: true, delivery_timeout: Duration::from_secs(60) };
/// Members of each group.
const MEMBERS: usize = 3;

/// The topics, and the groups of members.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) all: Vec<Place>,
    /// Number, name, and what the group reads.
    pub(super) groups: Vec<(u16, String, Place)>,
}

impl Places {
    pub(super) async fn create(target: &Target, recorder: &Recorder, plan: &Plan) -> Result<Self> {
        let client = target.client()?;
        let kept = if plan.bounded { RETENTION_BYTES } else { u64::MAX };
        let config = |durability, retention_bytes| TopicConfig {
            durability: Some(durability),
            retention_bytes: Some(retention_bytes),
            segment_bytes: Some(SEGMENT_BYTES),
            ..TopicConfig::default()
        };
        let all = [
            ("orders", 3, config(Durability::Sync, kept)),
            ("events", 2, config(Durability::Os, kept)),
            ("state", 2, TopicConfig { compaction: Some(true), ..config(Durability::Sync, u64::MAX) }),
            ("recent", 2, config(Durability::Sync, RETENTION_BYTES)),
        ];
        let mut places = Vec::new();
        for (name, partitions, config) in all {
            let bounded = config.retention_bytes != Some(u64::MAX);
            let keys = (config.compaction == Some(true)).then_some(KEYS);
            let keeps = keys.map_or(if bounded { Keeps::Newest } else { Keeps::All }, Keeps::Keys);
            let topic = recorder.topic(name, keeps);
            client.admin().create_topic(name, partitions, config).await.with_context(|| format!("{name} cannot be created"))?;
            recorder.note(Happened::Created { topic });
            places.push(Place { topic, name: TopicName::new(name)?, partitions, keys, bounded });
        }
        let groups = places.iter().filter(|place| place.name.as_str() == "orders");
        let groups = groups.map(|place| (recorder.group("members"), "members".to_owned(), place.clone())).collect();
        client.close().await;
        Ok(Self { all: places, groups })
    }

    pub(super) fn spawn_producers(&self, plan: &Plan, tasks: &mut JoinSet<Result<()>>, mut task: impl FnMut() -> Task) {
        // Two of version 1, two of the SDK, for each topic.
        let pace = Pace { rate: plan.rate / (self.all.len() * 4) as f64, max_bytes: plan.max_bytes };
        for place in &self.all {
            for partition in place.partitions().take(2) {
                tasks.spawn(send_v1::run(task(), place.clone(), partition, pace));
            }
            let second = if place.keys.is_some() { HASTY } else { BATCHES };
            tasks.spawn(send_sdk::run(task(), place.clone(), PATIENT, pace));
            tasks.spawn(send_sdk::run(task(), place.clone(), second, pace));
            if place.name.as_str() == "events" {
                tasks.spawn(send_sdk::run(task(), place.clone(), HASTY, pace));
            }
        }
    }

    pub(super) fn spawn_readers(&self, plan: &Plan, tasks: &mut JoinSet<Result<()>>, mut task: impl FnMut() -> Task) {
        for place in &self.all {
            let name = format!("a reader of {}", place.name.as_str());
            tasks.spawn(read_sdk::run(task(), place.clone(), name));
            let group = format!("old-{}", place.name.as_str());
            tasks.spawn(read_v1::run(task(), place.clone(), PartitionId(0), group));
        }
        for (group, name, place) in &self.groups {
            for _ in 0..MEMBERS {
                let membership = Membership { group: *group, name: name.clone(), session_timeout: plan.session_timeout };
                tasks.spawn(member::run(task(), place.clone(), membership));
            }
        }
    }

    /// The ends of all partitions.
    pub(super) async fn ends(&self, target: &Target) -> Result<Vec<(Part, u64)>> {
        let client = target.client()?;
        let mut ends = Vec::new();
        for place in &self.all {
            let found = client.admin().describe_topic(place.name.as_str()).await?;
            ends.extend(found.partitions.iter().map(|partition| (place.part(partition.partition), partition.high_watermark.0)));
        }
        client.close().await;
        Ok(ends)
    }
}

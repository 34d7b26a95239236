//! Opening logs: several at a time, each on its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermit_log::{Log, LogEnv, LogError, LogIdentity, RecoveryReport, Start};
use hermit_proto::{LeaderEpoch, PartitionId};
use parking_lot::Mutex;

use super::report::PartitionReport;
use crate::config::BrokerConfig;
use crate::events::Events;
use crate::layout;
use crate::manifest::{Stage, State};
use crate::partition::Partition;
use crate::progress::Progress;
use crate::topic::{Topic, TopicMeta};

/// What was opened.
#[derive(Debug, Default)]
pub(crate) struct OpenPartitions {
    pub(crate) topics: Vec<Arc<Topic>>,
    pub(crate) reports: Vec<PartitionReport>,
}

type Opened = (Partition, PartitionReport);

/// Opens all partitions of all topics that are there.
pub(super) fn open_all(
    config: &BrokerConfig,
    env: &LogEnv,
    events: Option<&Arc<Events>>,
    state: &State,
    clean: bool,
) -> OpenPartitions {
    let start = Start { clean, leader_epoch: state.epoch };
    let live = state.topics.values().filter(|entry| entry.stage == Stage::Live);
    let live: Vec<TopicMeta> = live.map(|entry| entry.meta.resolved(&config.topic_defaults)).collect();
    let jobs: Vec<(usize, PartitionId)> =
        live.iter().enumerate().flat_map(|(topic, meta)| (0..meta.partitions).map(move |p| (topic, PartitionId(p)))).collect();
    let progress = config.start_progress.as_deref();
    if let Some(progress) = progress {
        progress.begin(jobs.len());
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Opened)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        while let Some((topic, partition)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(meta) = live.get(*topic) else { continue };
            let opened = open_partition(config, env, events, meta, *partition, start);
            done.lock().push((*topic, opened));
            if let Some(progress) = progress {
                progress.opened_one();
            }
        }
    };
    if config.recovery_threads > 1 {
        std::thread::scope(|scope| {
            for _ in 0..config.recovery_threads.min(jobs.len()) {
                scope.spawn(work);
            }
        });
    } else {
        work();
    }
    let mut done = done.into_inner();
    done.sort_by_key(|(topic, (partition, _))| (*topic, partition.id()));
    let mut open = OpenPartitions::default();
    let mut partitions: Vec<Vec<Arc<Partition>>> = live.iter().map(|_| Vec::new()).collect();
    for (topic, (partition, report)) in done {
        if let Some(of_topic) = partitions.get_mut(topic) {
            of_topic.push(Arc::new(partition));
        }
        open.reports.push(report);
    }
    let topics = live.into_iter().zip(partitions);
    open.topics = topics.map(|(meta, partitions)| Arc::new(Topic { meta, partitions })).collect();
    open
}

/// Opens a topic that was just created.
pub(crate) fn open_topic(
    config: &BrokerConfig,
    env: &LogEnv,
    events: Option<&Arc<Events>>,
    meta: &TopicMeta,
    leader_epoch: LeaderEpoch,
) -> Arc<Topic> {
    Arc::new(Topic { meta: meta.clone(), partitions: open_more(config, env, events, meta, 0, leader_epoch) })
}

/// Opens the partitions from number `from` on, which were just created.
pub(crate) fn open_more(
    config: &BrokerConfig,
    env: &LogEnv,
    events: Option<&Arc<Events>>,
    meta: &TopicMeta,
    from: u32,
    leader_epoch: LeaderEpoch,
) -> Vec<Arc<Partition>> {
    let start = Start { clean: true, leader_epoch };
    let open = |partition| Arc::new(open_partition(config, env, events, meta, PartitionId(partition), start).0);
    (from..meta.partitions).map(open).collect()
}

fn open_partition(
    config: &BrokerConfig,
    env: &LogEnv,
    events: Option<&Arc<Events>>,
    meta: &TopicMeta,
    id: PartitionId,
    start: Start,
) -> Opened {
    let progress = Arc::new(Progress::new(events, &meta.name, id));
    let (log, recovery) = match open_log(config, env, meta, id, start, &progress) {
        Ok((log, report)) => (Ok(log), Ok(report)),
        Err(error) => (Err(error.clone()), Err(error)),
    };
    for range in recovery.as_ref().map(|report: &RecoveryReport| report.fenced.as_slice()).unwrap_or_default() {
        progress.damaged(range.from, range.next);
    }
    let report = PartitionReport { topic: meta.name.clone(), partition: id, recovery };
    (Partition::new(meta.id, id, meta.settings.compaction, log, progress), report)
}

fn open_log(
    config: &BrokerConfig,
    env: &LogEnv,
    meta: &TopicMeta,
    id: PartitionId,
    start: Start,
    progress: &Arc<Progress>,
) -> Result<(Log, RecoveryReport), LogError> {
    let dir = layout::partition_dir(&config.data_dir, meta.id, id);
    // A directory that is missing was not deleted by us. An empty log in its place would give its offsets out again.
    let there = env.disk.exists(&dir).and_then(|there| if there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) });
    there.map_err(|source| LogError::Io { operation: "find", path: dir.clone(), source: Arc::new(source) })?;
    let identity = LogIdentity { topic: meta.id, partition: id };
    let log_config = meta.settings.log_config(&config.log, config.limits.frame_limits());
    Log::open_in(env, &dir, identity, log_config, start, Arc::clone(progress) as Arc<dyn hermit_log::LogListener>)
}

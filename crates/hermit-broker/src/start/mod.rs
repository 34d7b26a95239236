//! Starting: what is on the disk, what follows from it, and doing that.

pub(crate) mod clean;
mod look;
mod open_manifest;
mod partitions;
mod progress;
mod rebuild;
mod report;
mod restored;

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hermit_log::LogEnv;
use hermit_log::disk::{DirLock, Disk, TMP_SUFFIX, lock_holder};
use hermit_proto::{PartitionId, TopicId};

pub(crate) use look::{Looked, look};
pub(crate) use partitions::{OpenPartitions, open_more, open_topic};
pub use progress::StartProgress;
pub use report::{ManifestRepair, OpenReport, PartitionReport};
pub(crate) use restored::move_on;

use self::clean::LastStop;
use self::open_manifest::OpenManifest;
use self::rebuild::FoundDir;
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::events::Events;
use crate::ids::Ids;
use crate::layout;
use crate::manifest::{self, Damage, Entry, Facts, Growth, Manifest, Record, Stage, State};
use crate::reserve::Reserve;
use crate::topic::{Topic, TopicMeta};

/// A broker that has been started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) lock: Box<dyn DirLock>,
    pub(crate) manifest: Manifest,
    pub(crate) reserve: Reserve,
    pub(crate) topics: Vec<Arc<Topic>>,
    pub(crate) report: OpenReport,
}

/// Opens a data directory, which is locked first.
pub(crate) fn start(config: &BrokerConfig, env: &LogEnv, events: Option<&Arc<Events>>, ids: &Ids) -> Result<Started, BrokerError> {
    let (disk, dir) = (&*env.disk, config.data_dir.as_path());
    let io = |operation, path: &Path, error| BrokerError::io(operation, path, error);
    let lock = create_and_lock(disk, dir)?;
    let bytes = manifest::load(disk, dir).map_err(|error| io("read", &dir.join(layout::MANIFEST), error))?;
    let stop = clean::last_stop(disk, dir, bytes.as_deref());
    let known = find_dirs(disk, dir)?;
    let facts = facts(dir, bytes.as_deref(), stop, !known.is_empty())?;
    crate::import::guard(disk, dir, bytes.is_some(), facts.is_none())?;
    // From here on things are written.
    clean::remove(disk, dir).map_err(|error| io("remove", &dir.join(layout::CLEAN), error))?;
    remove_leftovers(disk, dir);
    let reserve = Reserve::new(Arc::clone(&env.disk), dir, config.reserve_bytes);
    disk.create_dir_all(&layout::partitions_dir(dir)).map_err(|error| io("create", &layout::partitions_dir(dir), error))?;
    let mut report = OpenReport { clean: stop == LastStop::Clean, ..OpenReport::default() };
    let opening = OpenManifest { env, dir, ids, known: &known, reserve: &reserve };
    let mut manifest = opening.open(bytes.as_deref(), facts, &mut report)?;
    report.leader_epoch = manifest.state().epoch;
    // Before what was deleted is forgotten.
    report.unknown = unknown_dirs(manifest.state(), &known);
    finish_interrupted(disk, dir, &mut manifest, &reserve, &mut report);
    let began = env.clock.monotonic();
    let OpenPartitions { topics, reports } = partitions::open_all(config, env, events, manifest.state(), report.clean);
    report.opening_time = env.clock.monotonic().saturating_sub(began);
    report.partitions = reports;
    reserve.refill();
    Ok(Started { lock, manifest, reserve, topics, report })
}

/// Creates the data directory where it is missing, and keeps other processes out of it.
pub(crate) fn create_and_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>, BrokerError> {
    let io = |operation, path: &Path, error| BrokerError::io(operation, path, error);
    let fresh_dir = !disk.exists(dir).map_err(|error| io("look for", dir, error))?;
    disk.create_dir_all(dir).map_err(|error| io("create", dir, error))?;
    if let Some(above) = dir.parent().filter(|above| fresh_dir && !above.as_os_str().is_empty()) {
        disk.sync_dir(above).map_err(|error| io("sync", above, error))?;
    }
    lock(disk, dir)
}

/// Keeps other processes out of a data directory.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>, BrokerError> {
    disk.lock(&dir.join(layout::LOCK)).map_err(|error| {
        let held = error.kind() == io::ErrorKind::WouldBlock;
        match lock_holder(&error) {
            Some(holder) => BrokerError::Locked { path: dir.to_owned(), pid: holder.pid },
            None if held => BrokerError::Locked { path: dir.to_owned(), pid: None },
            None => BrokerError::io("lock", dir.join(layout::LOCK), error),
        }
    })
}

/// What the manifest says, measured against how the last broker stopped. `None` where there was no broker before.
fn facts(dir: &Path, bytes: Option<&[u8]>, stop: LastStop, has_partitions: bool) -> Result<Option<Facts>, BrokerError> {
    let Some(bytes) = bytes else {
        let damage = Damage { position: 0, what: "the file is missing".into() };
        let lost = has_partitions || stop == LastStop::OtherManifest;
        let version = manifest::FORMAT_VERSION;
        return Ok(lost.then(|| Facts { state: State::default(), good_bytes: 0, version, damage: Some(damage) }));
    };
    let mut facts = manifest::read(bytes).map_err(|newer| BrokerError::NewerFormat {
        path: dir.join(layout::MANIFEST),
        found: newer.0,
        supported: manifest::FORMAT_VERSION,
    })?;
    if facts.damage.is_none() && stop == LastStop::OtherManifest {
        let what = "it is not the one of the last clean stop".into();
        facts.damage = Some(Damage { position: facts.good_bytes as u64, what });
    }
    Ok(Some(facts))
}

/// All directories whose names are those of partitions.
fn find_dirs(disk: &dyn Disk, dir: &Path) -> Result<Vec<FoundDir>, BrokerError> {
    let partitions = layout::partitions_dir(dir);
    let entries = match disk.list(&partitions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(BrokerError::io("list", partitions, error)),
    };
    let names = entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| entry.name.to_str());
    let found = names.filter_map(layout::parse_partition_dir);
    Ok(found.map(|(topic, partition)| FoundDir { topic, partition, copy: None }).collect())
}

/// Directories that no topic claims. They stay where they are: that something is missing from the manifest deletes nothing.
fn unknown_dirs(state: &State, known: &[FoundDir]) -> Vec<String> {
    let ids: HashSet<TopicId> = state.topics.keys().copied().collect();
    let claimed = |found: &&FoundDir| {
        !ids.contains(&found.topic) || state.topics.get(&found.topic).is_some_and(|entry| entry.partitions() <= found.partition.0)
    };
    known.iter().filter(claimed).map(|found| layout::partition_dir_name(found.topic, found.partition)).collect()
}

/// Finishes what the last broker had recorded and not completed. What cannot be done now waits for the next start.
fn finish_interrupted(disk: &dyn Disk, dir: &Path, manifest: &mut Manifest, reserve: &Reserve, report: &mut OpenReport) {
    let unfinished = |entry: &&Entry| entry.stage != Stage::Live || entry.growth.is_some();
    let interrupted: Vec<_> = manifest.state().topics.values().filter(unfinished).cloned().collect();
    for entry in interrupted {
        let (id, partitions) = (entry.meta.id, entry.meta.partitions);
        let finished = match (entry.stage, entry.growth) {
            (Stage::Live, None) => Ok(()),
            (Stage::Live, Some(Growth::Growing(more))) => finish_growth(disk, dir, manifest, reserve, &entry.meta, more),
            (Stage::Live, Some(Growth::Undoing(more))) => crate::directories::remove(disk, dir, id, partitions..more)
                .and_then(|()| reserve.with(|| manifest.append(&[Record::GrowUndone(id)]))),
            (Stage::Creating, _) => directories_of(disk, dir, &entry.meta, reserve)
                .and_then(|()| reserve.with(|| manifest.append(&[Record::CreateDone(id)]))),
            (Stage::Deleting, _) => crate::directories::remove(disk, dir, id, 0..partitions)
                .and_then(|()| reserve.with(|| manifest.append(&[Record::DeleteDone(id)]))),
        };
        match finished {
            Ok(()) => report.finished.push(entry.meta.name),
            Err(error) => report.unfinished.push((entry.meta.name, error)),
        }
    }
}

fn finish_growth(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &mut Manifest,
    reserve: &Reserve,
    meta: &TopicMeta,
    partitions: u32,
) -> Result<(), BrokerError> {
    let grown = meta.grown(partitions);
    reserve.with(|| crate::directories::grow(disk, dir, &grown, meta.partitions..partitions))?;
    reserve.with(|| manifest.append(&[Record::GrowDone(meta.id)]))?;
    crate::directories::renew_copies(dir, &grown, (0..meta.partitions).map(|partition| (PartitionId(partition), disk)));
    Ok(())
}

fn directories_of(disk: &dyn Disk, dir: &Path, meta: &TopicMeta, reserve: &Reserve) -> Result<(), BrokerError> {
    reserve.with(|| crate::directories::create(disk, dir, meta))
}

/// State files that were being written when the last broker ended.
fn remove_leftovers(disk: &dyn Disk, dir: &Path) {
    let Ok(entries) = disk.list(dir) else { return };
    for entry in entries.iter().filter(|entry| !entry.is_dir && entry.name.to_string_lossy().ends_with(TMP_SUFFIX)) {
        if let Err(error) = disk.remove_file(&dir.join(&entry.name)) {
            tracing::warn!(file = %entry.name.to_string_lossy(), error = %crate::error::line(&error), "a leftover cannot be removed");
        }
    }
}

//! Making and removing a topic's directories, so that a power cut at any step leaves something that can be finished.

use std::io;
use std::ops::Range;
use std::path::Path;

use hermit_log::disk::Disk;
use hermit_proto::{PartitionId, TopicId};

use crate::error::BrokerError;
use crate::layout;
use crate::manifest::write_topic_copy;
use crate::topic::TopicMeta;

/// Makes all directories of a topic, with the copies of its metadata, and makes them durable. Done again, it changes nothing.
pub(crate) fn create(disk: &dyn Disk, data_dir: &Path, meta: &TopicMeta) -> Result<(), BrokerError> {
    for partition in 0..meta.partitions {
        let dir = layout::partition_dir(data_dir, meta.id, PartitionId(partition));
        disk.create_dir_all(&dir).map_err(|error| BrokerError::io("create", &dir, error))?;
        write_topic_copy(disk, &dir, meta).map_err(|error| BrokerError::io("write the topic's copy in", &dir, error))?;
    }
    sync_partitions(disk, data_dir)
}

/// Makes the directories of partitions that are added, `meta` being the grown topic's, and makes them durable. Done again, it changes nothing.
///
/// A copy that tells the new count is written only once all directories are durable: where the manifest is lost, it names none that never
/// was.
pub(crate) fn grow(disk: &dyn Disk, data_dir: &Path, meta: &TopicMeta, new: Range<u32>) -> Result<(), BrokerError> {
    let dirs: Vec<_> = new.map(|partition| layout::partition_dir(data_dir, meta.id, PartitionId(partition))).collect();
    for dir in &dirs {
        disk.create_dir_all(dir).map_err(|error| BrokerError::io("create", dir, error))?;
    }
    sync_partitions(disk, data_dir)?;
    for dir in &dirs {
        write_topic_copy(disk, dir, meta).map_err(|error| BrokerError::io("write the topic's copy in", dir, error))?;
    }
    Ok(())
}

/// Writes the copies of a topic that was changed into directories that had older ones, each by its own way to the disk: that of its log, where it is open. An
/// older one serves a lost manifest only, and costs the change there, no data: so a failure is told, and no more.
pub(crate) fn renew_copies<'a>(
    data_dir: &Path,
    meta: &TopicMeta,
    partitions: impl IntoIterator<Item = (PartitionId, &'a dyn Disk)>,
) {
    for (partition, disk) in partitions {
        let dir = layout::partition_dir(data_dir, meta.id, partition);
        if let Err(error) = write_topic_copy(disk, &dir, meta) {
            tracing::warn!(topic = %meta.name, dir = %dir.display(), error = %crate::error::line(&error), "the topic's copy tells what was before");
        }
    }
}

/// Removes directories of a topic, after an intent was recorded. The copies of the metadata go first: what is left of a topic half-way
/// can never be taken for a topic whose manifest was lost.
pub(crate) fn remove(disk: &dyn Disk, data_dir: &Path, id: TopicId, partitions: Range<u32>) -> Result<(), BrokerError> {
    for step in [remove_copy, remove_dir] {
        for partition in partitions.clone() {
            let dir = layout::partition_dir(data_dir, id, PartitionId(partition));
            let removed = disk.exists(&dir).and_then(|there| if there { step(disk, &dir) } else { Ok(()) });
            removed.map_err(|error| BrokerError::io("remove", &dir, error))?;
        }
    }
    sync_partitions(disk, data_dir)
}

fn sync_partitions(disk: &dyn Disk, data_dir: &Path) -> Result<(), BrokerError> {
    let partitions = layout::partitions_dir(data_dir);
    disk.sync_dir(&partitions).map_err(|error| BrokerError::io("sync", &partitions, error))
}

fn remove_copy(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let copy = dir.join(layout::TOPIC);
    if disk.exists(&copy)? {
        disk.remove_file(&copy)?;
        disk.sync_dir(dir)?;
    }
    Ok(())
}

fn remove_dir(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for entry in disk.list(dir)? {
        // There are no directories below it; one that somebody put there keeps the directory, and is reported by `remove_dir`.
        if !entry.is_dir {
            disk.remove_file(&dir.join(entry.name))?;
        }
    }
    disk.remove_dir(dir)
}

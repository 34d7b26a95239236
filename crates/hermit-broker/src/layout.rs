//! Names of files and directories, built and parsed side by side.

use std::path::{Path, PathBuf};

use hermit_proto::{PartitionId, TopicId};

/// Locked while a broker runs.
pub(crate) const LOCK: &str = "lock";
/// See [`crate::manifest`].
pub(crate) const MANIFEST: &str = "manifest";
/// Present only after a clean stop.
pub(crate) const CLEAN: &str = "clean";
/// Present while an older data directory is being imported: see [`crate::import`].
pub(crate) const IMPORTING: &str = "importing";
/// Space given back when the disk is full.
pub(crate) const RESERVE: &str = "reserve";
/// Where the scrub is: see [`crate::scrub`].
pub(crate) const SCRUB: &str = "scrub";
/// Users and rules: see [`crate::access`].
pub(crate) const ACCESS: &str = "access";
/// Present while nobody may administer the broker: a token for who is to change that.
pub(crate) const FIRST_ADMIN_TOKEN: &str = "first-admin-token";
/// Above the partitions' directories.
pub(crate) const PARTITIONS: &str = "partitions";
/// The copy of the topic's metadata in a partition's directory.
pub(crate) const TOPIC: &str = "topic";

/// Where the partitions' directories are.
pub(crate) fn partitions_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(PARTITIONS)
}

/// The name of a partition's directory: only the id, never a name that a client chose.
pub(crate) fn partition_dir_name(topic: TopicId, partition: PartitionId) -> String {
    format!("{topic}-{partition}")
}

/// The directory of a partition.
pub(crate) fn partition_dir(data_dir: &Path, topic: TopicId, partition: PartitionId) -> PathBuf {
    partitions_dir(data_dir).join(partition_dir_name(topic, partition))
}

/// The partition of a directory's name; `None` for names that [`partition_dir_name`] does not make.
pub(crate) fn parse_partition_dir(name: &str) -> Option<(TopicId, PartitionId)> {
    let (topic, partition) = name.split_once('-')?;
    let topic: TopicId = topic.parse().ok()?;
    let partition = PartitionId(partition.parse().ok()?);
    (partition_dir_name(topic, partition) == name).then_some((topic, partition))
}

/// The name under which the `number`th damaged manifest is kept aside.
pub(crate) fn damaged_manifest(number: u32) -> String {
    format!("{MANIFEST}.damaged-{number}")
}

/// The name under which the `number`th damaged file of users and rules is kept aside.
pub(crate) fn damaged_access(number: u32) -> String {
    format!("{ACCESS}.damaged-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_directories_print_and_parse_and_nothing_else_does() {
        let (topic, partition) = (TopicId(0xABC), PartitionId(17));
        let name = partition_dir_name(topic, partition);
        assert_eq!(name, "00000000000000000000000000000abc-17");
        assert_eq!(parse_partition_dir(&name), Some((topic, partition)));
        for bad in ["", "-", "00000000000000000000000000000abc-017", "00000000000000000000000000000ABC-1", "lost+found", "a-1"] {
            assert_eq!(parse_partition_dir(bad), None, "{bad}");
        }
    }
}

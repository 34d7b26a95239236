//! A data directory without a broker.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermit_broker::offline::{OfflineDir, Selection};
use hermit_broker::{Broker, BrokerError};
use hermit_proto::PartitionId;
use support::config;

/// All files but the lock, with their bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if !path.ends_with("lock") {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

fn made() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::open(config(dir.path())).unwrap();
    broker.create_topic("orders", 3, &Default::default()).unwrap();
    broker.create_topic("bills", 1, &Default::default()).unwrap();
    broker.close().unwrap();
    dir
}

fn selected(dir: &OfflineDir, topic: Option<&str>, partition: Option<u32>) -> Result<Vec<String>, BrokerError> {
    let selection = Selection { topic: topic.map(|topic| topic.parse().unwrap()), partition: partition.map(PartitionId) };
    let partitions = dir.partitions(&selection)?;
    assert!(partitions.iter().all(|partition| partition.dir.is_dir()));
    Ok(partitions.iter().map(|partition| format!("{} {}", partition.topic, partition.partition)).collect())
}

#[test]
fn partitions_are_found_by_name_from_the_manifest_and_without_it_from_the_copies() {
    let dir = made();
    for lost in [false, true] {
        if lost {
            std::fs::remove_file(dir.path().join("manifest")).unwrap();
        }
        let before = files(dir.path());
        let offline = OfflineDir::open(dir.path()).unwrap();
        assert_eq!(offline.manifest_damage().is_some(), lost);
        assert!(offline.topics().iter().all(|topic| topic.from_copy == lost));
        assert_eq!(
            selected(&offline, None, None).unwrap(),
            ["__consumer_offsets 0", "bills 0", "orders 0", "orders 1", "orders 2"]
        );
        assert_eq!(selected(&offline, Some("orders"), None).unwrap(), ["orders 0", "orders 1", "orders 2"]);
        assert_eq!(selected(&offline, Some("orders"), Some(1)).unwrap(), ["orders 1"]);
        assert_eq!(selected(&offline, None, Some(2)).unwrap(), ["orders 2"]);
        assert!(matches!(selected(&offline, Some("odrers"), None), Err(BrokerError::UnknownTopic { .. })));
        assert!(matches!(selected(&offline, Some("orders"), Some(3)), Err(BrokerError::UnknownPartition { partitions: 3, .. })));
        drop(offline);
        assert!(files(dir.path()) == before, "looking changed a file");
    }
}

#[test]
fn a_directory_in_use_names_the_process_and_other_directories_are_no_data_directories() {
    let dir = made();
    let broker = Broker::open(config(dir.path())).unwrap();
    let error = OfflineDir::open(dir.path()).unwrap_err();
    assert!(matches!(error, BrokerError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{error}");
    broker.close().unwrap();
    let offline = OfflineDir::open(dir.path()).unwrap();
    let error = Broker::open(config(dir.path())).unwrap_err();
    assert!(matches!(error, BrokerError::Locked { .. }), "{error}");
    drop(offline);

    let empty = tempfile::tempdir().unwrap();
    for path in [empty.path().to_owned(), empty.path().join("nowhere")] {
        assert!(matches!(OfflineDir::open(&path), Err(BrokerError::NoDataDirectory { .. })));
    }
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
    std::fs::create_dir(empty.path().join("orders_0")).unwrap();
    std::fs::write(empty.path().join("orders_0/00000000000000000000.wal"), b"").unwrap();
    assert!(matches!(OfflineDir::open(empty.path()), Err(BrokerError::NotImported { .. })));
}

//! A data directory without a broker.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use hermit_broker::offline::{Check, OfflineDir, RepairOptions, Selection};
use hermit_broker::{Broker, BrokerError};
use hermit_proto::{Offset, PartitionId, ProducedFrame};
use support::v2::Session;
use support::{Server, config};

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

/// Some messages in a partition, in one frame each.
fn produce(dir: &Path, topic: &str, partition: u32) {
    let broker = Broker::open(config(dir)).unwrap();
    let topic = broker.topic(&topic.parse().unwrap()).unwrap();
    let partition = topic.partition(PartitionId(partition)).unwrap();
    for number in 0..20u8 {
        let frame = ProducedFrame::message(0, Some(b"key"), &[number; 500]).to_vec().unwrap();
        let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
        broker.append(partition, &mut batch).unwrap().wait().unwrap();
    }
    broker.close().unwrap();
}

#[test]
fn damage_is_found_in_its_partition_alone_and_a_repair_makes_it_sound() {
    let dir = made();
    produce(dir.path(), "orders", 1);
    let offline = OfflineDir::open(dir.path()).unwrap();
    let orders = Selection { topic: Some("orders".parse().unwrap()), partition: Some(PartitionId(1)) };
    let damaged = offline.partitions(&orders).unwrap().remove(0);
    let wal = damaged.dir.join("00000000000000000000.wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    // A byte of the third message.
    let at = bytes.windows(500).position(|window| window == [2; 500]).unwrap();
    bytes[at + 100] ^= 1;
    std::fs::write(&wal, bytes).unwrap();
    let before = files(dir.path());

    for partition in offline.partitions(&Selection::default()).unwrap() {
        let found = offline.inspect(&partition, Check::Everything).unwrap();
        assert_eq!(found.damages.len(), usize::from(partition == damaged), "{found:?}");
    }
    let headers = offline.inspect(&damaged, Check::Headers).unwrap();
    assert_eq!((headers.log_end, headers.damages.len()), (Offset(20), 0), "{headers:?}");
    let frames: Vec<_> = offline.frames(&damaged, Offset(1)).unwrap().map(Result::unwrap).collect();
    assert_eq!((frames.len(), frames.iter().filter(|frame| frame.is_err()).count()), (19, 1));
    let dropping = RepairOptions { drop_damage: true, dry_run: true, ..RepairOptions::default() };
    assert_eq!(offline.repair(&damaged, &dropping).unwrap().actions.len(), 1);
    assert!(files(dir.path()) == before, "looking changed a file");

    offline.repair(&damaged, &RepairOptions { dry_run: false, ..dropping }).unwrap();
    let found = offline.inspect(&damaged, Check::Everything).unwrap();
    assert!(found.damages.is_empty() && found.log_end == Offset(20), "{found:?}");
    drop(offline);
    let broker = Broker::open(config(dir.path())).unwrap();
    assert!(broker.report().clean);
    let bounds = broker.topic(&"orders".parse().unwrap()).unwrap().partitions()[1].bounds().unwrap();
    assert_eq!((bounds.log_start, bounds.high_watermark), (Offset(0), Offset(20)));
    broker.close().unwrap();
}

#[tokio::test]
async fn a_reader_is_told_that_no_record_is_left_up_to_the_end() {
    let dir = made();
    produce(dir.path(), "bills", 0);
    let offline = OfflineDir::open(dir.path()).unwrap();
    let bills = Selection { topic: Some("bills".parse().unwrap()), partition: None };
    let partition = offline.partitions(&bills).unwrap().remove(0);
    let wal = partition.dir.join("00000000000000000000.wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    // A byte of each message.
    for number in 0..20u8 {
        let at = bytes.windows(500).position(|window| window == [number; 500]).unwrap();
        bytes[at + 100] ^= 1;
    }
    std::fs::write(&wal, bytes).unwrap();
    offline.repair(&partition, &RepairOptions { drop_damage: true, dry_run: false, ..RepairOptions::default() }).unwrap();
    drop(offline);

    let server = Server::start(dir.path()).await;
    let topic = server.broker.topic(&"bills".parse().unwrap()).unwrap().meta.id;
    let mut session = Session::open(&server).await;
    let (subscription, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let (head, unit) = session.delivery(subscription).await;
    assert_eq!((head.next_offset, head.high_watermark, unit.payload().len()), (Offset(20), Offset(20), 0));
    server.stop().await;
}

/// A backup is put back after the broker has gone on: what it gave out since is not given out again.
#[tokio::test]
async fn a_backup_that_was_put_back_gives_no_leader_epoch_and_no_producer_id_out_again() {
    let dir = made();
    let now = std::time::Duration::from_secs(2_000_000_000);
    let backup = files(dir.path());
    let server = Server::start(dir.path()).await;
    let first = Session::open(&server).await.init_producer().await.producer_id;
    server.stop().await;
    for (path, bytes) in backup {
        std::fs::write(path, bytes).unwrap();
    }
    let before = Broker::open(config(dir.path())).unwrap();
    let epoch = before.report().leader_epoch;
    before.close().unwrap();
    // The clock of the new machine was not set yet.
    let in_2015 = std::time::Duration::from_secs(1_420_070_400);
    let refused = OfflineDir::open(dir.path()).unwrap().move_on(in_2015).unwrap_err();
    assert!(matches!(refused, BrokerError::ClockBehind { .. }) && refused.to_string().contains("clock"), "{refused}");
    for _again in 0..2 {
        assert!(OfflineDir::open(dir.path()).unwrap().move_on(now).unwrap().0 >= 2_000_000_000);
    }
    let server = Server::start(dir.path()).await;
    let report = server.broker.report();
    assert!(!report.clean && report.manifest.is_none() && report.leader_epoch.0 > 2_000_000_000 && report.leader_epoch > epoch);
    assert_eq!(server.broker.topics().len(), 3);
    let then = Session::open(&server).await.init_producer().await.producer_id;
    server.stop().await;
    assert!(then.0 > first.0 && then.0 >= 2_000_000_000_000_000, "{first:?} {then:?}");
}

//! What the broker leaves on the disk is its owner's alone, and no name of a client's becomes a path.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hermit_broker::TopicConfig;
use hermit_broker::proto::{LeaderEpoch, Offset, PartitionId};

use super::*;

/// Everything below a directory: path, whether it is a directory, and its mode.
fn walk(dir: &Path, found: &mut Vec<(String, bool, u32)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        found.push((entry.path().display().to_string(), meta.is_dir(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            walk(&entry.path(), found);
        }
    }
}

#[tokio::test]
async fn files_are_0600_and_directories_0700_after_a_busy_life() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("new/data");
    let names = ["plain", "../../escaped", "a/b", "-rf", "$(id)", "..", "aux\u{202e}"];
    for life in 0..2 {
        let mut config = config(&dir);
        config.reserve_bytes = 4096;
        config.topic_defaults.segment_bytes = hermit_broker::MIN_SEGMENT_BYTES;
        let server = Server::with(config).await;
        let mut root = log_in(&server, "root", "toor").await.unwrap();
        for name in names {
            let known = server.broker.topic(&name.parse().unwrap()).map(|topic| topic.meta.id);
            let id = match known {
                Ok(id) => id,
                Err(_) => {
                    root.create(name, 2, TopicConfig { compaction: Some(name == "plain"), ..TopicConfig::default() }).await.unwrap()
                }
            };
            let record = hermit_broker::proto::ProducedFrame::message(1, Some(b"k"), &[7; 20_000]).to_vec().unwrap();
            for _ in 0..4 {
                root.produce(id, 0, &record).await.unwrap();
            }
            let position = hermit_broker::Position {
                topic: id,
                partition: PartitionId(0),
                offset: Offset(1),
                leader_epoch: LeaderEpoch::UNKNOWN,
            };
            server.broker.commit(&name.parse().unwrap(), &[position]).unwrap().committed().await.unwrap();
            server.broker.trim(id, PartitionId(0), Offset(2)).unwrap();
            put(&server, &format!("user {name} {life}"), "p");
        }
        server.broker.maintain();
        if life == 0 {
            server.broker.delete_topic(&"a/b".parse().unwrap()).unwrap();
        }
        server.stop().await;
        // The second life finds a damaged manifest and damaged users, and keeps both.
        if life == 0 {
            for name in ["manifest", "access"] {
                std::fs::write(dir.join(name), b"damaged").unwrap();
            }
        }
    }
    let mut found = Vec::new();
    walk(above.path(), &mut found);
    let bad: Vec<_> = found.iter().filter(|(_, is_dir, mode)| *mode != if *is_dir { 0o700 } else { 0o600 }).collect();
    assert!(bad.is_empty(), "{bad:?}");
    for wanted in ["manifest.damaged-1", "access.damaged-1", "lock", ".wal", ".idx", "/topic", "clean", "reserve"] {
        assert!(found.iter().any(|(path, ..)| path.ends_with(wanted)), "nothing like {wanted} was made");
    }
    let odd: Vec<_> = found.iter().filter(|(path, ..)| names.iter().any(|name| path.ends_with(name))).collect();
    assert!(odd.is_empty(), "{odd:?}");
    let beside: Vec<_> = std::fs::read_dir(above.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["new"]);
}

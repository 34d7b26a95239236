//! What is read around damage on the disk.

use hermit_log::disk::{Disk, Open, RealDisk};
use hermit_proto::session::{Status, TopicConfig};
use hermit_proto::{TopicId, magic};

use super::frames;
use crate::support::v2::{Session, message};
use crate::support::{Server, v1};

/// Stores messages and stops, then flips a bit of the `at`th frame's prefix or payload in the file.
async fn with_rot(dir: &std::path::Path, sizes: &[usize], at: usize, in_payload: bool) -> TopicId {
    let server = Server::start(dir).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for (number, size) in sizes.iter().enumerate() {
        let payload = vec![u8::try_from(number).unwrap(); *size];
        session.produce(topic, 0, &message(&payload)).await.unwrap();
    }
    drop(session);
    server.stop().await;
    let path = dir.join(format!("partitions/{topic}-0/00000000000000000000.wal"));
    let mut bytes = std::fs::read(&path).unwrap();
    let start: usize = sizes[..at].iter().map(|size| size + 69).sum();
    bytes[start + if in_payload { 69 } else { 20 }] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    // What is read from the disk anew is checked; what is in the page cache is the client's to check.
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let file = RealDisk.open(&path, Open::Read).unwrap();
    file.drop_cached(0, bytes.len() as u64);
    topic
}

/// Whether the system let go of a topic's pages; some file systems keep them.
fn is_cold(dir: &std::path::Path, topic: TopicId) -> bool {
    let path = dir.join(format!("partitions/{topic}-0/00000000000000000000.wal"));
    !RealDisk.open(&path, Open::Read).unwrap().cached(0, 4096)
}

#[tokio::test]
async fn damage_that_comes_from_the_disk_is_told_and_what_lies_around_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = [100, 5000, 5000, 100, 30];
    let topic = with_rot(dir.path(), &sizes, 2, false).await;
    if !is_cold(dir.path(), topic) {
        return;
    }
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let (id, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let mut read = Vec::new();
    let error = loop {
        let unit = session.unit_for(magic::DELIVERY, id).await.unwrap();
        if unit.header().record_count != 0 {
            break hermit_proto::session::DeliveryError::decode(unit.header(), unit.payload()).unwrap();
        }
        read.extend(frames(topic, unit.payload()).into_iter().map(|(offset, _)| offset));
    };
    assert_eq!((read, error.ended, error.error.status), (vec![0, 1], true, Status::CorruptLog));
    let (_, next) = error.damaged().unwrap();
    let (id, _) = session.subscribe(topic, next.0, 1 << 20).await.unwrap();
    let (_, unit) = session.delivery(id).await;
    assert_eq!(frames(topic, unit.payload()).last().unwrap().0, 4);
    server.stop().await;
}

#[tokio::test]
async fn version_1_passes_over_damage_wherever_it_is() {
    for (at, in_payload) in [(0, true), (2, true), (2, false), (4, true)] {
        let dir = tempfile::tempdir().unwrap();
        with_rot(dir.path(), &[100, 20_000, 3000, 20_000, 30, 7], at, in_payload).await;
        let server = Server::start(dir.path()).await;
        let mut consumer = v1::consumer(&server, "g", "t").await;
        let expected: Vec<_> = (0..6).filter(|offset| *offset != at as u64).collect();
        let mut read = Vec::new();
        while read.len() < expected.len() {
            read.push(v1::next_frame(&mut consumer).await.0.offset);
        }
        assert_eq!(read, expected, "damage at {at}");
        server.stop().await;
    }
}

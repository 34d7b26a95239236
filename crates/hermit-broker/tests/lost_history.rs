//! A power cut takes the unflushed tail of an `os` topic, and other records get its offsets: whoever was ahead is told, or moved.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::sync::Arc;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, Durability, Position, TopicConfig};
use hermit_log::disk::sim::{SimDisk, Survival};
use hermit_log::{Flusher, LogEnv, ManualClock};
use hermit_proto::session::{Status, SubscribeRequest};
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, ProducedFrame, TopicId};
use support::v2::Session;
use support::{Server, v1, within};

const PARTITION: PartitionId = PartitionId(0);

/// A broker on the simulated disk; nothing is flushed but by `flusher`.
fn open(disk: &SimDisk, seed: u64) -> (Broker, Flusher) {
    let clock = Arc::new(ManualClock::new(1_000_000_000_000));
    let flusher = Flusher::manual(Arc::clone(&clock) as _);
    let env = LogEnv::new(Arc::new(disk.clone()), clock, flusher.clone(), 64);
    let mut config = BrokerConfig::new("/data");
    config.recovery_threads = 1;
    config.reserve_bytes = 0;
    config.limits.disk_low_bytes = 0;
    config.id_seed = Some(seed);
    (Broker::open_with(config, env).unwrap(), flusher)
}

fn append(broker: &Broker, topic: TopicId, count: u64, text: &str) {
    let partition = broker.partition(topic, PARTITION).unwrap();
    for _ in 0..count {
        let frame = ProducedFrame::message(0, None, text.as_bytes()).to_vec().unwrap();
        let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
        broker.append(&partition, &mut batch).unwrap();
    }
}

#[tokio::test]
async fn a_position_in_it_is_an_error_to_version_2_and_moved_for_version_1() {
    let disk = SimDisk::new(7);
    let group = GroupName::new("ahead").unwrap();
    let (broker, flusher) = open(&disk, 1);
    let settings = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    let topic = broker.create_topic("t", 1, &settings).unwrap().meta.id;
    append(&broker, topic, 5, "kept");
    broker.partition(topic, PARTITION).unwrap().log().unwrap().flush().unwrap();
    append(&broker, topic, 5, "lost");
    let epoch = broker.partition(topic, PARTITION).unwrap().log().unwrap().leader_epoch();
    let position = Position { topic, partition: PARTITION, offset: Offset(10), leader_epoch: LeaderEpoch::UNKNOWN };
    let ticket = broker.commit(&group, &[position]).unwrap();
    flusher.run_until_idle();
    assert!(ticket.poll().is_ready());
    drop((ticket, broker));
    disk.crash_with(Survival::Nothing, 1);

    let (broker, _flusher) = open(&disk, 2);
    let bounds = broker.partition(topic, PARTITION).unwrap().bounds().unwrap();
    assert_eq!(bounds.log_end, Offset(5));
    append(&broker, topic, 7, "new");
    let server = Server::serve(broker).await;

    let mut session = Session::open(&server).await;
    let request = SubscribeRequest { topic, partition: PARTITION, offset: Offset(10), leader_epoch: epoch, credit_bytes: 1 << 20 };
    let refused = session.call(&request).await.unwrap_err();
    assert_eq!(refused.status, Status::Diverged, "{refused:?}");
    assert!(refused.details.contains(&5), "where that history ended: {refused:?}");
    // A position that both histories have is good.
    session.call(&SubscribeRequest { offset: Offset(5), ..request }).await.unwrap();

    let mut consumer = v1::consumer(&server, "ahead", "t").await;
    let (header, _key, payload) = within(v1::next_frame(&mut consumer)).await;
    assert_eq!((header.offset, &payload[..]), (5, &b"new"[..]));
}

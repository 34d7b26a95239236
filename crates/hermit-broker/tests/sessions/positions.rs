//! Positions of groups without members.

use hermit_proto::session::{CommitEntry, CommitRequest, FetchCommittedRequest, Status, TopicConfig};
use hermit_proto::{Generation, LeaderEpoch, MemberId, Offset, PartitionId, TopicId};

use crate::support::Server;
use crate::support::v2::{Session, message};

#[tokio::test]
async fn positions_are_stored_or_refused_one_by_one_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 2, TopicConfig::default()).await.unwrap();
    for _ in 0..5 {
        session.produce(topic, 0, &message(b"x")).await.unwrap();
    }
    let entry = |topic, partition, offset| CommitEntry {
        topic,
        partition: PartitionId(partition),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(1),
        generation: Generation(0),
    };
    let entries =
        vec![entry(topic, 0, 3), entry(topic, 0, u64::MAX), entry(topic, 1, 1), entry(topic, 7, 0), entry(TopicId(5), 0, 0)];
    let response = session.call(&CommitRequest { group: "g".into(), entries, member: MemberId::NONE }).await.unwrap();
    let statuses: Vec<_> = response.results.iter().map(|result| result.status).collect();
    let expected = [Status::Ok, Status::CommitBeyondEnd, Status::CommitBeyondEnd, Status::UnknownPartition, Status::UnknownTopic];
    assert_eq!(statuses, expected);
    let error = session.call(&CommitRequest { group: "__g".into(), entries: vec![], member: MemberId::NONE }).await.unwrap_err();
    assert_eq!((error.status, error.field.as_str()), (Status::InvalidName, "group"));
    server.stop().await;

    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let request = FetchCommittedRequest { group: "g".into(), partitions: vec![(topic, PartitionId(0)), (topic, PartitionId(1))] };
    let fetched = session.call(&request).await.unwrap();
    assert_eq!((fetched.positions[0].offset, fetched.positions[0].leader_epoch), (Some(Offset(3)), LeaderEpoch(1)));
    assert_eq!((fetched.positions[1].offset, fetched.positions[1].status), (None, Status::Ok));
    server.stop().await;
}

#[tokio::test]
async fn a_position_is_not_stored_under_an_epoch_that_is_still_to_come() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.produce(topic, 0, &message(b"x")).await.unwrap();
    let current = server.broker.partition(topic, PartitionId(0)).unwrap().log().unwrap().leader_epoch();
    for leader_epoch in [LeaderEpoch(current.0 + 7), LeaderEpoch::UNKNOWN] {
        let entry = CommitEntry { topic, partition: PartitionId(0), offset: Offset(1), leader_epoch, generation: Generation(0) };
        session.call(&CommitRequest { group: "g".into(), entries: vec![entry], member: MemberId::NONE }).await.unwrap();
        let request = FetchCommittedRequest { group: "g".into(), partitions: vec![(topic, PartitionId(0))] };
        assert_eq!(session.call(&request).await.unwrap().positions[0].leader_epoch, current);
    }
    server.stop().await;
}

//! Looking after topics, groups and the broker: what the answers of a fake one become.

mod support;

use hermit_client::{
    AssignmentStrategy, DescribeBrokerResponse, DescribeGroupResponse, Error, Fault, Generation, GroupState, ListedGroup, Offset,
    PartitionId, Status, TopicConfig, WireError,
};
use hermit_proto::MemberId;
use hermit_proto::session::{
    AddPartitionsRequest, AddPartitionsResponse, AlterTopicRequest, AlterTopicResponse, CommitRequest, CommitResponse,
    CommitResult, DeleteGroupResponse, ListGroupsRequest, ListGroupsResponse, Message, Operation, TrimRequest, TrimResponse,
};
use support::fake::{Peer, TOPIC, connected};
use support::within;

/// The request of an operation, and its correlation id answered with a refusal.
async fn refuse(peer: &mut Peer, operation: Operation, error: WireError) {
    let unit = peer.expect(operation).await;
    peer.refuse(unit.correlation(), error).await;
}

#[tokio::test]
async fn topics_are_changed() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let wanted = TopicConfig { retention_age_ms: Some(5), ..TopicConfig::default() };
    let all = TopicConfig { compaction: Some(false), ..wanted };
    let (altered, ()) = within(async {
        tokio::join!(admin.alter_topic("t", wanted), async {
            let unit = peer.expect(Operation::AlterTopic).await;
            let request = AlterTopicRequest::decode(unit.key(), unit.payload()).unwrap();
            assert_eq!(request, AlterTopicRequest { name: "t".into(), config: wanted });
            peer.respond(unit.correlation(), &AlterTopicResponse { config: all }).await;
        })
    })
    .await;
    assert_eq!(altered.unwrap(), all);
    let (added, ()) = within(async {
        tokio::join!(admin.add_partitions("t", 7), async {
            let unit = peer.expect(Operation::AddPartitions).await;
            let request = AddPartitionsRequest::decode(unit.key(), unit.payload()).unwrap();
            assert_eq!(request, AddPartitionsRequest { name: "t".into(), partitions: 7 });
            peer.respond(unit.correlation(), &AddPartitionsResponse { partitions: 7 }).await;
        })
    })
    .await;
    assert_eq!(added.unwrap(), 7);
    let (unknown, ()) = within(async {
        tokio::join!(
            admin.add_partitions("x", 7),
            refuse(&mut peer, Operation::AddPartitions, WireError::new(Status::UnknownTopic, "no"))
        )
    })
    .await;
    assert!(matches!(unknown, Err(Error::UnknownTopic { topic }) if &*topic == "x"));
    assert!(matches!(admin.alter_topic("__consumer_offsets", wanted).await, Err(Error::Name(_))));
}

#[tokio::test]
async fn partitions_are_trimmed() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let (trimmed, ()) = within(async {
        tokio::join!(admin.trim("t", 0, Offset(9)), async {
            let unit = peer.expect(Operation::Trim).await;
            let request = TrimRequest::decode(unit.key(), unit.payload()).unwrap();
            assert_eq!(request, TrimRequest { topic: TOPIC, partition: PartitionId(0), offset: Offset(9) });
            peer.respond(unit.correlation(), &TrimResponse { log_start: Offset(10) }).await;
        })
    })
    .await;
    assert_eq!(trimmed.unwrap(), Offset(10));
    let refusal = WireError::new(Status::OffsetOutOfRange, "no").detail(3).detail(8);
    let (beyond, ()) =
        within(async { tokio::join!(admin.trim("t", 0, Offset(9)), refuse(&mut peer, Operation::Trim, refusal)) }).await;
    assert!(matches!(beyond, Err(Error::OutOfRange { position: Offset(9), log_start: Offset(3), high_watermark: Offset(8), .. })));
    let (nowhere, _) = within(async {
        tokio::join!(admin.trim("t", 1, Offset(9)), async {
            tokio::time::timeout(std::time::Duration::from_millis(50), peer.expect(Operation::Trim)).await
        })
    })
    .await;
    assert!(matches!(nowhere, Err(Error::UnknownPartition { count: 1, .. })));
}

#[tokio::test]
async fn groups_are_listed_over_all_pages() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let group = |name: &str| ListedGroup { name: name.into(), state: GroupState::Stable, members: 2, partitions: 3 };
    let pages = [(vec![group("a"), group("b")], true), (vec![group("c")], false)];
    let (listed, ()) = within(async {
        tokio::join!(admin.list_groups(), async {
            let mut asked = Vec::new();
            for (groups, more) in pages {
                let unit = peer.expect(Operation::ListGroups).await;
                asked.push(ListGroupsRequest::decode(unit.key(), unit.payload()).unwrap().after);
                peer.respond(unit.correlation(), &ListGroupsResponse { groups, more }).await;
            }
            assert_eq!(asked, ["", "b"]);
        })
    })
    .await;
    assert_eq!(listed.unwrap(), [group("a"), group("b"), group("c")]);
    // Pages that lead nowhere do not make it ask without end.
    let (endless, ()) = within(async {
        tokio::join!(admin.list_groups(), async {
            let unit = peer.expect(Operation::ListGroups).await;
            peer.respond(unit.correlation(), &ListGroupsResponse { groups: Vec::new(), more: true }).await;
        })
    })
    .await;
    assert!(matches!(endless, Err(Error::Protocol { .. })));
}

#[tokio::test]
async fn refusals_about_groups_say_what_to_do() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let (unknown, ()) = within(async {
        tokio::join!(
            admin.describe_group("g"),
            refuse(&mut peer, Operation::DescribeGroup, WireError::new(Status::UnknownGroup, "no"))
        )
    })
    .await;
    let error = unknown.unwrap_err();
    assert!(matches!(&error, Error::UnknownGroup { group } if &**group == "g"), "{error}");
    assert_eq!(error.fault(), Fault::Caller);
    let (active, ()) = within(async {
        tokio::join!(admin.delete_group("g"), refuse(&mut peer, Operation::DeleteGroup, WireError::new(Status::GroupActive, "no")))
    })
    .await;
    let error = active.unwrap_err();
    assert!(matches!(error, Error::GroupActive { .. }) && error.to_string().contains("stop its consumers"), "{error}");
    let (deleted, ()) = within(async {
        tokio::join!(admin.delete_group("g"), async {
            let unit = peer.expect(Operation::DeleteGroup).await;
            peer.respond(unit.correlation(), &DeleteGroupResponse).await;
        })
    })
    .await;
    deleted.unwrap();
    let told = DescribeGroupResponse {
        state: GroupState::Empty,
        generation: Generation(0),
        strategy: AssignmentStrategy::Range,
        members: Vec::new(),
        partitions: Vec::new(),
    };
    let (described, ()) = within(async {
        tokio::join!(admin.describe_group("g"), async {
            let unit = peer.expect(Operation::DescribeGroup).await;
            peer.respond(unit.correlation(), &told).await;
        })
    })
    .await;
    assert_eq!(described.unwrap(), told);
}

#[tokio::test]
async fn positions_of_a_group_are_set_by_nobody_and_only_while_nobody_is_in_it() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let positions = [("t", PartitionId(0), Offset(4))];
    for (status, expected) in
        [(Status::Ok, None), (Status::GroupActive, Some("active")), (Status::CommitBeyondEnd, Some("refused"))]
    {
        let (set, ()) = within(async {
            tokio::join!(admin.commit_group("g", &positions), async {
                let unit = peer.expect(Operation::Commit).await;
                let request = CommitRequest::decode(unit.key(), unit.payload()).unwrap();
                assert_eq!((request.group.as_str(), request.member, request.entries.len()), ("g", MemberId::NONE, 1));
                assert_eq!((request.entries[0].topic, request.entries[0].offset), (TOPIC, Offset(4)));
                let result = CommitResult { topic: TOPIC, partition: PartitionId(0), status };
                peer.respond(unit.correlation(), &CommitResponse { results: vec![result] }).await;
            })
        })
        .await;
        match (set, expected) {
            (Ok(()), None) | (Err(Error::GroupActive { .. }), Some("active")) => {}
            (Err(error), Some("refused")) => {
                assert_eq!(error.status(), Some(Status::CommitBeyondEnd));
                assert!(error.to_string().contains("offset 4 of topic `t`, partition 0"), "{error}");
            }
            (other, _) => unreachable!("{status}: {other:?}"),
        }
    }
    let (whole, ()) = within(async {
        tokio::join!(
            admin.commit_group("g", &positions),
            refuse(&mut peer, Operation::Commit, WireError::new(Status::GroupActive, "no"))
        )
    })
    .await;
    assert!(matches!(whole, Err(Error::GroupActive { .. })));
}

#[tokio::test]
async fn the_broker_is_described() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let told = DescribeBrokerResponse { broker: "hermitd 1".into(), topics: 3, ..DescribeBrokerResponse::default() };
    let admin = client.admin();
    let (described, ()) = within(async {
        tokio::join!(admin.describe_broker(), async {
            let unit = peer.expect(Operation::DescribeBroker).await;
            peer.respond(unit.correlation(), &told).await;
        })
    })
    .await;
    assert_eq!(described.unwrap(), told);
}

//! Every operation is refused without the right, and allowed with exactly it.

use hermit_broker::TopicConfig;
use hermit_broker::proto::{Generation, LeaderEpoch, MemberId, Offset, PartitionId, TopicId};

use super::*;

const CREATE: AccessOperations = AccessOperations::CREATE;
const PRODUCE: AccessOperations = AccessOperations::PRODUCE;
const CONSUME: AccessOperations = AccessOperations::CONSUME;
const ADMINISTER: AccessOperations = AccessOperations::ADMINISTER;

/// The rules that an operation needs, and no more. An inner list's rules do as well each.
fn needed(operation: Operation) -> Vec<Vec<(AccessResource, AccessOperations)>> {
    let any = |resource: AccessResource| [CREATE, PRODUCE, CONSUME, ADMINISTER].map(|one| (resource.clone(), one)).to_vec();
    let one = |resource: AccessResource, operations| vec![(resource, operations)];
    match operation {
        Operation::Hello | Operation::Heartbeat | Operation::Goodbye | Operation::Credit | Operation::Unsubscribe => vec![],
        Operation::ListTopics | Operation::ListGroups | Operation::WhoAmI => vec![],
        Operation::Metadata | Operation::ListOffsets => vec![any(topic("t"))],
        Operation::CreateTopic => vec![one(topic("new"), CREATE)],
        Operation::DeleteTopic => vec![one(topic("old"), ADMINISTER)],
        Operation::AlterTopic | Operation::AddPartitions | Operation::Trim => vec![one(topic("t"), ADMINISTER)],
        Operation::InitProducerId | Operation::Produce => vec![one(topic("t"), PRODUCE)],
        Operation::Subscribe => vec![one(topic("t"), CONSUME)],
        Operation::Commit | Operation::JoinGroup => vec![one(group("g"), CONSUME), one(topic("t"), CONSUME)],
        Operation::FetchCommitted => vec![one(group("g"), CONSUME), any(topic("t"))],
        Operation::GroupHeartbeat | Operation::LeaveGroup => vec![one(group("g"), CONSUME)],
        Operation::DescribeGroup | Operation::DeleteGroup => vec![one(group("g"), ADMINISTER)],
        Operation::DescribeBroker
        | Operation::PutUser
        | Operation::DeleteUser
        | Operation::ListUsers
        | Operation::CreateToken
        | Operation::DeleteToken
        | Operation::AddRules
        | Operation::DeleteRules
        | Operation::ListRules => vec![one(AccessResource::Broker, ADMINISTER)],
        other => panic!("say what {other} needs"),
    }
}

fn status<T>(answered: Result<T, WireError>) -> Status {
    answered.map_or_else(|error| error.status, |_| Status::Ok)
}

/// Asks for an operation. What the names stand for need not be there: refusals come first.
async fn ask(session: &mut Session, operation: Operation, id: TopicId) -> Status {
    let (name, g) = ("t".to_owned(), "g".to_owned());
    let (partition, member) = (PartitionId(0), MemberId(7));
    match operation {
        Operation::Heartbeat | Operation::Hello | Operation::Goodbye => status(session.call(&HeartbeatRequest).await),
        Operation::Metadata => {
            let topics = TopicSelection::Names(vec![name]);
            let told = session.call(&MetadataRequest { topics, create_missing: false }).await.unwrap();
            told.missing.first().map_or(Status::Ok, |missing| missing.status)
        }
        Operation::CreateTopic => status(session.create("new", 1, TopicConfig::default()).await),
        Operation::DeleteTopic => status(session.call(&DeleteTopicRequest { name: "old".into() }).await),
        Operation::ListTopics => status(session.call(&ListTopicsRequest::default()).await),
        Operation::AlterTopic => status(session.call(&AlterTopicRequest { name, config: TopicConfig::default() }).await),
        Operation::AddPartitions => status(session.call(&AddPartitionsRequest { name, partitions: 2 }).await),
        Operation::ListOffsets => {
            status(session.call(&ListOffsetsRequest { topic: id, partition, query: OffsetQuery::Latest }).await)
        }
        Operation::Trim => status(session.call(&TrimRequest { topic: id, partition, offset: Offset(0) }).await),
        Operation::InitProducerId => status(session.call(&InitProducerIdRequest::default()).await),
        Operation::Produce => status(session.produce(id, 0, &frame()).await),
        Operation::Subscribe => status(session.subscribe(id, 0, 0).await),
        Operation::Credit => {
            session.credit(CorrelationId(999), 1).await;
            status(session.call(&HeartbeatRequest).await)
        }
        Operation::Unsubscribe => {
            let subscription = CorrelationId(999);
            let ended = status(session.call(&UnsubscribeRequest { subscription }).await);
            if ended == Status::BadSubscription { Status::Ok } else { ended }
        }
        Operation::Commit => {
            let (offset, leader_epoch) = (Offset(0), LeaderEpoch::UNKNOWN);
            let entry = CommitEntry { topic: id, partition, offset, leader_epoch, generation: Generation(0) };
            let request = CommitRequest { group: g, entries: vec![entry], member: MemberId::NONE };
            session.call(&request).await.map_or_else(|error| error.status, |told| told.results[0].status)
        }
        Operation::FetchCommitted => {
            status(session.call(&FetchCommittedRequest { group: g, partitions: vec![(id, partition)] }).await)
        }
        Operation::JoinGroup => {
            let request = JoinGroupRequest {
                group: g.clone(),
                member,
                session_timeout_ms: 0,
                processing_timeout_ms: 0,
                strategy: AssignmentStrategy::Balanced,
                topics: vec![name],
                patterns: vec![],
                claims: vec![],
            };
            let joined = status(session.call(&request).await);
            if joined == Status::Ok {
                session.call(&LeaveGroupRequest { group: g, member }).await.unwrap();
            }
            joined
        }
        Operation::GroupHeartbeat => {
            let request = GroupHeartbeatRequest { group: g, member, version: 0, owned: vec![], wait_ms: 0 };
            let beaten = status(session.call(&request).await);
            if beaten == Status::UnknownMember { Status::Ok } else { beaten }
        }
        Operation::LeaveGroup => {
            let left = status(session.call(&LeaveGroupRequest { group: g, member }).await);
            if left == Status::UnknownMember { Status::Ok } else { left }
        }
        Operation::ListGroups => status(session.call(&ListGroupsRequest::default()).await),
        Operation::DescribeGroup => {
            let told = status(session.call(&DescribeGroupRequest { group: g }).await);
            if told == Status::UnknownGroup { Status::Ok } else { told }
        }
        Operation::DeleteGroup => {
            let told = status(session.call(&DeleteGroupRequest { group: g }).await);
            if told == Status::UnknownGroup { Status::Ok } else { told }
        }
        other => ask_about_users(session, other).await,
    }
}

async fn ask_about_users(session: &mut Session, operation: Operation) -> Status {
    let user = || "zoe".to_owned();
    let rules = || vec![rule("zoe", &topic("z"), CONSUME)];
    match operation {
        Operation::DescribeBroker => status(session.call(&DescribeBrokerRequest).await),
        Operation::PutUser => {
            let (mode, password) = (PutUserMode::CreateOrChange, PasswordChange::Keep);
            status(session.call(&PutUserRequest { user: user(), mode, password, enabled: None }).await)
        }
        Operation::CreateToken => status(session.call(&CreateTokenRequest { user: "extra".into(), label: "l".into() }).await),
        Operation::DeleteToken => status(session.call(&DeleteTokenRequest { user: "extra".into(), label: "l".into() }).await),
        Operation::ListUsers => status(session.call(&ListUsersRequest::default()).await),
        Operation::DeleteUser => status(session.call(&DeleteUserRequest { user: user() }).await),
        Operation::AddRules => status(session.call(&AddRulesRequest { rules: rules() }).await),
        Operation::DeleteRules => status(session.call(&DeleteRulesRequest { rules: rules() }).await),
        Operation::ListRules => status(session.call(&ListRulesRequest::default()).await),
        Operation::WhoAmI => status(session.call(&WhoAmIRequest).await),
        other => panic!("ask for {other}"),
    }
}

#[tokio::test]
async fn every_operation_is_refused_without_the_right_and_allowed_with_exactly_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "extra", "p");
    let id = server.broker.create_topic("t", 1, &TopicConfig::default()).unwrap().meta.id;
    server.broker.create_topic("old", 1, &TopicConfig::default()).unwrap();
    for operation in Operation::ALL {
        let user = format!("u{}", operation.number());
        put(&server, &user, "secret");
        let mut session = log_in(&server, &user, "secret").await.unwrap();
        let needed = needed(*operation);
        if !needed.is_empty() {
            assert_eq!(ask(&mut session, *operation, id).await, Status::NotAuthorized, "{operation} without any rule");
        }
        // Everything on everything else changes nothing.
        for elsewhere in [topic("elsewhere"), group("elsewhere"), topic("T"), group("G")] {
            allow(&server, &user, &elsewhere, elsewhere.operations().intersection(ADMINISTER | CONSUME));
        }
        if *operation != Operation::InitProducerId && !needed.is_empty() {
            assert_eq!(ask(&mut session, *operation, id).await, Status::NotAuthorized, "{operation} with rules about others");
        }
        server.broker.delete_rules(&server.broker.list_rules(&of(&user)).rules).unwrap();
        check_each(&server, &mut session, *operation, id, &user, &needed).await;
    }
}

fn of(user: &str) -> ListRulesRequest {
    ListRulesRequest { principal: user.into(), ..ListRulesRequest::default() }
}

/// Each needed rule is missed, and what is near it does not do.
async fn check_each(
    server: &Server,
    session: &mut Session,
    operation: Operation,
    id: TopicId,
    user: &str,
    needed: &[Vec<(AccessResource, AccessOperations)>],
) {
    for missed in 0..needed.len() {
        for (index, any) in needed.iter().enumerate() {
            let (resource, right) = &any[0];
            let near = resource.operations().without(*right).without(ADMINISTER);
            if index != missed {
                allow(server, user, resource, *right);
            } else if any.len() == 1 && !near.is_empty() {
                allow(server, user, resource, near);
            }
        }
        assert_eq!(ask(session, operation, id).await, Status::NotAuthorized, "{operation} without {:?}", needed[missed]);
        server.broker.delete_rules(&server.broker.list_rules(&of(user)).rules).unwrap();
    }
    let most = needed.iter().map(Vec::len).max().unwrap_or(1);
    for choice in 0..most {
        for any in needed {
            let (resource, right) = any.get(choice).unwrap_or(&any[0]);
            allow(server, user, resource, *right);
        }
        assert_eq!(ask(session, operation, id).await, Status::Ok, "{operation} with all it needs, {choice}");
        server.broker.delete_rules(&server.broker.list_rules(&of(user)).rules).unwrap();
    }
}

#[tokio::test]
async fn refusals_tell_nothing_of_what_there_is_and_lists_only_what_one_may_see() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for name in ["a1", "a2", "secret"] {
        server.broker.create_topic(name, 1, &TopicConfig::default()).unwrap();
    }
    put(&server, "anna", "p");
    let mut anna = log_in(&server, "anna", "p").await.unwrap();
    let there = anna.call(&DeleteTopicRequest { name: "secret".into() }).await.unwrap_err();
    let not_there = anna.call(&DeleteTopicRequest { name: "nothing".into() }).await.unwrap_err();
    assert_eq!((there.status, there.field.as_str(), &there), (Status::NotAuthorized, "topic", &not_there));
    let describe = |group: &str| DescribeGroupRequest { group: group.into() };
    assert_eq!(anna.call(&describe("g")).await.unwrap_err().field, "group");

    allow(&server, "anna", &AccessResource::Topic(NamePattern::Prefix("a".into())), CONSUME);
    let names = |listed: ListTopicsResponse| listed.topics.into_iter().map(|topic| topic.name).collect::<Vec<_>>();
    assert_eq!(names(anna.call(&ListTopicsRequest::default()).await.unwrap()), ["a1", "a2"]);
    let page = anna.call(&ListTopicsRequest { limit: 1, after: "a1".into() }).await.unwrap();
    assert_eq!((page.more, names(page)), (false, vec!["a2".to_owned()]));
    let all = anna.call(&MetadataRequest { topics: TopicSelection::All, create_missing: false }).await.unwrap();
    assert_eq!(all.topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["a1", "a2"]);

    // The broker's own topics are nobody's, the administrator's neither.
    let mut root = log_in(&server, "root", "toor").await.unwrap();
    let internal = TopicSelection::Names(vec!["__consumer_offsets".into()]);
    let told = root.call(&MetadataRequest { topics: internal, create_missing: false }).await.unwrap();
    assert_eq!(told.missing[0].status, Status::NotAuthorized);
    // Groups in pages, of which most are not shown.
    let id = server.broker.topic(&"a1".parse().unwrap()).unwrap().meta.id;
    for number in 0..9 {
        let position =
            hermit_broker::Position { topic: id, partition: PartitionId(0), offset: Offset(0), leader_epoch: LeaderEpoch::UNKNOWN };
        server.broker.commit(&format!("g{number}").parse().unwrap(), &[position]).unwrap().committed().await.unwrap();
    }
    allow(&server, "anna", &group("g3"), CONSUME);
    allow(&server, "anna", &group("g7"), ADMINISTER);
    let first = anna.call(&ListGroupsRequest { after: String::new(), limit: 1 }).await.unwrap();
    assert_eq!((first.groups[0].name.as_str(), first.more), ("g3", true));
    let second = anna.call(&ListGroupsRequest { after: "g3".into(), limit: 1 }).await.unwrap();
    assert_eq!((second.groups[0].name.as_str(), second.more), ("g7", false));
}

/// To create takes its time, and so is done elsewhere: but only what may be created.
#[tokio::test]
async fn the_order_of_answers_tells_nothing_of_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    server.broker.create_topic("secret", 1, &TopicConfig::default()).unwrap();
    put(&server, "anna", "p");
    allow(&server, "anna", &topic("mine"), CREATE);
    allow(&server, "anna", &topic("read"), CONSUME);
    let mut anna = log_in(&server, "anna", "p").await.unwrap();
    for name in ["secret", "nothing", "read"] {
        let asked = MetadataRequest { topics: TopicSelection::Names(vec![name.into()]), create_missing: true };
        let (metadata, heartbeat) = (anna.correlation(), anna.correlation());
        let mut both = encoded(&asked, metadata.0);
        both.extend_from_slice(&encoded(&HeartbeatRequest, heartbeat.0));
        anna.send(&both).await;
        let (first, told) = anna.next_response::<MetadataResponse>().await;
        assert_eq!((first, told.unwrap().missing[0].status), (metadata, Status::NotAuthorized), "{name}");
        assert_eq!(anna.next_response::<HeartbeatResponse>().await.0, heartbeat, "{name}");
    }
    let asked = MetadataRequest { topics: TopicSelection::Names(vec!["mine".into()]), create_missing: true };
    assert_eq!(anna.call(&asked).await.unwrap().topics[0].name, "mine");
}

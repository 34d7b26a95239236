//! What changes is seen at once by whoever is there.

use hermit_broker::TopicConfig;
use hermit_broker::proto::session::DeliveryError;
use hermit_broker::proto::{MemberId, magic};

use super::*;

const CONSUME: AccessOperations = AccessOperations::CONSUME;
const PRODUCE: AccessOperations = AccessOperations::PRODUCE;

fn change_password(user: &str, password: &str) -> PutUserRequest {
    let password = PasswordChange::Set(Secret::new(password));
    PutUserRequest { user: user.into(), mode: PutUserMode::Change, password, enabled: None }
}

#[tokio::test]
async fn sessions_end_when_their_user_or_credential_goes_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let anna: UserName = "anna".parse().unwrap();
    let change: [&dyn Fn(); 4] = [
        &|| server.broker.delete_user(&anna).unwrap(),
        &|| assert!(!server.broker.put_user(&change_password("anna", "other")).unwrap()),
        &|| {
            let disable = PutUserRequest { password: PasswordChange::Keep, enabled: Some(false), ..change_password("anna", "") };
            server.broker.put_user(&disable).unwrap();
        },
        &|| {
            let remove = PutUserRequest { password: PasswordChange::Remove, ..change_password("anna", "") };
            server.broker.put_user(&remove).unwrap();
        },
    ];
    for change in change {
        let enable = PutUserRequest { mode: PutUserMode::CreateOrChange, enabled: Some(true), ..change_password("anna", "right") };
        server.broker.put_user(&enable).unwrap();
        let mut root = log_in(&server, "root", "toor").await.unwrap();
        // Idle: it is told without asking.
        let mut idle = log_in(&server, "anna", "right").await.unwrap();
        change();
        assert_eq!(last_word(&mut idle).await.status, Status::NotAuthenticated);
        assert!(log_in(&server, "anna", "right").await.is_err());
        root.call(&WhoAmIRequest).await.unwrap();
    }
}

#[tokio::test]
async fn a_deleted_token_ends_its_sessions_and_not_those_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "anna", "right");
    let anna: UserName = "anna".parse().unwrap();
    let mut sessions = Vec::new();
    for label in ["a", "b"] {
        let token = server.broker.create_token(&anna, label).unwrap();
        sessions.push(hello(&server, &HelloRequest::new("t").with_token(&token)).await.unwrap());
    }
    server.broker.delete_token(&anna, "a").unwrap();
    assert_eq!(last_word(&mut sessions[0]).await.status, Status::NotAuthenticated);
    sessions[1].call(&WhoAmIRequest).await.unwrap();
}

#[tokio::test]
async fn who_changes_the_own_password_is_answered_first() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let mut root = log_in(&server, "root", "toor").await.unwrap();
    assert!(!root.call(&change_password("root", "better")).await.unwrap().created);
    assert_eq!(last_word(&mut root).await.status, Status::NotAuthenticated);
    log_in(&server, "root", "better").await.unwrap();
}

#[tokio::test]
async fn the_last_administrator_stays() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let mut root = log_in(&server, "root", "toor").await.unwrap();
    let rules = vec![rule("root", &AccessResource::Broker, AccessOperations::ADMINISTER)];
    let refused = [
        root.call(&DeleteUserRequest { user: "root".into() }).await.err(),
        root.call(&DeleteRulesRequest { rules: rules.clone() }).await.err(),
        root.call(&PutUserRequest { password: PasswordChange::Remove, ..change_password("root", "") }).await.err(),
        root.call(&PutUserRequest { enabled: Some(false), ..change_password("root", "toor") }).await.err(),
    ];
    assert!(
        refused.iter().all(|error| error.as_ref().is_some_and(|error| error.status == Status::LastAdministrator)),
        "{refused:?}"
    );
    put(&server, "anna", "p");
    allow(&server, "anna", &AccessResource::Broker, AccessOperations::ADMINISTER);
    assert_eq!(root.call(&DeleteRulesRequest { rules }).await.unwrap().changed, 1);
    // From then on it is nothing to this session, whose login is as good as ever.
    assert_eq!(root.call(&ListUsersRequest::default()).await.unwrap_err().status, Status::NotAuthorized);
}

#[tokio::test]
async fn a_running_subscription_ends_when_it_is_not_allowed_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "anna", "p");
    let (t, u) = (topic("t"), topic("u"));
    let [t_id, u_id] = ["t", "u"].map(|name| server.broker.create_topic(name, 1, &TopicConfig::default()).unwrap().meta.id);
    for resource in [&t, &u] {
        allow(&server, "anna", resource, CONSUME | PRODUCE);
    }
    let mut anna = log_in(&server, "anna", "p").await.unwrap();
    let (t_reads, _) = anna.subscribe(t_id, 0, 1 << 20).await.unwrap();
    let (u_reads, _) = anna.subscribe(u_id, 0, 1 << 20).await.unwrap();
    anna.produce(t_id, 0, &frame()).await.unwrap();
    anna.delivery(t_reads).await;

    server.broker.delete_rules(&[rule("anna", &t, CONSUME)]).unwrap();
    let unit = anna.unit_for(magic::DELIVERY, t_reads).await.unwrap();
    let DeliveryError { ended, error } = DeliveryError::decode(unit.header(), unit.payload()).unwrap();
    assert_eq!((ended, error.status, error.field.as_str()), (true, Status::NotAuthorized, "topic"));
    // What is still allowed goes on.
    anna.produce(t_id, 0, &frame()).await.unwrap();
    anna.produce(u_id, 0, &frame()).await.unwrap();
    anna.delivery(u_reads).await;
    assert_eq!(anna.subscribe(t_id, 0, 1).await.err().unwrap().status, Status::NotAuthorized);
    server.broker.delete_rules(&[rule("anna", &t, PRODUCE)]).unwrap();
    assert_eq!(anna.produce(t_id, 0, &frame()).await.unwrap_err().status, Status::NotAuthorized);
    allow(&server, "anna", &t, PRODUCE);
    anna.produce(t_id, 0, &frame()).await.unwrap();
}

fn beat(version: u64, wait_ms: u32) -> GroupHeartbeatRequest {
    GroupHeartbeatRequest { group: "g".into(), member: MemberId(7), version, owned: vec![], wait_ms }
}

fn names(assignment: &Assignment) -> Vec<&str> {
    assignment.topics.iter().map(|topic| topic.name.as_str()).collect()
}

#[tokio::test]
async fn a_pattern_gets_the_topics_that_the_member_may_consume_as_rules_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.group_initial_delay = std::time::Duration::ZERO;
    let server = Server::with(config).await;
    put(&server, "anna", "p");
    for name in ["t1", "t2"] {
        server.broker.create_topic(name, 1, &TopicConfig::default()).unwrap();
    }
    allow(&server, "anna", &group("g"), CONSUME);
    allow(&server, "anna", &topic("t1"), CONSUME);
    let mut anna = log_in(&server, "anna", "p").await.unwrap();
    let join = |topics: &[&str], patterns: &[&str]| JoinGroupRequest {
        group: "g".into(),
        member: MemberId(7),
        session_timeout_ms: 30_000,
        processing_timeout_ms: 0,
        strategy: AssignmentStrategy::Balanced,
        topics: topics.iter().map(|name| (*name).to_owned()).collect(),
        patterns: patterns.iter().map(|name| (*name).to_owned()).collect(),
        claims: vec![],
    };
    let refused = anna.call(&join(&["t2"], &[])).await.unwrap_err();
    assert_eq!((refused.status, refused.field.as_str()), (Status::NotAuthorized, "topics"));
    let joined = anna.call(&join(&[], &["t.*"])).await.unwrap();
    assert_eq!(names(&joined.assignment), ["t1"]);

    // A waiting heartbeat hears of what is allowed, of a topic that comes and is not, and of what is allowed no more.
    let waiting = anna.request(&beat(joined.assignment.version, 10_000)).await;
    server.broker.create_topic("t3", 1, &TopicConfig::default()).unwrap();
    allow(&server, "anna", &topic("t2"), CONSUME);
    let told: GroupHeartbeatResponse = anna.response(waiting).await.unwrap();
    let mut assigned = names(&told.assignment);
    assigned.sort_unstable();
    assert_eq!(assigned, ["t1", "t2"]);
    server.broker.delete_rules(&[rule("anna", &topic("t1"), CONSUME)]).unwrap();
    let told = anna.call(&beat(told.assignment.version, 10_000)).await.unwrap();
    assert_eq!(names(&told.assignment), ["t2"]);

    let waiting = anna.request(&beat(told.assignment.version, 10_000)).await;
    server.broker.delete_rules(&[rule("anna", &group("g"), CONSUME)]).unwrap();
    let refused = anna.response::<GroupHeartbeatResponse>(waiting).await.unwrap_err();
    assert_eq!((refused.status, refused.field.as_str()), (Status::NotAuthorized, "group"));
}

/// An administrator who is being removed may have filled the queue with whom to come back as.
#[tokio::test]
async fn what_a_removed_administrator_has_in_the_queue_changes_nothing_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    // Dear enough that the queue is long when the first is done.
    config.access.hashing = PasswordHashing { memory_kib: 4096, passes: 2 };
    let server = Server::with(config).await;
    put(&server, "eve", "p");
    allow(&server, "eve", &AccessResource::Broker, AccessOperations::ADMINISTER);
    let mut eve = log_in(&server, "eve", "p").await.unwrap();
    let mut asked = Vec::new();
    for number in 0..12 {
        let request = PutUserRequest { mode: PutUserMode::Create, ..change_password(&format!("back{number}"), "p") };
        asked.push(eve.request(&request).await);
    }
    let users = || server.broker.list_users(&ListUsersRequest::default()).users;
    support::eventually("the first is done", || users().len() > 2).await;
    server.broker.delete_user(&"eve".parse().unwrap()).unwrap();
    let left = users();
    assert!(left.len() < asked.len(), "the queue was empty already: {}", left.len());
    // All are answered before the session ends, and those whose turn came too late with a refusal.
    let mut refused = 0;
    for _ in &asked {
        let (_, answered) = eve.next_response::<PutUserResponse>().await;
        refused += usize::from(answered.is_err_and(|error| error.status == Status::NotAuthorized));
    }
    assert_eq!(last_word(&mut eve).await.status, Status::NotAuthenticated);
    assert_eq!(users(), left);
    assert_eq!(refused + left.len(), asked.len() + 1, "root, and those that were made in time");
}

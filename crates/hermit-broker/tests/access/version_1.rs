//! Clients of version 1 act as the user that the settings name.

use hermit_broker::TopicConfig;

use super::support::v1;
use super::*;

const CONSUME: AccessOperations = AccessOperations::CONSUME;

fn config_as(dir: &Path, user: Option<&str>) -> BrokerConfig {
    let mut config = config(dir);
    config.access.v1_principal = user.map(|user| UserName::new(user).unwrap());
    config
}

async fn is_turned_away(server: &Server) -> bool {
    let mut producer = v1::producer(server, "t").await;
    let mut consumer = v1::consumer(server, "g", "t").await;
    v1::is_closed(&mut producer).await && v1::is_closed(&mut consumer).await && !v1::commit(server, "g", "t", 0, 0).await
}

#[tokio::test]
async fn nobody_named_or_one_who_is_not_there_is_nobody_let_in() {
    for user in [None, Some("legacy")] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::with(config_as(dir.path(), user)).await;
        server.broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
        allow(&server, "*", &topic("t"), AccessOperations::ALL);
        allow(&server, "*", &group("g"), CONSUME);
        assert!(is_turned_away(&server).await, "{user:?}");
    }
}

#[tokio::test]
async fn each_role_needs_its_rights_and_loses_them_while_it_runs() {
    use tokio::io::AsyncWriteExt as _;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(config_as(dir.path(), Some("legacy"))).await;
    let legacy = PutUserRequest { user: "legacy".into(), mode: PutUserMode::Create, password: PasswordChange::Keep, enabled: None };
    server.broker.put_user(&legacy).unwrap();
    assert!(is_turned_away(&server).await);

    // To produce to what is not there needs to create, too.
    allow(&server, "legacy", &topic("t"), AccessOperations::PRODUCE);
    assert!(v1::is_closed(&mut v1::producer(&server, "t").await).await);
    assert!(server.broker.topic(&"t".parse().unwrap()).is_err());
    allow(&server, "legacy", &topic("t"), AccessOperations::CREATE);
    let mut producer = v1::producer(&server, "t").await;
    producer.write_all(&v1::frame(1, b"", b"one", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 0));

    // A group is as needful as the topic.
    allow(&server, "legacy", &topic("t"), CONSUME);
    assert!(v1::is_closed(&mut v1::consumer(&server, "g", "t").await).await);
    assert!(!v1::commit(&server, "g", "t", 0, 0).await);
    allow(&server, "legacy", &group("g"), CONSUME);
    let mut consumer = v1::consumer(&server, "g", "t").await;
    assert_eq!(v1::next_frame(&mut consumer).await.2, b"one");
    assert!(v1::commit(&server, "g", "t", 0, 1).await);
    // One that waits for a topic.
    allow(&server, "legacy", &topic("later"), CONSUME);
    let mut waiting = v1::consumer(&server, "g", "later").await;

    server.broker.delete_rules(&[rule("legacy", &topic("t"), CONSUME), rule("legacy", &topic("later"), CONSUME)]).unwrap();
    assert!(v1::is_closed(&mut consumer).await, "it had nothing to read, and was told");
    assert!(v1::is_closed(&mut waiting).await);
    producer.write_all(&v1::frame(1, b"", b"two", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 1));
    server.broker.delete_user(&"legacy".parse().unwrap()).unwrap();
    assert!(v1::is_closed(&mut producer).await);
}

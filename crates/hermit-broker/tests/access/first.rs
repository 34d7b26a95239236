//! How the first administrator comes to be, and what a damaged file opens to nobody.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use hermit_broker::{Broker, TopicConfig};

use super::*;

fn token_config(dir: &Path) -> BrokerConfig {
    let mut config = config(dir);
    config.access.first_administrator = FirstAdministrator::Token;
    config
}

fn token_file(dir: &Path) -> PathBuf {
    dir.join("first-admin-token")
}

fn read_token(dir: &Path) -> Secret {
    Secret::new(std::fs::read_to_string(token_file(dir)).unwrap().trim_end())
}

#[tokio::test]
async fn the_one_time_token_makes_an_administrator_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(token_config(dir.path())).await;
    assert_eq!(std::fs::metadata(token_file(dir.path())).unwrap().permissions().mode() & 0o777, 0o600);
    let token = read_token(dir.path());
    let with_token = HelloRequest::new("t").with_token(&token);
    let mut first = hello(&server, &with_token).await.unwrap();
    assert_eq!(first.call(&WhoAmIRequest).await.unwrap().login, LoginKind::FirstAdministrator);
    assert_eq!(first.create("t", 1, TopicConfig::default()).await.unwrap_err().status, Status::NotAuthorized);
    let all = first.call(&MetadataRequest { topics: TopicSelection::All, create_missing: false }).await.unwrap();
    assert!(all.topics.is_empty());

    let password = PasswordChange::Set(Secret::new("p"));
    let anna = PutUserRequest { user: "anna".into(), mode: PutUserMode::Create, password, enabled: None };
    assert!(first.call(&anna).await.unwrap().created);
    assert!(token_file(dir.path()).exists());
    let rules = vec![rule("anna", &AccessResource::Broker, AccessOperations::ADMINISTER)];
    assert_eq!(first.call(&AddRulesRequest { rules }).await.unwrap().changed, 1, "the answer comes before the end");
    assert_eq!(last_word(&mut first).await.status, Status::NotAuthenticated);
    assert!(!token_file(dir.path()).exists());
    assert_eq!(hello(&server, &with_token).await.err().unwrap().status, Status::NotAuthenticated);
    log_in(&server, "anna", "p").await.unwrap().call(&ListUsersRequest::default()).await.unwrap();

    server.stop().await;
    let server = Server::with(token_config(dir.path())).await;
    assert!(!token_file(dir.path()).exists());
    log_in(&server, "anna", "p").await.unwrap();
}

#[tokio::test]
async fn the_user_of_the_settings_is_made_once_and_keeps_a_changed_password() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let mut root = log_in(&server, "root", "toor").await.unwrap();
    root.create("t", 1, TopicConfig::default()).await.unwrap();
    root.call(&DescribeBrokerRequest).await.unwrap();
    put(&server, "root", "changed");
    server.stop().await;
    let server = start(dir.path()).await;
    assert!(log_in(&server, "root", "toor").await.is_err());
    log_in(&server, "root", "changed").await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_kept_aside_and_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "anna", "p");
    allow(&server, "*", &AccessResource::Topic(NamePattern::Prefix(String::new())), AccessOperations::ALL);
    server.stop().await;
    let path = dir.path().join("access");
    let whole = std::fs::read(&path).unwrap();
    for (number, damaged) in [&whole[..whole.len() - 1], &[][..], b"garbage"].into_iter().enumerate() {
        std::fs::write(&path, damaged).unwrap();
        let server = Server::with(token_config(dir.path())).await;
        let kept = dir.path().join(format!("access.damaged-{}", number + 1));
        assert_eq!(server.broker.report().access.as_ref().unwrap().kept.as_ref(), Some(&kept));
        assert_eq!(std::fs::read(&kept).unwrap(), damaged);
        for user in ["anna", "root"] {
            assert_eq!(log_in(&server, user, "p").await.err().unwrap().status, Status::NotAuthenticated);
        }
        assert!(hello(&server, &HelloRequest::new("t")).await.is_err());
        let mut first = hello(&server, &HelloRequest::new("t").with_token(&read_token(dir.path()))).await.unwrap();
        assert!(first.call(&ListUsersRequest::default()).await.unwrap().users.is_empty());
        server.stop().await;
    }
    // Put back by the operator, it is as good as it was.
    std::fs::write(&path, &whole).unwrap();
    let server = Server::with(token_config(dir.path())).await;
    log_in(&server, "anna", "p").await.unwrap();
}

#[tokio::test]
async fn a_file_of_a_newer_release_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    start(dir.path()).await.stop().await;
    let path = dir.path().join("access");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 4);
    bytes[11] = 2;
    let crc = hermit_broker::proto::crc32c(&bytes);
    bytes.extend(crc.to_be_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = Broker::open(config(dir.path())).unwrap_err().to_string();
    assert!(error.contains("access") && error.contains("newer release"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was changed");
}

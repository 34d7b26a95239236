//! Who is let in, and who may do what.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the test's failure")]

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod files;
mod first;
mod logins;
mod operations;
mod version_1;

use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::proto::session::*;
use hermit_broker::proto::{CorrelationId, Secret, UserName};
use hermit_broker::{BrokerConfig, FirstAdministrator, PasswordHashing};
use support::Server;
use support::v2::Session;

const CHEAP: PasswordHashing = PasswordHashing { memory_kib: 8, passes: 1 };

/// A broker where `root` may do everything, and nobody else anything.
fn config(dir: &Path) -> BrokerConfig {
    let mut config = support::config(dir);
    config.access.enabled = true;
    // Nothing but the change itself makes an idle session look.
    config.limits.handshake_timeout = Duration::from_secs(120);
    config.limits.heartbeat_interval = Duration::from_secs(120);
    config.access.hashing = CHEAP;
    let (user, password) = (UserName::new("root").unwrap(), Secret::new("toor"));
    config.access.first_administrator = FirstAdministrator::Password { user, password };
    config
}

async fn start(dir: &Path) -> Server {
    Server::with(config(dir)).await
}

fn put(server: &Server, user: &str, password: &str) {
    let password = PasswordChange::Set(Secret::new(password));
    let request = PutUserRequest { user: user.into(), mode: PutUserMode::CreateOrChange, password, enabled: None };
    server.broker.put_user(&request).unwrap();
}

fn rule(principal: &str, resource: &AccessResource, operations: AccessOperations) -> AccessRule {
    AccessRule { principal: principal.into(), resource: resource.clone(), operations }
}

fn topic(name: &str) -> AccessResource {
    AccessResource::Topic(NamePattern::Exact(name.into()))
}

fn group(name: &str) -> AccessResource {
    AccessResource::Group(NamePattern::Exact(name.into()))
}

fn allow(server: &Server, principal: &str, resource: &AccessResource, operations: AccessOperations) {
    server.broker.add_rules(&[rule(principal, resource, operations)]).unwrap();
}

async fn hello(server: &Server, hello: &HelloRequest) -> Result<Session, WireError> {
    hello_over(Session::raw(server).await, hello).await
}

async fn hello_over(mut session: Session, hello: &HelloRequest) -> Result<Session, WireError> {
    let _opened: HelloResponse = session.call(hello).await?;
    Ok(session)
}

async fn log_in(server: &Server, user: &str, password: &str) -> Result<Session, WireError> {
    hello(server, &HelloRequest::new("test").with_password(user, &Secret::new(password))).await
}

/// What the broker says last, before it closes.
async fn last_word(session: &mut Session) -> WireError {
    let unit = session.unit_for(hermit_broker::proto::magic::RESPONSE, CorrelationId(0)).await.expect("it closed without a word");
    let error = WireError::decode(unit.header(), unit.payload()).unwrap();
    assert!(session.read_unit().await.is_none(), "it goes on");
    error
}

fn frame() -> Vec<u8> {
    hermit_broker::proto::ProducedFrame::message(1, None, b"x").to_vec().unwrap()
}

fn encoded<Q: Request>(request: &Q, correlation: u64) -> BytesMut {
    let mut out = BytesMut::new();
    request.encode(CorrelationId(correlation), &mut out).unwrap();
    out
}

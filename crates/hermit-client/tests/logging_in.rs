//! What the SDK makes of refused, withdrawn and postponed logins: a fake broker says what it is told to.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

mod support;

use std::time::Duration;

use hermit_client::{AccessRule, Client, Error, LoginKind, ProducerRecord, Start, Status, WhoAmIResponse, WireError};
use hermit_proto::CorrelationId;
use hermit_proto::session::{AddRulesRequest, HelloRequest, ListRulesRequest, ListRulesResponse, Message, Operation};
use support::fake::{Fake, Peer, connected, hello_response, prompt, send};
use support::{builder, within};

async fn hello(peer: &mut Peer) -> (CorrelationId, HelloRequest) {
    let unit = peer.recv().await;
    (unit.correlation(), HelloRequest::decode(unit.key(), unit.payload()).unwrap())
}

/// Takes the next connection and refuses its login.
async fn refuse(fake: &Fake, error: WireError) {
    let mut peer = fake.accept_raw().await;
    let (correlation, _) = hello(&mut peer).await;
    peer.refuse(correlation, error).await;
    peer.hung_up().await;
}

fn wrong() -> WireError {
    WireError::new(Status::NotAuthenticated, "user or password is wrong")
}

/// The client hangs up, and does not come again: its next attempt would be there within milliseconds.
async fn nobody_comes(fake: &Fake) {
    let next = tokio::time::timeout(Duration::from_millis(300), fake.accept_raw());
    assert!(next.await.is_err(), "it tries again");
}

#[tokio::test]
async fn passwords_and_tokens_go_with_every_hello() {
    let fake = Fake::start().await;
    let client = builder(fake.address).password("ann", "s3cret").start().unwrap();
    for _reconnect in 0..2 {
        let mut peer = fake.accept_raw().await;
        let (correlation, said) = hello(&mut peer).await;
        assert_eq!((said.auth_mechanism.as_str(), said.auth.as_slice()), ("PLAIN", &b"\0ann\0s3cret"[..]));
        peer.respond(correlation, &hello_response()).await;
    }
    assert!(!format!("{client:?}").contains("s3cret"));
    drop(client);
    let fake = Fake::start().await;
    let _client = builder(fake.address).token("hmt_abc").start().unwrap();
    let (_, said) = hello(&mut fake.accept_raw().await).await;
    assert_eq!((said.auth_mechanism.as_str(), said.auth.as_slice()), ("TOKEN", &b"hmt_abc"[..]));
}

/// An address of this machine that other machines may have as well.
fn outer_address() -> Option<std::net::IpAddr> {
    // Nothing is sent: the system says which address it would send from.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

#[tokio::test]
async fn a_secret_is_not_sent_to_another_machine_in_the_clear() {
    let Some(address) = outer_address() else { return };
    let fake = Fake::start_at(address).await;
    let connecting = tokio::spawn(builder(fake.address).password("ann", "s3cret").connect());
    // It hangs up without a byte, and does not come again.
    fake.accept_raw().await.hung_up_silently().await;
    let error = within(connecting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::InsecureLogin { .. }) && !error.to_string().contains("s3cret"), "{error}");
    nobody_comes(&fake).await;
    let _client = builder(fake.address).password("ann", "s3cret").insecure_login(true).start().unwrap();
    assert_eq!(hello(&mut fake.accept_raw().await).await.1.auth, b"\0ann\0s3cret");
    let _client = builder(fake.address).start().unwrap();
    hello(&mut fake.accept_raw().await).await;
}

#[tokio::test]
async fn a_refused_login_is_final() {
    let fake = Fake::start().await;
    let client = builder(fake.address).password("ann", "wrong").start().unwrap();
    let admin = client.admin();
    let (listed, ()) = within(async { tokio::join!(admin.list_topics(), refuse(&fake, wrong())) }).await;
    assert_eq!(listed.unwrap_err().status(), Some(Status::NotAuthenticated));
    nobody_comes(&fake).await;
    let again = within(client.admin().who_am_i()).await.unwrap_err();
    assert_eq!(again.status(), Some(Status::NotAuthenticated));
}

#[tokio::test]
async fn a_login_that_is_put_off_is_tried_again_and_not_before_its_time() {
    let fake = Fake::start().await;
    let connecting = tokio::spawn(builder(fake.address).password("ann", "s3cret").connect());
    let later = WireError::new(Status::TooManyLogins, "later").detail(400);
    within(refuse(&fake, later)).await;
    let since = tokio::time::Instant::now();
    let mut peer = fake.accept_raw().await;
    assert!(since.elapsed() >= Duration::from_millis(300), "{:?}", since.elapsed());
    let (correlation, _) = hello(&mut peer).await;
    peer.respond(correlation, &hello_response()).await;
    within(connecting).await.unwrap().unwrap();
}

/// A session that the broker ends, as a user was removed or has another password.
async fn withdrawn(fake: &Fake, peer: &mut Peer) {
    peer.refuse(CorrelationId(0), wrong()).await;
    refuse(fake, wrong()).await;
}

#[tokio::test]
async fn a_running_producer_whose_user_is_gone_gets_the_error() {
    let (fake, client, mut peer) = connected(|builder| builder.password("ann", "s3cret")).await;
    let producer = prompt(&client);
    let (first, produced) = send(&producer, &mut peer, "first").await;
    peer.stored(&produced, 0).await;
    within(first).await.unwrap();
    let (second, _unanswered) = send(&producer, &mut peer, "second").await;
    withdrawn(&fake, &mut peer).await;
    let error = within(second).await.unwrap_err();
    assert!(matches!(&error, Error::OutcomeUnknown { source } if source.status() == Some(Status::NotAuthenticated)), "{error}");
    let error = within(producer.send("t", ProducerRecord::new("third").key("k"))).await.unwrap_err();
    assert_eq!(error.status(), Some(Status::NotAuthenticated), "{error}");
    nobody_comes(&fake).await;
}

#[tokio::test]
async fn a_running_consumer_whose_user_is_gone_gets_the_error() {
    let (fake, client, mut peer) = connected(|builder| builder.password("ann", "s3cret")).await;
    let mut consumer = client.consumer().build().unwrap();
    let assigning = async {
        consumer.assign("t", 0, Start::Offset(hermit_client::Offset(0))).await.unwrap();
        consumer.recv().await
    };
    let withdrawing = async {
        peer.expect(Operation::Subscribe).await;
        withdrawn(&fake, &mut peer).await;
    };
    let (received, ()) = within(async { tokio::join!(assigning, withdrawing) }).await;
    assert_eq!(received.unwrap_err().status(), Some(Status::NotAuthenticated));
    assert_eq!(within(consumer.recv()).await.unwrap_err().status(), Some(Status::NotAuthenticated));
    nobody_comes(&fake).await;
}

#[tokio::test]
async fn what_is_not_allowed_is_not_tried_again() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (delivery, produced) = send(&producer, &mut peer, "x").await;
    peer.refuse(produced.correlation, WireError::new(Status::NotAuthorized, "topic `t`: produce is not allowed").field("topic"))
        .await;
    let error = within(delivery).await.unwrap_err();
    assert_eq!(error.status(), Some(Status::NotAuthorized), "{error}");
    // It goes on: what is allowed later is stored later.
    let (delivery, produced) = send(&producer, &mut peer, "y").await;
    peer.stored(&produced, 0).await;
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn pages_of_rules_that_do_not_lead_on_end_the_asking() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let rule = AccessRule {
        principal: "ann".into(),
        resource: hermit_client::AccessResource::Broker,
        operations: hermit_client::AccessOperations::ADMINISTER,
    };
    let admin = client.admin();
    let answering = async {
        for after in [None, Some(rule.clone())] {
            let unit = peer.expect(Operation::ListRules).await;
            assert_eq!(ListRulesRequest::decode(unit.key(), unit.payload()).unwrap().after, after);
            peer.respond(unit.correlation(), &ListRulesResponse { rules: vec![rule.clone()], more: true }).await;
        }
    };
    let (listed, ()) = within(async { tokio::join!(admin.list_rules(None), answering) }).await;
    assert!(matches!(listed, Err(Error::Protocol { .. })), "{listed:?}");
    let adding = async {
        let unit = peer.expect(Operation::AddRules).await;
        assert_eq!(AddRulesRequest::decode(unit.key(), unit.payload()).unwrap().rules, std::slice::from_ref(&rule));
        peer.respond(unit.correlation(), &hermit_proto::session::AddRulesResponse { changed: 1 }).await;
        let unit = peer.expect(Operation::WhoAmI).await;
        peer.respond(unit.correlation(), &WhoAmIResponse { principal: "ann".into(), login: LoginKind::Password }).await;
    };
    let asking = async { (admin.add_rules(vec![rule.clone()]).await, Client::admin(&client).who_am_i().await) };
    let ((added, me), ()) = within(async { tokio::join!(asking, adding) }).await;
    assert_eq!((added.unwrap(), me.unwrap().principal.as_str()), (1, "ann"));
}

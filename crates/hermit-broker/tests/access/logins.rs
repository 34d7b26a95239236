//! Logging in: what is told, what it costs, and whom failures keep out.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

use super::*;

#[tokio::test]
async fn a_failed_login_is_told_in_the_same_words_and_the_broker_closes() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "anna", "right");
    let disabled = PutUserRequest {
        user: "bert".into(),
        mode: PutUserMode::Create,
        password: PasswordChange::Set(Secret::new("right")),
        enabled: Some(false),
    };
    server.broker.put_user(&disabled).unwrap();
    let wrong = log_in(&server, "anna", "wrong").await.err().unwrap();
    assert_eq!((wrong.status, wrong.field.as_str()), (Status::NotAuthenticated, "auth"));
    assert!(!wrong.message.contains("wrong password") && !wrong.message.contains("anna"), "{wrong}");
    for (user, password) in [("nobody", "right"), ("bert", "right"), ("anna", "right "), ("*", "right")] {
        assert_eq!(log_in(&server, user, password).await.err(), Some(wrong.clone()), "{user}");
    }
    let mut session = Session::raw(&server).await;
    session.send(&encoded(&HelloRequest::new("t").with_password("anna", &Secret::new("wrong")), 1)).await;
    // A request that was sent along is not looked at.
    session.send(&encoded(&WhoAmIRequest, 2)).await;
    assert_eq!(session.next_response::<HelloResponse>().await, (CorrelationId(1), Err(wrong.clone())));
    assert!(session.read_unit().await.is_none());
    let token = hello(&server, &HelloRequest::new("t").with_token(&Secret::new("hmt_0"))).await.err();
    assert_eq!(token, Some(wrong));
    assert!(log_in(&server, "anna", "right").await.is_ok());
}

#[tokio::test]
async fn a_hello_without_a_mechanism_is_told_which_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for mechanism in ["", "plain", "SCRAM-SHA-256"] {
        let request = HelloRequest { auth_mechanism: mechanism.into(), ..HelloRequest::new("t") };
        let error = hello(&server, &request).await.err().unwrap();
        assert_eq!((error.status, error.field.as_str()), (Status::NotAuthenticated, "auth_mechanism"));
        assert!(error.message.contains("PLAIN") && error.message.contains("TOKEN"), "{error}");
    }
    let malformed = HelloRequest { auth_mechanism: "PLAIN".into(), auth: b"anna".to_vec(), ..HelloRequest::new("t") };
    assert_eq!(hello(&server, &malformed).await.err().unwrap().status, Status::NotAuthenticated);
    assert_eq!(server.broker.password_checks(), 0);
}

#[tokio::test]
async fn a_session_knows_who_it_is_and_a_token_is_as_good_as_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "anna", "right");
    let mut anna = log_in(&server, "anna", "right").await.unwrap();
    let told = anna.call(&WhoAmIRequest).await.unwrap();
    assert_eq!(told, WhoAmIResponse { principal: "anna".into(), login: LoginKind::Password });
    let token = server.broker.create_token(&"anna".parse().unwrap(), "ci").unwrap();
    let with_token = HelloRequest::new("t").with_token(&token);
    let told = hello(&server, &with_token).await.unwrap().call(&WhoAmIRequest).await.unwrap();
    assert_eq!(told, WhoAmIResponse { principal: "anna".into(), login: LoginKind::Token });
    let bytes = std::fs::read(dir.path().join("access")).unwrap();
    for secret in [token.expose().as_bytes(), b"right", b"toor"] {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "a secret is on the disk");
    }
}

/// With passwords as dear as they are by default: two checks at a time take some 100 ms in all.
#[tokio::test]
async fn two_hundred_reconnects_at_once_take_a_few_checks() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.access.hashing = PasswordHashing::default();
    let server = Server::with(config).await;
    let before = server.broker.password_checks();
    let mut raw = Vec::new();
    for _ in 0..200 {
        raw.push(Session::raw(&server).await);
    }
    let request = HelloRequest::new("t").with_password("root", &Secret::new("toor"));
    for session in &mut raw {
        session.send(&encoded(&request, 1)).await;
    }
    for session in &mut raw {
        session.response::<HelloResponse>(CorrelationId(1)).await.unwrap();
    }
    let checks = server.broker.password_checks() - before;
    assert!((1..=4).contains(&checks), "{checks} checks");
    put(&server, "root", "other");
    assert_eq!(
        log_in(&server, "root", "toor").await.err().unwrap().status,
        Status::NotAuthenticated,
        "what was known holds no more"
    );
}

async fn from(server: &Server, address: &str, user: &str, password: &str) -> Result<Session, WireError> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    let mut session = Session::raw(server).await;
    session.stream = socket.connect(server.address).await.unwrap();
    hello_over(session, &HelloRequest::new("t").with_password(user, &Secret::new(password))).await
}

#[tokio::test]
async fn a_storm_of_wrong_passwords_keeps_no_other_address_out_and_ends_in_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    put(&server, "anna", "right");
    let before = server.broker.password_checks();
    let mut last = None;
    for _ in 0..100 {
        last = from(&server, "127.0.0.2", "anna", "wrong").await.err();
    }
    let last = last.unwrap();
    assert_eq!((last.status, last.is_retryable(), last.details.len()), (Status::TooManyLogins, true, 1));
    let checks = server.broker.password_checks() - before;
    assert!(checks < 12, "{checks} of 100 wrong passwords were looked at");
    // The right one is not told from a wrong one there, and is as good as ever elsewhere.
    assert_eq!(from(&server, "127.0.0.2", "anna", "right").await.err().unwrap().status, Status::TooManyLogins);
    from(&server, "127.0.0.3", "anna", "right").await.unwrap();
    from(&server, "127.0.0.2", "root", "toor").await.unwrap();
}

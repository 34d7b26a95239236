use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hermit_client::{Operation, ProtocolFault, Status, TlsFault, WireError};
use hermit_proto::DeframeError;

use super::hint::elsewhere;
use super::*;
use crate::args::Cli;

fn explained(error: anyhow::Error) -> Failure {
    let cli = Cli::read(["hermit-cli", "topic", "list", "--server", "127.0.0.1:9092"]).unwrap();
    explain(&error, &cli.connection)
}

fn message(error: impl Into<anyhow::Error>) -> String {
    explained(error.into()).line(Output::Text).unwrap().strip_prefix("error: ").unwrap().to_owned()
}

#[test]
fn an_unreachable_broker_is_told_with_what_to_do() {
    let source = Arc::new(io::ErrorKind::ConnectionRefused.into());
    let failure = explained(Error::Unreachable { server: "127.0.0.1:9092".into(), source }.into());
    let message = failure.line(Output::Text).unwrap();
    assert!(message.starts_with("error: cannot reach 127.0.0.1:9092: connection refused; is hermitd running?"), "{message}");
    assert_eq!(failure.exit_status, 1);
}

#[test]
fn who_speaks_tls_is_not_told_to() {
    let lost = || Error::ConnectionLost { server: "a:1".into(), source: Arc::new(io::ErrorKind::UnexpectedEof.into()) };
    let hint = |options: &[&str]| {
        let cli = Cli::read([&["hermit-cli", "topic", "list"], options].concat()).unwrap();
        super::hint::of(&lost(), &cli.connection).unwrap()
    };
    assert!(hint(&[]).contains("add --tls"));
    for options in [&["--tls"][..], &["--tls-ca", "ca.pem"], &["--tls-server-name", "a"]] {
        assert!(!hint(options).contains("add --tls"), "{options:?}");
    }
}

#[test]
fn causes_are_told_once() {
    let error = Error::UnknownTopic { topic: "odrers".into() };
    let message = message(anyhow::Error::from(error).context("line 3 of x.csv"));
    assert!(message.starts_with("line 3 of x.csv: there is no topic `odrers`; create it"), "{message}");
    assert_eq!(message.matches("there is no topic").count(), 1);
}

#[test]
fn who_would_not_create_a_topic_is_told_the_same_kind_with_another_hint() {
    let unknown = || Error::UnknownTopic { topic: "nowhere".into() };
    let (about, sending) = (explained(crate::topic::or_list(unknown())), explained(unknown().into()));
    assert_eq!((&*about.kind, &about.problem), ("unknown_topic", &sending.problem));
    assert_eq!(about.kind, sending.kind);
    assert_eq!(about.line(Output::Text).unwrap(), "error: there is no topic `nowhere`; see `hermit-cli topic list`");
}

#[test]
fn refusals_name_the_option_and_not_the_protocol() {
    let source = WireError::new(Status::InvalidConfig, "`retention_age_ms`: 0 would delete all").field("retention_age_ms");
    let refused = Error::Refused { operation: Operation::CreateTopic, source: Arc::new(source) };
    assert_eq!(message(refused), "--retention-age: 0 would delete all");

    let source = WireError::new(Status::DiskFull, "the disk has 1 free bytes");
    let refused = Error::Refused { operation: Operation::Produce, source: Arc::new(source) };
    let late = Error::DeliveryTimeout { after: Duration::from_secs(2), source: Some(Arc::new(refused)) };
    let expected = "the record was not stored within the delivery timeout of 2s: the disk has 1 free bytes; make room on the broker's disk, or delete topics";
    assert_eq!(message(late), expected);
}

#[test]
fn refused_logins_tell_how_to_log_in_and_refused_rights_who_gives_them() {
    let refused = |operation, status| {
        let source = WireError::new(status, "no");
        message(Error::Refused { operation, source: Arc::new(source) })
    };
    let told = refused(Operation::Hello, Status::NotAuthenticated);
    assert!(told.starts_with("no; log in with --user") && told.contains("HERMIT_TOKEN"), "{told}");
    assert!(refused(Operation::Produce, Status::NotAuthorized).contains("acl add"));
    assert!(refused(Operation::Hello, Status::TlsRequired).contains("--tls"));
    let insecure = message(Error::InsecureLogin { server: "a:1".into() });
    assert!(insecure.contains("was not sent") && insecure.contains("--tls") && insecure.contains("--insecure-login"), "{insecure}");
    let tls = Error::Tls { server: "a:1".into(), source: TlsFault::NotSpoken };
    assert!(message(tls).contains("leave --tls"));
    assert_eq!(refused(Operation::Hello, Status::TooManyLogins), "no; try again later");
}

#[test]
fn tls_is_told_by_the_options_of_this_program() {
    let with = |source| message(Error::Tls { server: "a:1".into(), source });
    let expected = [
        (
            TlsFault::UnknownAuthority,
            "its certificate was issued by an authority that is not believed here; believe it with --tls-ca FILE",
        ),
        (
            TlsFault::WrongName { names: "b, c".into() },
            "its certificate is for other names (b, c); say one of its names with --tls-server-name NAME",
        ),
        (TlsFault::ClientCertificateRequired, "it asks for a client certificate; show one with --tls-cert FILE --tls-key FILE"),
        (TlsFault::AuthoritysOwn, "its certificate is that of an authority (CA:TRUE), not of a server: have one issued for it"),
    ];
    for (fault, words) in expected {
        assert_eq!(with(fault), format!("no TLS with a:1: {words}"));
    }
    let error = Error::Config { setting: "tls_ca", problem: "x.pem: it cannot be read".into() };
    assert_eq!(message(error), "--tls-ca: x.pem: it cannot be read");
}

#[test]
fn a_broken_pipe_ends_quietly_and_not_with_success() {
    let error = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("standard output").unwrap_err();
    let failure = explained(error);
    assert_eq!((failure.line(Output::Text), failure.exit_status), (None, 141));
}

#[test]
fn errors_take_one_line() {
    assert_eq!(message(anyhow::anyhow!("two\n  lines")), "two lines");
}

#[test]
fn a_port_of_somebody_else_is_told_by_what_it_says() {
    let with = |found| {
        let source = ProtocolFault::Deframe(DeframeError::Magic { found });
        message(Error::Protocol { server: "a:1".into(), source })
    };
    assert!(with(b'H').starts_with("a:1 does not speak HermitMQ's native protocol") && with(b'H').contains("15672"));
    assert!(with(0x15).contains("add --tls"));
    assert!(with(b'-').contains("another server's port"));
    let unknown = io::Error::new(io::ErrorKind::NotFound, "the host name could not be resolved (x)");
    let told = message(Error::Unreachable { server: "b:1".into(), source: Arc::new(unknown) });
    assert!(told.contains("DNS") && told.contains("--server or HERMIT_SERVER"), "{told}");
    let mut connection = Cli::read(["hermit-cli", "topic", "list"]).unwrap().connection;
    (connection.profile, connection.server_of_profile) = (Some("prod".into()), true);
    assert!(elsewhere(&connection).contains("profile `prod`"));
}

#[test]
fn programs_get_a_kind_and_the_hint_by_itself() {
    let source = WireError::new(Status::TopicExists, "topic t exists");
    let refused = Error::Refused { operation: Operation::CreateTopic, source: Arc::new(source) };
    let late = Error::Timeout { awaited: "answer", after: Duration::from_secs(1), source: Some(Arc::new(refused)) };
    let line = explained(late.into()).line(Output::Json).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["error"]["kind"], "topic_exists");
    assert!(told["error"]["hint"].as_str().unwrap().starts_with("see it with"));
    assert!(!told["error"]["message"].as_str().unwrap().contains("see it with"));
    assert_eq!(explained(Unhealthy { problems: 2 }.into()).kind, "unhealthy");
    let told = message(Unhealthy { problems: 2 });
    assert_eq!(told, "2 things need acting on");
    let names = ["NotAuthenticated", "NotAuthorized", "DiskFull"].map(snake_case);
    assert_eq!(names, ["not_authenticated", "not_authorized", "disk_full"]);
}

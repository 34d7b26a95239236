//! Errors for people: one line that says what to do.

use std::{fmt, io};

use hermit_client::{Error, Operation, ProtocolFault, Status, TlsFault, WireError};
use hermit_proto::DeframeError;
use serde_json::json;

use crate::args::{ConnectionArgs, Output};
use crate::text::clean;

/// The reader of a pipe went away: the end of the work, not worth a word.
const BROKEN_PIPE_STATUS: u8 = 128 + 13;

/// What the process ends with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// For programs: never another word for the same.
    pub(crate) kind: String,
    /// What is wrong. `None` where silence is right.
    problem: Option<String>,
    /// What to do.
    hint: Option<String>,
    pub(crate) exit_status: u8,
}

impl Failure {
    fn silent(exit_status: u8) -> Self {
        Self { kind: String::new(), problem: None, hint: None, exit_status }
    }

    fn new(kind: impl Into<String>, problem: &str, hint: Option<String>) -> Self {
        Self { kind: kind.into(), problem: Some(one_line(problem)), hint: hint.as_deref().map(one_line), exit_status: 1 }
    }

    /// One line for standard error, if there is something to say.
    pub(crate) fn line(&self, output: Output) -> Option<String> {
        let problem = self.problem.as_ref()?;
        Some(match (output, &self.hint) {
            (Output::Json, hint) => json!({ "error": { "kind": self.kind, "message": problem, "hint": hint } }).to_string(),
            (Output::Text, Some(hint)) => format!("error: {problem}; {hint}"),
            (Output::Text, None) => format!("error: {problem}"),
        })
    }
}

/// The line for a command line that cannot be understood, whose form of answers is not known either: by what it seems to ask for.
pub(crate) fn usage_line(error: &clap::Error, arguments: &[std::ffi::OsString]) -> Option<String> {
    let asks_for_json =
        arguments.windows(2).any(|pair| pair == ["--output", "json"]) || arguments.iter().any(|one| one == "--output=json");
    if !(asks_for_json && error.use_stderr()) {
        return None;
    }
    let text = error.render().to_string();
    let problem = text.split("\n\n").next().unwrap_or_default();
    Failure::new("usage", problem.strip_prefix("error: ").unwrap_or(problem), Some("see --help".to_owned())).line(Output::Json)
}

/// The command was ended by a signal.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// Its number.
    pub(crate) signal: u8,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}

/// Something needs acting on: what it is stands in the answer.
#[derive(Debug)]
pub(crate) struct Unhealthy {
    pub(crate) problems: usize,
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needs, things) = if self.problems == 1 { ("needs", "thing") } else { ("need", "things") };
        write!(f, "{} {things} {needs} acting on", self.problems)
    }
}

impl std::error::Error for Unhealthy {}

/// Words an error.
pub(crate) fn explain(error: &anyhow::Error, connection: &ConnectionArgs) -> Failure {
    if let Some(Interrupted { signal }) = error.downcast_ref() {
        return Failure::silent(128 + signal);
    }
    let mut parts = Vec::new();
    for cause in error.chain() {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::BrokenPipe
        {
            return Failure::silent(BROKEN_PIPE_STATUS);
        }
        if let Some(sdk) = cause.downcast_ref::<Error>() {
            // It words its causes itself.
            parts.push(words(sdk));
            return Failure::new(kind(sdk), &parts.join(": "), hint(sdk, connection));
        }
        parts.push(cause.to_string());
    }
    let kind = if error.is::<Unhealthy>() { "unhealthy" } else { "failed" };
    Failure::new(kind, &parts.join(": "), None)
}

/// What an error is to programs. A refusal is what the broker's status says, and what took too long is what stood in its way.
fn kind(error: &Error) -> String {
    let kind = match error {
        Error::Unreachable { .. } => "unreachable",
        Error::ConnectionLost { .. } => "connection_lost",
        Error::Tls { .. } => "tls",
        Error::InsecureLogin { .. } => "insecure_login",
        Error::Protocol { .. } => "protocol",
        Error::Refused { source, .. } => return snake_case(source.status.name()),
        Error::Timeout { source: Some(source), .. } | Error::DeliveryTimeout { source: Some(source), .. } => return kind(source),
        Error::Timeout { .. } | Error::DeliveryTimeout { .. } => "timeout",
        Error::OutcomeUnknown { .. } => "outcome_unknown",
        Error::ProducerFenced { .. } | Error::Fenced { .. } => "fenced",
        Error::Name(_) => "invalid_name",
        Error::UnknownTopic { .. } => "unknown_topic",
        Error::UnknownPartition { .. } => "unknown_partition",
        Error::UnknownGroup { .. } => "unknown_group",
        Error::GroupActive { .. } => "group_active",
        Error::InvalidRecord { .. } => "invalid_record",
        Error::Config { .. } => "invalid_setting",
        Error::Corrupt { .. } | Error::BadRecordSet { .. } => "corrupt",
        Error::OutOfRange { .. } => "out_of_range",
        Error::Diverged { .. } => "diverged",
        Error::ProcessingTimeout { .. } => "processing_timeout",
        _ => "failed",
    };
    kind.to_owned()
}

/// `TopicExists` as `topic_exists`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// An error without the protocol's words.
fn words(error: &Error) -> String {
    let text = error.to_string();
    let mut cause = error;
    loop {
        cause = match cause {
            Error::Refused { source, .. } => return text.replace(&cause.to_string(), &refusal(source)),
            Error::Protocol { server, source: ProtocolFault::Deframe(DeframeError::Magic { found }) } => {
                return format!("{server} does not speak HermitMQ's native protocol: what it says begins with {found:#04x}");
            }
            Error::Tls { source, .. } => return text.replace(&source.to_string(), &tls_words(source)),
            Error::Config { setting, problem } if setting.starts_with("tls_") => {
                return format!("--{}: {problem}", setting.replace('_', "-"));
            }
            Error::OutcomeUnknown { source }
            | Error::DeliveryTimeout { source: Some(source), .. }
            | Error::Timeout { source: Some(source), .. } => source,
            _ => return text,
        }
    }
}

/// What the broker says, with the option in place of the field that it names.
fn refusal(refused: &WireError) -> String {
    let said = &*refused.message;
    if said.is_empty() {
        return format!("the broker refuses: {}", refused.status);
    }
    let option = match &*refused.field {
        "partitions" => "--partitions",
        "durability" => "--durability",
        "compaction" => "--compaction",
        "retention_age_ms" => "--retention-age",
        "retention_bytes" => "--retention-bytes",
        "segment_bytes" => "--segment-bytes",
        _ => return said.to_owned(),
    };
    let rule = said.strip_prefix(&format!("`{}`: ", refused.field)).unwrap_or(said);
    format!("{option}: {rule}")
}

fn hint(error: &Error, connection: &ConnectionArgs) -> Option<String> {
    let server = connection.server.join(",");
    let hint = match error {
        Error::Unreachable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            format!("is it spelled right, and does DNS know it here? Name another address with {}", elsewhere(connection))
        }
        Error::Unreachable { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
            format!("is hermitd running, is {server} a HermitMQ broker, and does no firewall stand between?")
        }
        Error::ConnectionLost { .. } if connection.tls => format!("is {server} a HermitMQ broker, and still running?"),
        Error::ConnectionLost { .. } => {
            format!("is {server} a HermitMQ broker, and still running? If it speaks TLS only, add --tls")
        }
        Error::Tls { source, .. } => return tls_hint(source),
        Error::InsecureLogin { .. } => "add --tls, or --insecure-login if that is meant".to_owned(),
        Error::Unreachable { .. } => {
            format!("is hermitd running? Start it with `hermitd`, or name another address with {}", elsewhere(connection))
        }
        Error::Protocol { source: ProtocolFault::Deframe(DeframeError::Magic { found }), .. } => wrong_port(*found),
        Error::Protocol { .. } => format!("is {server} a HermitMQ broker, and of this version?"),
        // Nobody but the broker can create these.
        Error::UnknownTopic { topic } if topic.starts_with("__") => "see `hermit-cli topic list`".to_owned(),
        Error::UnknownTopic { topic } => {
            format!("create it with `hermit-cli topic create {topic}`, or see `hermit-cli topic list`")
        }
        Error::UnknownGroup { .. } => "see `hermit-cli group list`".to_owned(),
        Error::Corrupt { .. } | Error::BadRecordSet { .. } => "go on behind them with --skip-damaged".to_owned(),
        Error::Diverged { .. } | Error::OutOfRange { .. } => {
            "choose where to go on with --on-lost-position, or begin elsewhere with --from".to_owned()
        }
        Error::OutcomeUnknown { .. } => "look at the topic's end before sending it again".to_owned(),
        Error::DeliveryTimeout { source: Some(source), .. } | Error::Timeout { source: Some(source), .. } => {
            return hint_of_cause(source, connection);
        }
        Error::Refused { source, operation } => match source.status {
            Status::TopicExists => {
                "see it with `hermit-cli topic describe`, or choose another name; deleting it would delete its data".to_owned()
            }
            Status::DiskFull => "make room on the broker's disk, or delete topics".to_owned(),
            // Whoever tried to log in is told by the broker what was wrong.
            Status::NotAuthenticated if *operation == Operation::Hello && connection.has_login() => return None,
            Status::NotAuthenticated if *operation == Operation::Hello => {
                "log in with --user and its password (HERMIT_PASSWORD, --password-file, or at the terminal), or with a token (HERMIT_TOKEN, --token-file)"
                    .to_owned()
            }
            Status::NotAuthenticated => "the user was removed or has another password: log in anew".to_owned(),
            Status::NotAuthorized => "whoever administers the broker can allow it: see `hermit-cli acl add --help`".to_owned(),
            Status::TooManyLogins => "try again later".to_owned(),
            Status::TlsRequired => "add --tls, and --tls-ca FILE if its authority is not one of the system's".to_owned(),
            Status::UnknownUser | Status::UnknownToken => "see `hermit-cli user list`".to_owned(),
            Status::UserExists => "give it another password with `hermit-cli user passwd`, or choose another name".to_owned(),
            Status::TokenExists => "choose another label, or delete that token with `hermit-cli user token remove`".to_owned(),
            Status::LastAdministrator => "let somebody else administer the broker first: `hermit-cli acl add USER --broker --allow administer`".to_owned(),
            Status::ReadOnly => "the broker's log says why; restart the broker once the disk is sound".to_owned(),
            _ => return None,
        },
        _ => return None,
    };
    Some(hint)
}

/// Where another address can be named.
fn elsewhere(connection: &ConnectionArgs) -> String {
    match &connection.profile {
        Some(profile) if connection.server_of_profile => format!("--server, or in the profile `{profile}`, which has this one"),
        _ => "--server or HERMIT_SERVER".to_owned(),
    }
}

/// What the port may be that answers with this byte.
fn wrong_port(first: u8) -> String {
    match first {
        // An alert or a handshake of TLS.
        0x15 | 0x16 => "it speaks TLS: add --tls, and --tls-ca FILE if its authority is not one of the system's".to_owned(),
        b'H' => "it answers HTTP: hermitd has that on another port (`http`, 15672 by default) than its clients (`listen`, 9092 by default)".to_owned(),
        _ => "it is another server's port: hermitd's setting `listen` says which is its own, 9092 by default".to_owned(),
    }
}

/// What is wrong, without the SDK's advice, which names its own settings.
fn tls_words(fault: &TlsFault) -> String {
    match fault {
        TlsFault::UnknownAuthority => "its certificate was issued by an authority that is not believed here".to_owned(),
        TlsFault::WrongName { names } if names.is_empty() => "its certificate is for another name".to_owned(),
        TlsFault::WrongName { names } => format!("its certificate is for other names ({names})"),
        TlsFault::ClientCertificateRequired => "it asks for a client certificate".to_owned(),
        other => other.to_string(),
    }
}

/// Advice by the options of this program.
fn tls_hint(fault: &TlsFault) -> Option<String> {
    let hint = match fault {
        TlsFault::UnknownAuthority => "believe it with --tls-ca FILE",
        TlsFault::WrongName { .. } => "say one of its names with --tls-server-name NAME",
        TlsFault::NotSpoken => "leave --tls and HERMIT_TLS… out, or have TLS switched on in hermitd (`tls_cert`, `tls_key`)",
        TlsFault::ClientCertificateRequired => "show one with --tls-cert FILE --tls-key FILE",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn hint_of_cause(cause: &Error, connection: &ConnectionArgs) -> Option<String> {
    match cause {
        Error::Unreachable { .. } | Error::ConnectionLost { .. } => Some("is hermitd running?".to_owned()),
        other => hint(other, connection),
    }
}

fn one_line(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    clean(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use anyhow::Context;
    use std::sync::Arc;
    use std::time::Duration;

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
    fn causes_are_told_once() {
        let error = Error::UnknownTopic { topic: "odrers".into() };
        let message = message(anyhow::Error::from(error).context("line 3 of x.csv"));
        assert!(message.starts_with("line 3 of x.csv: there is no topic `odrers`; create it"), "{message}");
        assert_eq!(message.matches("there is no topic").count(), 1);
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
        assert!(
            insecure.contains("was not sent") && insecure.contains("--tls") && insecure.contains("--insecure-login"),
            "{insecure}"
        );
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
}

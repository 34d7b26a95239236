//! Errors for people: one line that says what to do.

use std::{fmt, io};

use hermit_client::{Error, Operation, Status, TlsFault, WireError};

use crate::args::ConnectionArgs;

/// The reader of a pipe went away: the end of the work, not worth a word.
const BROKEN_PIPE_STATUS: u8 = 128 + 13;

/// What the process ends with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `None` where silence is right.
    pub(crate) message: Option<String>,
    pub(crate) exit_status: u8,
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

/// Words an error.
pub(crate) fn explain(error: &anyhow::Error, connection: &ConnectionArgs) -> Failure {
    if let Some(Interrupted { signal }) = error.downcast_ref() {
        return Failure { message: None, exit_status: 128 + signal };
    }
    let mut parts = Vec::new();
    for cause in error.chain() {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::BrokenPipe
        {
            return Failure { message: None, exit_status: BROKEN_PIPE_STATUS };
        }
        if let Some(sdk) = cause.downcast_ref::<Error>() {
            // It words its causes itself.
            parts.push(words(sdk));
            let mut line = parts.join(": ");
            if let Some(hint) = hint(sdk, connection) {
                line = format!("{line}; {hint}");
            }
            return Failure { message: Some(one_line(&line)), exit_status: 1 };
        }
        parts.push(cause.to_string());
    }
    Failure { message: Some(one_line(&parts.join(": "))), exit_status: 1 }
}

/// An error without the protocol's words.
fn words(error: &Error) -> String {
    let text = error.to_string();
    let mut cause = error;
    loop {
        cause = match cause {
            Error::Refused { source, .. } => return text.replace(&cause.to_string(), &refusal(source)),
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
            "is it spelled right? Name another address with --server or HERMIT_SERVER".to_owned()
        }
        Error::Unreachable { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
            format!("is hermitd running, and is {server} a HermitMQ broker?")
        }
        Error::ConnectionLost { .. } => format!("is {server} a HermitMQ broker, and still running?"),
        Error::Tls { source, .. } => return tls_hint(source),
        Error::InsecureLogin { .. } => "add --tls, or --insecure-login if that is meant".to_owned(),
        Error::Unreachable { .. } => {
            "is hermitd running? Start it with `hermitd`, or name another address with --server or HERMIT_SERVER".to_owned()
        }
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
    message.split_whitespace().collect::<Vec<_>>().join(" ")
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

    #[test]
    fn an_unreachable_broker_is_told_with_what_to_do() {
        let source = Arc::new(io::ErrorKind::ConnectionRefused.into());
        let failure = explained(Error::Unreachable { server: "127.0.0.1:9092".into(), source }.into());
        let message = failure.message.unwrap();
        assert!(message.starts_with("cannot reach 127.0.0.1:9092: connection refused; is hermitd running?"), "{message}");
        assert_eq!(failure.exit_status, 1);
    }

    #[test]
    fn causes_are_told_once() {
        let error = Error::UnknownTopic { topic: "odrers".into() };
        let message = explained(anyhow::Error::from(error).context("line 3 of x.csv")).message.unwrap();
        assert!(message.starts_with("line 3 of x.csv: there is no topic `odrers`; create it"), "{message}");
        assert_eq!(message.matches("there is no topic").count(), 1);
    }

    #[test]
    fn refusals_name_the_option_and_not_the_protocol() {
        let source = WireError::new(Status::InvalidConfig, "`retention_age_ms`: 0 would delete all").field("retention_age_ms");
        let refused = Error::Refused { operation: Operation::CreateTopic, source: Arc::new(source) };
        assert_eq!(explained(refused.into()).message.unwrap(), "--retention-age: 0 would delete all");

        let source = WireError::new(Status::DiskFull, "the disk has 1 free bytes");
        let refused = Error::Refused { operation: Operation::Produce, source: Arc::new(source) };
        let late = Error::DeliveryTimeout { after: Duration::from_secs(2), source: Some(Arc::new(refused)) };
        let expected = "the record was not stored within the delivery timeout of 2s: the disk has 1 free bytes; make room on the broker's disk, or delete topics";
        assert_eq!(explained(late.into()).message.unwrap(), expected);
    }

    #[test]
    fn refused_logins_tell_how_to_log_in_and_refused_rights_who_gives_them() {
        let refused = |operation, status| {
            let source = WireError::new(status, "no");
            explained(Error::Refused { operation, source: Arc::new(source) }.into()).message.unwrap()
        };
        let message = refused(Operation::Hello, Status::NotAuthenticated);
        assert!(message.starts_with("no; log in with --user") && message.contains("HERMIT_TOKEN"), "{message}");
        assert!(refused(Operation::Produce, Status::NotAuthorized).contains("acl add"));
        assert!(refused(Operation::Hello, Status::TlsRequired).contains("--tls"));
        let insecure = explained(Error::InsecureLogin { server: "a:1".into() }.into()).message.unwrap();
        assert!(
            insecure.contains("was not sent") && insecure.contains("--tls") && insecure.contains("--insecure-login"),
            "{insecure}"
        );
        let tls = Error::Tls { server: "a:1".into(), source: TlsFault::NotSpoken };
        assert!(explained(tls.into()).message.unwrap().contains("leave --tls"));
        assert_eq!(refused(Operation::Hello, Status::TooManyLogins), "no; try again later");
    }

    #[test]
    fn tls_is_told_by_the_options_of_this_program() {
        let with = |source| explained(Error::Tls { server: "a:1".into(), source }.into()).message.unwrap();
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
        assert_eq!(explained(error.into()).message.unwrap(), "--tls-ca: x.pem: it cannot be read");
    }

    #[test]
    fn a_broken_pipe_ends_quietly_and_not_with_success() {
        let error = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("standard output").unwrap_err();
        assert_eq!(explained(error), Failure { message: None, exit_status: 141 });
    }

    #[test]
    fn errors_take_one_line() {
        assert_eq!(explained(anyhow::anyhow!("two\n  lines")).message.as_deref(), Some("two lines"));
    }
}

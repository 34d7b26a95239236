//! What to do about an error, by the options and commands of this program.

use std::io;

use hermit_client::{Error, Operation, ProtocolFault, Status, TlsFault};
use hermit_proto::{DeframeError, INTERNAL_PREFIX};

use crate::args::ConnectionArgs;

/// Where a topic is not there, and is not to be created.
pub(super) const SEE_TOPICS: &str = "see `hermit-cli topic list`";

/// `None` where there is nothing to advise.
pub(super) fn of(error: &Error, connection: &ConnectionArgs) -> Option<String> {
    let server = connection.server.join(",");
    let hint = match error {
        Error::Unreachable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            format!("is it spelled right, and does DNS know it here? Name another address with {}", elsewhere(connection))
        }
        Error::Unreachable { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
            format!("is hermitd running, is {server} a HermitMQ broker, and does no firewall stand between?")
        }
        Error::ConnectionLost { .. } if connection.uses_tls() => format!("is {server} a HermitMQ broker, and still running?"),
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
        Error::UnknownTopic { topic } if topic.starts_with(INTERNAL_PREFIX) => SEE_TOPICS.to_owned(),
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
pub(super) fn elsewhere(connection: &ConnectionArgs) -> String {
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
        other => of(other, connection),
    }
}

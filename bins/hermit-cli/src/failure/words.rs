//! What is wrong, in the words of this program.

use hermit_client::{Error, ProtocolFault, TlsFault, WireError};
use hermit_proto::DeframeError;

/// An error without the protocol's words.
pub(super) fn of(error: &Error) -> String {
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

//! One profile.

use std::ops::Range;
use std::path::PathBuf;

use hermit_client::Secret;
use toml::de::{DeTable, DeValue};

use super::file::Findings;
use crate::args::address;

/// Where a profile has a secret from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// In it.
    Here(Secret),
    /// In another file.
    File(PathBuf),
}

/// What a profile says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) servers: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Kept>,
    pub(crate) token: Option<Kept>,
    pub(crate) tls: Option<bool>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_server_name: Option<String>,
    pub(crate) insecure_login: bool,
}

const KNOWN: [&str; 12] = [
    "server",
    "user",
    "password",
    "password_file",
    "token",
    "token_file",
    "tls",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_server_name",
    "insecure_login",
];

impl Profile {
    pub(super) fn holds_secret(&self) -> bool {
        [&self.password, &self.token].iter().any(|kept| matches!(kept, Some(Kept::Here(_))))
    }

    /// Whether it connects over TLS.
    pub(super) fn uses_tls(&self) -> bool {
        let said_by_another = self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_server_name.is_some();
        self.tls.unwrap_or(said_by_another)
    }
}

/// Reads a profile; what is wrong is added to the findings.
pub(super) fn read(settings: &DeTable<'_>, at: Range<usize>, findings: &mut Findings<'_>) -> Profile {
    let mut profile = Profile::default();
    let (mut password_file, mut token_file) = (None, None);
    let (mut password, mut token) = (None, None);
    let file = findings.path();
    let path = |text: &str| super::path::resolve(text, file);
    for (key, value) in settings {
        let (name, span) = (key.get_ref().as_ref(), value.span());
        let value = value.get_ref();
        let text = match name {
            "server" => {
                match servers(value) {
                    Some(servers) => profile.servers = servers,
                    None => findings.add(Some(span), "`server`: write it as HOST:PORT, in quotes, or as a list of such"),
                }
                continue;
            }
            "tls" | "insecure_login" => {
                match value.as_bool() {
                    Some(on) if name == "tls" => profile.tls = Some(on),
                    Some(on) => profile.insecure_login = on,
                    None => findings.add(Some(span), &format!("`{name}`: give true or false")),
                }
                continue;
            }
            _ if !KNOWN.contains(&name) => {
                findings.unknown(key.span(), name, &KNOWN, "no setting of a profile");
                continue;
            }
            // Without the value, which may be a secret.
            _ => match value.as_str().filter(|text| !text.is_empty()) {
                Some(text) => text.to_owned(),
                None => {
                    findings.add(Some(span), &format!("`{name}`: give a text, in quotes"));
                    continue;
                }
            },
        };
        match name {
            "user" => profile.user = Some(text),
            "password" => password = Some(Secret::new(text)),
            "password_file" => password_file = Some(path(&text)),
            "token" => token = Some(Secret::new(text)),
            "token_file" => token_file = Some(path(&text)),
            "tls_ca" => profile.tls_ca = Some(path(&text)),
            "tls_cert" => profile.tls_cert = Some(path(&text)),
            "tls_key" => profile.tls_key = Some(path(&text)),
            _ => profile.tls_server_name = Some(text),
        }
    }
    for (has, name) in
        [(password.is_some() && password_file.is_some(), "password"), (token.is_some() && token_file.is_some(), "token")]
    {
        if has {
            findings.add(Some(at.clone()), &format!("`{name}` and `{name}_file` are both given: leave one out"));
        }
    }
    profile.password = password.map(Kept::Here).or(password_file.map(Kept::File));
    profile.token = token.map(Kept::Here).or(token_file.map(Kept::File));
    if let Some(problem) = contradiction(&profile) {
        findings.add(Some(at), problem);
    }
    profile
}

fn contradiction(profile: &Profile) -> Option<&'static str> {
    let Profile { user, password, token, tls, tls_cert, tls_key, .. } = profile;
    if token.is_some() && (user.is_some() || password.is_some()) {
        return Some("`token` cannot be used with `user` or `password`: a token says whose it is");
    }
    if password.is_some() && user.is_none() {
        return Some("`password` is given without `user`");
    }
    match (tls_cert, tls_key) {
        (Some(_), None) => return Some("`tls_cert` needs `tls_key`"),
        (None, Some(_)) => return Some("`tls_key` needs `tls_cert`"),
        _ => {}
    }
    let without = Profile { tls: None, ..profile.clone() };
    (*tls == Some(false) && without.uses_tls())
        .then_some("`tls` is false, and other settings of TLS are given: leave one or the other out")
}

fn servers(value: &DeValue<'_>) -> Option<Vec<String>> {
    let good = |text: &str| address(text).ok();
    match value {
        DeValue::String(text) => good(text).map(|server| vec![server]),
        DeValue::Array(list) if !list.is_empty() => list.iter().map(|item| item.get_ref().as_str().and_then(good)).collect(),
        _ => None,
    }
}

//! `hermit-cli profile …`

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use toml::de::DeTable;

use super::file::Profiles;
use super::table::{Kept, Profile};
use crate::args::{Output, ProfileCommand};
use crate::text::{headings, table};

/// Runs one of the profile commands; `asked` is the profile that was asked for besides.
pub(crate) fn run(command: &ProfileCommand, asked: Option<&str>, output: Output) -> Result<()> {
    let profiles = Profiles::read()?;
    let mut out = Vec::new();
    match command {
        ProfileCommand::List => list(&profiles, asked, output, &mut out)?,
        ProfileCommand::Show { name } => {
            let Some(name) = name.as_deref().or(asked).or(profiles.default.as_deref()) else {
                bail!("there is no default profile: name one, or see `hermit-cli profile list`");
            };
            show(&profiles, name, output, &mut out)?;
        }
        ProfileCommand::Use { name } => {
            profiles.get(name)?;
            set_default(&profiles.path, name).with_context(|| profiles.path.display().to_string())?;
            match output {
                Output::Text => writeln!(out, "{name} is the default now")?,
                Output::Json => writeln!(out, "{}", json!({ "profile": name, "default": true }))?,
            }
        }
    }
    io::stdout().write_all(&out).context("standard output")
}

fn list(profiles: &Profiles, asked: Option<&str>, output: Output, out: &mut impl Write) -> Result<()> {
    let in_force = asked.or(profiles.default.as_deref());
    if output == Output::Json {
        for (name, profile) in &profiles.by_name {
            writeln!(out, "{}", profile_json(profiles, name, profile))?;
        }
        return Ok(());
    }
    if profiles.by_name.is_empty() {
        let path = profiles.path.display();
        return Ok(writeln!(out, "there are no profiles; {path} can hold them: see `hermit-cli profile --help`")?);
    }
    let mut rows = headings(["", "profile", "server", "tls", "login"]);
    rows.extend(profiles.by_name.iter().map(|(name, profile)| {
        let mark = if Some(name.as_str()) == in_force { "*" } else { " " };
        let tls = if profile.uses_tls() { "yes" } else { "no" };
        vec![mark.to_owned(), name.clone(), servers(profile).join(","), tls.to_owned(), login(profile)]
    }));
    Ok(table(out, &rows)?)
}

fn servers(profile: &Profile) -> Vec<&str> {
    if profile.servers.is_empty() {
        return vec![crate::args::DEFAULT_SERVER];
    }
    profile.servers.iter().map(String::as_str).collect()
}

fn login(profile: &Profile) -> String {
    match (&profile.user, &profile.token) {
        (Some(user), _) => user.clone(),
        (None, Some(_)) => "by a token".to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn path(path: &Option<PathBuf>) -> Option<String> {
    path.as_ref().map(|path| path.display().to_string())
}

/// The file that holds it, or that it is here; never the secret.
fn told(kept: Option<&Kept>) -> Option<String> {
    kept.map(|kept| match kept {
        Kept::Here(_) => "(in this file)".to_owned(),
        Kept::File(path) => path.display().to_string(),
    })
}

fn show(profiles: &Profiles, name: &str, output: Output, out: &mut impl Write) -> Result<()> {
    let profile = profiles.get(name)?;
    if output == Output::Json {
        return Ok(writeln!(out, "{}", profile_json(profiles, name, profile))?);
    }
    let is_default = profiles.default.as_deref() == Some(name);
    let facts = [
        ("profile", Some(if is_default { format!("{name} (the default)") } else { name.to_owned() })),
        ("file", Some(profiles.path.display().to_string())),
        ("server", Some(servers(profile).join(", "))),
        ("user", profile.user.clone()),
        ("password", told(profile.password.as_ref())),
        ("token", told(profile.token.as_ref())),
        ("tls", Some(if profile.uses_tls() { "yes" } else { "no" }.to_owned())),
        ("tls_ca", path(&profile.tls_ca)),
        ("tls_cert", path(&profile.tls_cert)),
        ("tls_key", path(&profile.tls_key)),
        ("tls_server_name", profile.tls_server_name.clone()),
        ("insecure_login", profile.insecure_login.then(|| "yes".to_owned())),
    ];
    let rows: Vec<_> = facts.into_iter().filter_map(|(fact, value)| value.map(|value| vec![fact.to_owned(), value])).collect();
    Ok(table(out, &rows)?)
}

fn profile_json(profiles: &Profiles, name: &str, profile: &Profile) -> Value {
    let file = |kept: &Option<Kept>| match kept {
        Some(Kept::File(path)) => Some(path.display().to_string()),
        _ => None,
    };
    json!({
        "profile": name,
        "default": profiles.default.as_deref() == Some(name),
        "servers": servers(profile),
        "user": profile.user,
        "has_password": profile.password.is_some(),
        "password_file": file(&profile.password),
        "has_token": profile.token.is_some(),
        "token_file": file(&profile.token),
        "tls": profile.uses_tls(),
        "tls_ca": path(&profile.tls_ca),
        "tls_cert": path(&profile.tls_cert),
        "tls_key": path(&profile.tls_key),
        "tls_server_name": profile.tls_server_name,
        "insecure_login": profile.insecure_login,
    })
}

/// Changes the line that says which is the default, and nothing else: comments stay.
fn set_default(path: &Path, name: &str) -> Result<()> {
    // The file itself where this is a link to it.
    let path = fs::canonicalize(path)?;
    let text = fs::read_to_string(&path)?;
    let changed = with_default(&text, name);
    let beside = path.with_extension("toml.new");
    let permissions = fs::metadata(&path)?.permissions();
    // It may hold secrets: nobody else may read it, not even before it is whole. What lies there is not written to: others may read that, or it is a link.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(|| beside.display().to_string()),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(changed.as_bytes())?;
    file.set_permissions(Permissions::from_mode(permissions.mode()))?;
    file.sync_all()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of the user's, not the broker's: whole before or after a power cut is enough"
    )]
    fs::rename(&beside, &path)?;
    Ok(())
}

fn with_default(text: &str, name: &str) -> String {
    let value = toml::Value::String(name.to_owned()).to_string();
    let (table, _) = DeTable::parse_recoverable(text);
    let found = table.get_ref().iter().find(|(key, _)| key.get_ref() == "default").map(|(_, value)| value.span());
    match found.and_then(|span| Some((text.get(..span.start)?, text.get(span.end..)?))) {
        Some((before, behind)) => format!("{before}{value}{behind}"),
        None => format!("default = {value}\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_is_changed() {
        let text = "# mine\ndefault = 'a' # for now\n[profiles.a]\n";
        assert_eq!(with_default(text, "b"), "# mine\ndefault = \"b\" # for now\n[profiles.a]\n");
        assert_eq!(with_default("[profiles.a]\n", "a"), "default = \"a\"\n[profiles.a]\n");
        assert_eq!(with_default("", "a \"b\""), "default = 'a \"b\"'\n");
    }

    #[test]
    fn what_lies_beside_the_file_gets_none_of_its_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let (path, beside, elsewhere) =
            (dir.path().join("config.toml"), dir.path().join("config.toml.new"), dir.path().join("elsewhere"));
        fs::write(&path, "[profiles.a]\ntoken = 'geheim'\n").unwrap();
        fs::write(&elsewhere, "theirs").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &beside).unwrap();
        set_default(&path, "a").unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("default = \"a\""));
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
    }
}

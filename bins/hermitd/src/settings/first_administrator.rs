//! The first administrator, by environment alone: what stands on a command line is seen by everybody on the machine, and a settings file is read by many.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use hermit_broker::FirstAdministrator;
use hermit_broker::proto::{Secret, UserName};

use super::read_small;

const USER: &str = "HERMITD_ADMIN_USER";
const PASSWORD: &str = "HERMITD_ADMIN_PASSWORD";
const PASSWORD_FILE: &str = "HERMITD_ADMIN_PASSWORD_FILE";

/// The variables' names, without what they all begin with.
pub(super) const NAMES: [&str; 3] = ["ADMIN_USER", "ADMIN_PASSWORD", "ADMIN_PASSWORD_FILE"];

/// Who it is when only the password is given.
const DEFAULT_USER: &str = "admin";
/// A longer file is the wrong one.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// What the environment says, and the file that the password came from.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) administrator: FirstAdministrator,
    pub(super) file: Option<PathBuf>,
}

/// Who the first administrator is to be, as it is told: without the password.
pub(super) fn told(administrator: &FirstAdministrator) -> String {
    match administrator {
        FirstAdministrator::Password { user, .. } => {
            format!(
                "the first administrator, where there is none, is the user {:?}, with the password that the environment gives",
                user.as_str()
            )
        }
        FirstAdministrator::Missing { .. } => {
            "the first administrator, where there is none, is missing: the file that the environment names is not there".to_owned()
        }
        FirstAdministrator::Token => {
            "the first administrator, where there is none, comes to be with the token in `first-admin-token`".to_owned()
        }
    }
}

/// Looks for the variables; `None` without any.
pub(super) fn find(variable: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<Option<Found>> {
    let user = match variable(USER) {
        Some(user) => Some(text(USER, user)?),
        None => None,
    };
    let (password, file) = match (variable(PASSWORD), variable(PASSWORD_FILE).map(PathBuf::from)) {
        (Some(_), Some(_)) => bail!("{PASSWORD} and {PASSWORD_FILE} are both set: leave one out"),
        (Some(password), None) => (Secret::new(text(PASSWORD, password)?), None),
        (None, Some(file)) => match read(&file) {
            Ok(password) => (password, Some(file)),
            // It may have been removed because it has done its work, which is for the broker to see.
            Err(error) if is_gone(&error) => {
                let why = format!("{PASSWORD_FILE}: {}: {error}", file.display());
                return Ok(Some(Found { administrator: FirstAdministrator::Missing { why }, file: None }));
            }
            Err(error) => return Err(error.context(format!("{PASSWORD_FILE}: {}", file.display()))),
        },
        (None, None) if user.is_some() => bail!("{USER} is set without a password: set {PASSWORD} or {PASSWORD_FILE}, too"),
        (None, None) => return Ok(None),
    };
    if password.expose().is_empty() {
        bail!("{}: the password is empty: choose one", if file.is_some() { PASSWORD_FILE } else { PASSWORD });
    }
    let user = user.unwrap_or_else(|| DEFAULT_USER.to_owned());
    let user = UserName::new_public(&user).with_context(|| format!("{USER} is {user:?}"))?;
    Ok(Some(Found { administrator: FirstAdministrator::Password { user, password }, file }))
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn text(name: &str, value: OsString) -> anyhow::Result<String> {
    // Without the value, which may be the secret.
    value.into_string().map_err(|_value| anyhow::anyhow!("{name} is not UTF-8"))
}

/// The file without the end of its line.
fn read(path: &Path) -> anyhow::Result<Secret> {
    let whole = Secret::new(read_small(std::fs::File::open(path)?, MAX_PASSWORD_BYTES, "the file with the password")?);
    Ok(Secret::new(whole.expose().trim_end_matches(['\n', '\r'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> anyhow::Result<Option<Found>> {
        find(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    fn names(found: &Found) -> (&str, &str) {
        match &found.administrator {
            FirstAdministrator::Password { user, password } => (user.as_str(), password.expose()),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn the_password_comes_by_variable_or_file() {
        assert!(found(&[]).unwrap().is_none());
        let by_variable = found(&[(PASSWORD, "s3cret"), (USER, "ann")]).unwrap().unwrap();
        assert_eq!(names(&by_variable), ("ann", "s3cret"));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "s3 cret\n").unwrap();
        let by_file = found(&[(PASSWORD_FILE, file.to_str().unwrap())]).unwrap().unwrap();
        assert_eq!((names(&by_file), by_file.file.as_ref()), (("admin", "s3 cret"), Some(&file)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_the_password() {
        let nowhere = "/nowhere/password";
        for (variables, said) in [
            (&[(PASSWORD, "s3cret"), (PASSWORD_FILE, nowhere)][..], "leave one out"),
            (&[(USER, "ann")], "without a password"),
            (&[(PASSWORD, "")], "empty"),
            (&[(PASSWORD, "s3cret"), (USER, "__x")], "reserved"),
            (&[(PASSWORD_FILE, "/proc/self/fd")], "/proc/self/fd"),
            (&[(PASSWORD_FILE, "/dev/zero")], "more than"),
        ] {
            let error = format!("{:#}", found(variables).unwrap_err());
            assert!(error.contains(said) && error.contains("HERMITD_ADMIN_") && !error.contains("s3cret"), "{error}");
        }
    }
}

//! From what a hello carries to whom it shows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermit_proto::UserName;
use hermit_proto::session::{LoginKind, MECHANISM_PLAIN, MECHANISM_TOKEN};
use subtle::ConstantTimeEq as _;

use super::logins::Logins;
use super::password::StoredPassword;
use super::throttle::Origin;
use super::{Access, Principal, Slot, token};

/// A user and a password, from somewhere.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a [u8],
    pub(crate) origin: Origin,
}

/// A login that was right.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) principal: Principal,
    pub(crate) credential: Credential,
    pub(crate) kind: LoginKind,
}

/// By what somebody has shown who he is: while it is good, so is the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Credential {
    /// By nothing; the settings say who it is.
    None,
    /// The password that was set in a revision.
    Password { revision: u64 },
    /// The token with a hash.
    Token { hash: [u8; 32] },
}

/// Why somebody is not let in. It is told in the same words whoever the user is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// There is no such mechanism.
    Mechanism,
    /// The way is not encrypted, and comes from another machine.
    Unencrypted,
    /// What came has not the form of its mechanism.
    Malformed,
    /// User, password or token are wrong.
    Wrong,
    /// Nothing is looked at for so many ms.
    Later(u64),
}

/// What comes of a login at once.
#[derive(Debug)]
pub(crate) enum Began {
    /// It is decided.
    Decided(Result<Login, LoginError>),
    /// The slot is told.
    Waits,
}

impl Access {
    /// Looks at what a hello carries.
    pub(crate) fn begin(self: &Arc<Self>, mechanism: &str, data: &[u8], origin: Origin, slot: &Arc<Slot>) -> Began {
        match mechanism {
            MECHANISM_TOKEN => Began::Decided(self.check_token(data, origin)),
            MECHANISM_PLAIN => match plain(data) {
                Some((user, password)) => self.begin_password(Attempt { user, password, origin }, slot),
                None => Began::Decided(Err(LoginError::Malformed)),
            },
            _ => Began::Decided(Err(LoginError::Mechanism)),
        }
    }

    fn begin_password(self: &Arc<Self>, attempt: Attempt<'_>, slot: &Arc<Slot>) -> Began {
        if let Some(decided) = self.decide_quickly(attempt) {
            return Began::Decided(decided);
        }
        if self.logins.get_or_init(|| Logins::start(self)).push(attempt, slot) {
            Began::Waits
        } else {
            Began::Decided(Err(LoginError::Later(1000)))
        }
    }

    /// What is known without hashing: that the address has to wait, or that the password was found right before.
    fn decide_quickly(&self, attempt: Attempt<'_>) -> Option<Result<Login, LoginError>> {
        let wait = self.throttle.lock().wait(attempt.user, attempt.origin, self.monotonic());
        if wait > 0 {
            return Some(Err(LoginError::Later(wait.div_ceil(1_000_000))));
        }
        let (name, stored) = self.password_of(attempt.user)?;
        let known = self.known.lock();
        let mark = known.mark(attempt.user, stored.revision, attempt.password)?;
        known.contains(&mark).then(|| Ok(logged_in(name, &stored)))
    }

    /// The password of a user who may log in with one.
    fn password_of(&self, user: &str) -> Option<(UserName, StoredPassword)> {
        let current = self.current();
        let (name, user) = current.state.users.get_key_value(user)?;
        let password = user.password.clone().filter(|_| user.enabled)?;
        Some((name.clone(), password))
    }

    /// Checks a password, which takes tens of milliseconds, and as long where there is no such user.
    pub(super) fn check_password(&self, attempt: Attempt<'_>) -> Result<Login, LoginError> {
        // Others may have been decided while this one waited.
        if let Some(decided) = self.decide_quickly(attempt) {
            return decided;
        }
        let found = self.password_of(attempt.user);
        self.checks.fetch_add(1, Ordering::Relaxed);
        let matches = match &found {
            Some((_, stored)) => stored.matches(attempt.password),
            None => StoredPassword::nobodys(self.config.hashing).matches(attempt.password),
        };
        let Some((name, stored)) = found.filter(|_| matches) else {
            self.throttle.lock().failed(attempt.user, attempt.origin, self.monotonic());
            return Err(LoginError::Wrong);
        };
        self.throttle.lock().succeeded(attempt.user, attempt.origin);
        let mut known = self.known.lock();
        if let Some(mark) = known.mark(attempt.user, stored.revision, attempt.password) {
            known.insert(mark);
        }
        drop(known);
        Ok(logged_in(name, &stored))
    }

    /// Checks a token. One that is right is let in whatever failed before: nobody guesses one.
    fn check_token(&self, token: &[u8], origin: Origin) -> Result<Login, LoginError> {
        let hash = token::hash(token);
        if let Some(first) = *self.first_token.lock()
            && bool::from(first.ct_eq(&hash))
        {
            let credential = Credential::Token { hash };
            return Ok(Login { principal: Principal::FirstAdministrator, credential, kind: LoginKind::FirstAdministrator });
        }
        if let Some(name) = self.current().owner_of(&hash) {
            let (principal, credential) = (Principal::User(name.clone()), Credential::Token { hash });
            return Ok(Login { principal, credential, kind: LoginKind::Token });
        }
        let (mut throttle, now) = (self.throttle.lock(), self.monotonic());
        let wait = throttle.wait_of_origin(origin, now);
        if wait > 0 {
            return Err(LoginError::Later(wait.div_ceil(1_000_000)));
        }
        throttle.failed_at(origin, now);
        Err(LoginError::Wrong)
    }
}

fn logged_in(name: UserName, stored: &StoredPassword) -> Login {
    let credential = Credential::Password { revision: stored.revision };
    Login { principal: Principal::User(name), credential, kind: LoginKind::Password }
}

/// Authorization id, NUL, user, NUL, password (RFC 4616). Nobody acts for another.
fn plain(data: &[u8]) -> Option<(&str, &[u8])> {
    let mut parts = data.split(|byte| *byte == 0);
    let (acting, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let well_formed = parts.next().is_none() && (acting.is_empty() || acting == user) && user.len() <= hermit_proto::MAX_NAME_BYTES;
    let user = std::str::from_utf8(user).ok()?;
    (well_formed && !user.is_empty() && !password.is_empty()).then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_three_parts_and_nobody_acts_for_another() {
        assert_eq!(plain(b"\0anna\0secret"), Some(("anna", &b"secret"[..])));
        assert_eq!(plain(b"anna\0anna\0secret"), Some(("anna", &b"secret"[..])));
        let long = [b"\0", &[b'x'; 256][..], b"\0secret"].concat();
        for bad in [
            &b""[..],
            b"anna",
            b"\0anna",
            b"anna\0secret",
            b"bert\0anna\0secret",
            b"\0anna\0secret\0",
            b"\0\0secret",
            b"\0anna\0",
            b"\0\xff\0secret",
            &long,
        ] {
            assert_eq!(plain(bad), None, "{bad:?}");
        }
    }
}

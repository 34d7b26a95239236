//! What an embedder says about access.

use hermit_proto::{Secret, UserName};

use crate::error::BrokerError;

/// Whether clients have to say who they are, and how much is kept about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessConfig {
    /// Whether clients have to log in, and may do only what rules allow them. Default: no; then everybody is nobody in particular, and may do everything.
    pub enabled: bool,
    /// The user as whom clients of protocol version 1 act, who cannot log in. Default: none, so that they are turned away where `enabled` is set.
    pub v1_principal: Option<UserName>,
    /// Whether passwords and tokens are taken from other machines over connections that are not encrypted. Default: no.
    pub insecure_transport_ok: bool,
    /// How the first user comes to be who may administer the broker.
    pub first_administrator: FirstAdministrator,
    /// Most users. Default 10,000. One costs some 300 bytes, and some 100 for each of its tokens.
    pub max_users: usize,
    /// Most tokens of one user. Default 16.
    pub max_tokens: usize,
    /// Most rules. Default 10,000. One costs some 200 bytes; the regular expressions of all of them take 64 MiB at most.
    pub max_rules: usize,
    /// Passwords that were found right lately and are known by a keyed hash, so that a reconnect costs next to nothing. Default 10,000, at 100 bytes each.
    pub max_known_logins: usize,
    /// What it costs to check a password that is not known.
    pub hashing: PasswordHashing,
}

/// How the first user comes to be who may administer the broker. Without meaning where one exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FirstAdministrator {
    /// A token is written into the file `first-admin-token` of the data directory, with which users and rules can be made until there is one.
    #[default]
    Token,
    /// The user is made at start, with everything allowed.
    Password {
        /// Its name.
        user: UserName,
        /// Its password.
        password: Secret,
    },
    /// There is one already: without one the broker is not opened, with these words about what it would have come from.
    Missing {
        /// What is not there.
        why: String,
    },
}

/// The parameters of argon2id for passwords that are set from now on. Those of older ones are kept with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordHashing {
    /// Memory of one check, in KiB. Default 19,456 (19 MiB); at least 8. Two checks run at a time.
    pub memory_kib: u32,
    /// Passes over the memory. Default 2; at least 1.
    pub passes: u32,
}

impl Default for PasswordHashing {
    fn default() -> Self {
        Self { memory_kib: 19 << 10, passes: 2 }
    }
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            v1_principal: None,
            insecure_transport_ok: false,
            first_administrator: FirstAdministrator::default(),
            max_users: 10_000,
            max_tokens: 16,
            max_rules: 10_000,
            max_known_logins: 10_000,
            hashing: PasswordHashing::default(),
        }
    }
}

impl AccessConfig {
    /// Checks the settings by themselves.
    pub(crate) fn check(&self) -> Result<(), BrokerError> {
        let invalid = |field, rule: &str| Err(BrokerError::InvalidConfig { field, rule: rule.into() });
        if self.v1_principal.as_ref().is_some_and(|user| user.is_internal() || user.as_str() == "*") {
            return invalid("v1_principal", "`*` and names that begin with `__` are no users: name one");
        }
        if let FirstAdministrator::Password { user, password } = &self.first_administrator {
            if user.is_internal() || user.as_str() == "*" {
                return invalid("first_administrator", "`*` and names that begin with `__` are no users: choose another name");
            }
            if password.expose().is_empty() {
                return invalid("first_administrator", "the password is empty: choose one");
            }
        }
        if !(8..=MAX_MEMORY_KIB).contains(&self.hashing.memory_kib) || !(1..=MAX_PASSES).contains(&self.hashing.passes) {
            return invalid("hashing", "memory is 8 KiB to 1 GiB, and passes are 1 to 64");
        }
        Ok(())
    }
}

/// What a file may ask for, too: more would make each check an attack on the broker.
pub(crate) const MAX_MEMORY_KIB: u32 = 1 << 20;
pub(crate) const MAX_PASSES: u32 = 64;

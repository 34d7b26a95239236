//! Passwords at rest: argon2id.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::PasswordHashing;
use crate::error::BrokerError;

/// Most bytes of a password.
pub(crate) const MAX_PASSWORD_BYTES: usize = 1024;
pub(crate) const SALT_BYTES: usize = 16;
pub(crate) const HASH_BYTES: usize = 32;

/// A password, as it is kept: what it takes to check one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoredPassword {
    /// The state's revision when it was set: another password, even the same one again, has another.
    pub(crate) revision: u64,
    pub(crate) hashing: PasswordHashing,
    pub(crate) salt: [u8; SALT_BYTES],
    pub(crate) hash: [u8; HASH_BYTES],
}

impl fmt::Debug for StoredPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredPassword").field("revision", &self.revision).field("hashing", &self.hashing).finish_non_exhaustive()
    }
}

impl StoredPassword {
    /// Hashes a password: tens of milliseconds, and as much memory as `hashing` says.
    pub(crate) fn new(password: &[u8], hashing: PasswordHashing, salt: [u8; SALT_BYTES]) -> Result<Self, BrokerError> {
        check(password)?;
        let mut stored = Self { revision: 0, hashing, salt, hash: [0; HASH_BYTES] };
        stored.hash =
            *stored.hash_of(password).map_err(|error| BrokerError::InvalidConfig { field: "password", rule: error.to_string() })?;
        Ok(stored)
    }

    /// One that no password matches, and that takes as long to check as others.
    pub(crate) const fn nobodys(hashing: PasswordHashing) -> Self {
        Self { revision: 0, hashing, salt: [0; SALT_BYTES], hash: [0; HASH_BYTES] }
    }

    /// The same, set in a revision of the state.
    pub(crate) fn since(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// Whether it is this one. Takes as long as hashing.
    pub(crate) fn matches(&self, password: &[u8]) -> bool {
        match self.hash_of(password) {
            Ok(hash) => bool::from(hash.ct_eq(&self.hash)),
            Err(error) => {
                tracing::error!(%error, "a password cannot be checked");
                false
            }
        }
    }

    fn hash_of(&self, password: &[u8]) -> Result<Zeroizing<[u8; HASH_BYTES]>, argon2::Error> {
        let params = Params::new(self.hashing.memory_kib, self.hashing.passes, 1, Some(HASH_BYTES))?;
        let mut hash = Zeroizing::new([0; HASH_BYTES]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(password, &self.salt, &mut *hash)?;
        Ok(hash)
    }
}

fn check(password: &[u8]) -> Result<(), BrokerError> {
    let rule = match password.len() {
        0 => "it is empty: choose one",
        1..=MAX_PASSWORD_BYTES if password.contains(&0) => {
            "it has the character NUL, with which the mechanism PLAIN ends it: choose another"
        }
        1..=MAX_PASSWORD_BYTES => return Ok(()),
        _ => "it has more than 1,024 bytes: shorten it",
    };
    Err(BrokerError::InvalidConfig { field: "password", rule: rule.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: PasswordHashing = PasswordHashing { memory_kib: 8, passes: 1 };

    #[test]
    fn only_the_password_itself_matches() {
        let stored = StoredPassword::new(b"correct horse", CHEAP, [7; 16]).unwrap();
        assert!(stored.matches(b"correct horse"));
        for wrong in [&b""[..], b"correct hors", b"correct horse ", b"Correct horse"] {
            assert!(!stored.matches(wrong));
        }
        assert!(!StoredPassword::nobodys(CHEAP).matches(b"correct horse"));
        assert_ne!(StoredPassword::new(b"correct horse", CHEAP, [8; 16]).unwrap().hash, stored.hash, "salted");
    }

    #[test]
    fn passwords_that_cannot_be_sent_are_not_set() {
        for bad in [&b""[..], b"a\0b", &[b'x'; 1025]] {
            assert!(matches!(StoredPassword::new(bad, CHEAP, [0; 16]), Err(BrokerError::InvalidConfig { field: "password", .. })));
        }
    }

    /// Argon2id of version 0x13 with m = 8 KiB, t = 1, p = 1: what one release wrote every later one checks.
    #[test]
    fn hashes_are_those_of_argon2id() {
        let stored = StoredPassword::new(b"password", CHEAP, *b"somesaltsomesalt").unwrap();
        let hex: String = stored.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "05b6ca8f8038b683887ad4916533858b49cb52040126c134f4c6e9d8711b8c09");
    }

    #[test]
    fn neither_salt_nor_hash_is_printed() {
        let stored = StoredPassword { salt: [99; 16], hash: [98; 32], ..StoredPassword::nobodys(CHEAP) };
        let printed = format!("{stored:?}");
        assert!(!printed.contains("99") && !printed.contains("98"), "{printed}");
    }
}

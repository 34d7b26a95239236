//! Names of topics, groups and users: one rule, for broker and clients alike.

use std::fmt;
use std::sync::Arc;

use crate::session::{Status, WireError};

/// Most bytes of a name.
pub const MAX_NAME_BYTES: usize = 255;

/// Names that begin so belong to the broker.
pub const INTERNAL_PREFIX: &str = "__";

/// What is wrong with a name, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("the {kind} name is empty: give it 1 to 255 bytes")]
    Empty {
        /// "topic", "group" or "user".
        kind: &'static str,
    },
    /// The name is too long.
    #[error("the {kind} name has {bytes} bytes: shorten it to 255 at most (a letter with an accent has two or more)")]
    TooLong {
        /// "topic", "group" or "user".
        kind: &'static str,
        /// Its bytes.
        bytes: usize,
    },
    /// The name is not UTF-8.
    #[error("the {kind} name is not UTF-8 from byte {position} on: send it as UTF-8")]
    NotUtf8 {
        /// "topic", "group" or "user".
        kind: &'static str,
        /// The first byte that is not.
        position: usize,
    },
    /// The name has a control character.
    #[error("the {kind} name has the control character U+{:04X} at byte {position}: leave it out", u32::from(*character))]
    Control {
        /// "topic", "group" or "user".
        kind: &'static str,
        /// The character.
        character: char,
        /// Where it begins.
        position: usize,
    },
    /// The name is reserved.
    #[error("the {kind} name begins with `__`, which is reserved for the broker: choose another")]
    Reserved {
        /// "topic", "group" or "user".
        kind: &'static str,
    },
}

impl NameError {
    /// The field at fault: whose name it is.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Empty { kind }
            | Self::TooLong { kind, .. }
            | Self::NotUtf8 { kind, .. }
            | Self::Control { kind, .. }
            | Self::Reserved { kind } => kind,
        }
    }
}

impl From<NameError> for WireError {
    fn from(error: NameError) -> Self {
        Self::new(Status::InvalidName, error.to_string()).field(error.field())
    }
}

fn check<'a>(kind: &'static str, bytes: &'a [u8]) -> Result<&'a str, NameError> {
    if bytes.is_empty() {
        return Err(NameError::Empty { kind });
    }
    if bytes.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong { kind, bytes: bytes.len() });
    }
    let name = std::str::from_utf8(bytes).map_err(|error| NameError::NotUtf8 { kind, position: error.valid_up_to() })?;
    match name.char_indices().find(|(_, character)| character.is_control()) {
        Some((position, character)) => Err(NameError::Control { kind, character, position }),
        None => Ok(name),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        ///
        /// 1 to 255 bytes of UTF-8 without control characters, compared byte for byte. `__` at the start is the
        /// broker's. Cheap to clone.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name; internal ones pass.
            ///
            /// # Errors
            /// [`NameError`] says what is wrong; never [`NameError::Reserved`].
            pub fn new(name: impl AsRef<[u8]>) -> Result<Self, NameError> {
                check($kind, name.as_ref()).map(|name| Self(name.into()))
            }

            /// Checks a name that a client gives to something new: internal ones are refused.
            ///
            /// # Errors
            /// [`NameError`] says what is wrong.
            pub fn new_public(name: impl AsRef<[u8]>) -> Result<Self, NameError> {
                let name = Self::new(name)?;
                if name.is_internal() { Err(NameError::Reserved { kind: $kind }) } else { Ok(name) }
            }

            /// Whether the name is one of the broker's own.
            #[must_use]
            pub fn is_internal(&self) -> bool {
                self.0.starts_with(INTERNAL_PREFIX)
            }

            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

name! {
    /// A topic's name.
    TopicName, "topic"
}
name! {
    /// A consumer group's name.
    GroupName, "group"
}
name! {
    /// A user's name.
    UserName, "user"
}

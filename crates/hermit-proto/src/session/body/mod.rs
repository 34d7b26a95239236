//! Fields of requests and responses: big-endian integers, strings, lists (`docs/protocol.md`, "Bodies").

mod reader;
mod writer;

pub use reader::BodyReader;
pub use writer::BodyWriter;

/// Bytes that do not have the form of their operation: the sender's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body ends within a field.
    #[error("the body ends within `{field}`: {needed} bytes are needed, {remaining} are there")]
    Short {
        /// The field that is cut.
        field: &'static str,
        /// Bytes that the field has at least.
        needed: u64,
        /// Bytes that the body still has.
        remaining: u64,
    },
    /// A string is not UTF-8.
    #[error("`{field}` is not UTF-8")]
    NotUtf8 {
        /// The field.
        field: &'static str,
    },
    /// A value that the field cannot have.
    #[error("`{field}` is {value}, allowed is {allowed}")]
    BadValue {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it may hold.
        allowed: &'static str,
    },
    /// The key's size is not that of the operation.
    #[error("the key has {found} bytes, this operation has {expected}")]
    KeySize {
        /// The operation's key size.
        expected: usize,
        /// The size that came.
        found: usize,
    },
    /// A topic setting that this release does not know.
    #[error("topic setting number {tag} is unknown to this release")]
    UnknownSetting {
        /// The setting's tag.
        tag: u16,
    },
}

impl BodyError {
    /// The field at fault.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Short { field, .. } | Self::NotUtf8 { field } | Self::BadValue { field, .. } => field,
            Self::KeySize { .. } => "key",
            Self::UnknownSetting { .. } => "config",
        }
    }
}

/// A message that does not fit its encoding: the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` has {size}, at most {limit} can be encoded")]
pub struct EncodeError {
    /// The field that is too long.
    pub field: &'static str,
    /// Its bytes, or items.
    pub size: u64,
    /// The most that can be encoded.
    pub limit: u64,
}

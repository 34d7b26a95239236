//! The handshake: role, names, partition; for a commit the offset too.

use crate::ids::{Offset, PartitionId};
use crate::names::{GroupName, MAX_NAME_BYTES, NameError, TopicName};

/// What a connection is for; its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sends frames. 0x01.
    Producer,
    /// Receives frames. 0x02.
    Consumer,
    /// Stores one position. 0x03.
    Commit,
}

impl Role {
    /// The first byte.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Producer => 0x01,
            Self::Consumer => 0x02,
            Self::Commit => 0x03,
        }
    }

    /// The role of a first byte, if it is one.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0x01 => Some(Self::Producer),
            0x02 => Some(Self::Consumer),
            0x03 => Some(Self::Commit),
            _ => None,
        }
    }
}

/// A whole handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Frames for one partition follow.
    Producer {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
    },
    /// Frames of one partition are wanted, from the group's position on.
    Consumer {
        /// The group.
        group: GroupName,
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
    },
    /// A position is to be stored.
    Commit {
        /// The group.
        group: GroupName,
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// The next offset to read.
        offset: Offset,
    },
}

/// How far a handshake has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeProgress {
    /// It is all there.
    Complete {
        /// What it says.
        handshake: Handshake,
        /// The bytes it took; what follows are frames.
        used_bytes: usize,
    },
    /// At least this many bytes must still come.
    Incomplete {
        /// A lower bound; never 0.
        missing_bytes: usize,
    },
}

/// A handshake that is refused: the client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The first byte is no role.
    #[error("the connection begins with {found:#04x}, which is no role of version 1 (1 producer, 2 consumer, 3 commit)")]
    Role {
        /// The first byte.
        found: u8,
    },
    /// A name breaks the rule.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Handshake {
    /// Most bytes of a handshake: a commit with two names of 255.
    pub const MAX_BYTES: usize = 1 + 2 * (1 + MAX_NAME_BYTES) + 4 + 8;

    /// Reads a handshake from the first bytes of a connection, of which any number may have come. Errors are told as
    /// soon as the bytes at fault are there; never are more than [`Self::MAX_BYTES`] needed.
    ///
    /// # Errors
    /// [`HandshakeError`]; the broker closes.
    pub fn parse(bytes: &[u8]) -> Result<HandshakeProgress, HandshakeError> {
        let mut fields = Fields { rest: bytes };
        match fields.handshake() {
            Ok(handshake) => {
                let used_bytes = bytes.len().saturating_sub(fields.rest.len());
                Ok(HandshakeProgress::Complete { handshake, used_bytes })
            }
            Err(Stop::Incomplete { missing_bytes }) => Ok(HandshakeProgress::Incomplete { missing_bytes }),
            Err(Stop::Refused(error)) => Err(error),
        }
    }

    /// Appends the handshake's bytes.
    pub fn encode(&self, out: &mut impl Extend<u8>) {
        match self {
            Self::Producer { topic, partition } => {
                out.extend([Role::Producer.byte()]);
                put_name(out, topic.as_str());
                out.extend(partition.0.to_be_bytes());
            }
            Self::Consumer { group, topic, partition } => {
                out.extend([Role::Consumer.byte()]);
                put_name(out, group.as_str());
                put_name(out, topic.as_str());
                out.extend(partition.0.to_be_bytes());
            }
            Self::Commit { group, topic, partition, offset } => {
                out.extend([Role::Commit.byte()]);
                put_name(out, group.as_str());
                put_name(out, topic.as_str());
                out.extend(partition.0.to_be_bytes());
                out.extend(offset.0.to_be_bytes());
            }
        }
    }
}

fn put_name(out: &mut impl Extend<u8>, name: &str) {
    // A checked name has at most 255 bytes.
    out.extend([u8::try_from(name.len()).unwrap_or(u8::MAX)]);
    out.extend(name.bytes().take(MAX_NAME_BYTES));
}

enum Stop {
    Incomplete { missing_bytes: usize },
    Refused(HandshakeError),
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn handshake(&mut self) -> Result<Handshake, Stop> {
        let [first] = self.fixed()?;
        match Role::from_byte(first).ok_or(Stop::Refused(HandshakeError::Role { found: first }))? {
            Role::Producer => Ok(Handshake::Producer { topic: self.name(TopicName::new)?, partition: self.partition()? }),
            Role::Consumer => Ok(Handshake::Consumer {
                group: self.name(GroupName::new)?,
                topic: self.name(TopicName::new)?,
                partition: self.partition()?,
            }),
            Role::Commit => Ok(Handshake::Commit {
                group: self.name(GroupName::new)?,
                topic: self.name(TopicName::new)?,
                partition: self.partition()?,
                offset: self.fixed().map(u64::from_be_bytes).map(Offset)?,
            }),
        }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(Stop::Incomplete { missing_bytes: N.saturating_sub(self.rest.len()) });
        };
        self.rest = rest;
        Ok(*bytes)
    }

    // "Strings have 1 to 255 bytes; an empty one is an error."
    fn name<T>(&mut self, check: impl FnOnce(&'a [u8]) -> Result<T, NameError>) -> Result<T, Stop> {
        let [length] = self.fixed()?;
        let length = usize::from(length);
        let Some((name, rest)) = self.rest.split_at_checked(length) else {
            return Err(Stop::Incomplete { missing_bytes: length.saturating_sub(self.rest.len()) });
        };
        self.rest = rest;
        check(name).map_err(|error| Stop::Refused(error.into()))
    }

    fn partition(&mut self) -> Result<PartitionId, Stop> {
        self.fixed().map(u32::from_be_bytes).map(PartitionId)
    }
}

//! What the broker answers: nine bytes to a frame, one to a commit.

use crate::header::{put, take};
use crate::ids::Offset;

/// Bytes of an answer to a frame.
pub const ANSWER_SIZE: usize = 9;

/// The answer to a commit, once it is stored. A commit that is refused gets none: the broker closes.
pub const COMMIT_STORED: u8 = 0x01;

const STORED: u8 = 0x00;
const REFUSED: u8 = 0xFF;

/// The answer to one frame of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Stored, from this offset on. 0x00.
    Stored(Offset),
    /// Not now: the disk is full, or memory is short. The connection lives, and the client may try again. 0xFF.
    Refused,
}

/// Nine bytes that are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer begins with {found:#04x}; 0x00 (stored) and 0xff (refused) are known")]
pub struct AnswerError {
    /// The first byte.
    pub found: u8,
}

impl Answer {
    /// The nine bytes: status, offset.
    #[must_use]
    pub const fn encode(self) -> [u8; ANSWER_SIZE] {
        let (status, offset) = match self {
            Self::Stored(offset) => (STORED, offset.0),
            // "Status 0xFF: the offset is 0."
            Self::Refused => (REFUSED, 0),
        };
        let mut bytes = [0; ANSWER_SIZE];
        put(&mut bytes, 0, &[status]);
        put(&mut bytes, 1, &offset.to_be_bytes());
        bytes
    }

    /// Reads nine bytes.
    ///
    /// # Errors
    /// [`AnswerError`] on an unknown status.
    pub const fn decode(bytes: &[u8; ANSWER_SIZE]) -> Result<Self, AnswerError> {
        match take::<ANSWER_SIZE, 1>(bytes, 0) {
            [STORED] => Ok(Self::Stored(Offset(u64::from_be_bytes(take(bytes, 1))))),
            [REFUSED] => Ok(Self::Refused),
            [found] => Err(AnswerError { found }),
        }
    }
}

//! Newtypes for the numbers that must not be mixed up.

use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(number: $inner) -> Self {
                Self(number)
            }
        }
    };
}

number! {
    /// A record's number within its partition, from 0.
    Offset(u64)
}
number! {
    /// Rises at each unclean start of the broker; every stored frame carries the one it was appended under.
    LeaderEpoch(u32)
}
number! {
    /// The number of a partition within its topic, from 0.
    PartitionId(u32)
}
number! {
    /// An idempotent producer, or −1 for none.
    ProducerId(i64)
}
number! {
    /// The incarnation of a producer id; a higher one fences the lower.
    ProducerEpoch(i16)
}
number! {
    /// Chosen by the client, echoed by the broker in the answer; names a subscription for as long as that lives.
    CorrelationId(u64)
}
number! {
    /// A record's number within an idempotent producer's stream to one partition; wraps from 2³¹ − 1 to 0.
    Sequence(i32)
}

number! {
    /// Counts the divisions of a consumer group's partitions. It only rises.
    Generation(u64)
}

/// A member of a consumer group: random, chosen by the member, never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u128);

impl MemberId {
    /// Stands for "nobody".
    pub const NONE: Self = Self(0);

    /// Whether this is a member at all.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for MemberId {
    /// 32 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Offset {
    /// The first offset of every partition.
    pub const ZERO: Self = Self(0);

    /// The offset `count` records further on, or `None` past 2⁶⁴ − 1.
    #[must_use]
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl LeaderEpoch {
    /// Stands for "not known" in requests.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

impl ProducerId {
    /// The producer id of frames that are not idempotent.
    pub const NONE: Self = Self(-1);

    /// Whether this is a producer id at all.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0 >= 0
    }
}

impl Sequence {
    /// The sequence `count` records further on; wraps from 2³¹ − 1 to 0.
    #[must_use]
    pub const fn advance(self, count: u32) -> Self {
        // Both operands are brought below 2³¹ first, so that the sum fits u32 and the mask makes the wrap.
        let sum = self.0.cast_unsigned().wrapping_add(count) & (i32::MAX as u32);
        Self(sum.cast_signed())
    }
}

/// Names a topic for ever: random, given when the topic is created, never used again. On disk there are only ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u128);

impl fmt::Display for TopicId {
    /// 32 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The text is not a topic id: 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a topic id has 32 lower-case hexadecimal digits")]
pub struct ParseTopicIdError;

impl FromStr for TopicId {
    type Err = ParseTopicIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let well_formed = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !well_formed {
            return Err(ParseTopicIdError);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_not_hex| ParseTopicIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_at_two_to_the_31() {
        assert_eq!(Sequence(i32::MAX).advance(1), Sequence(0));
        assert_eq!(Sequence(i32::MAX - 1).advance(5), Sequence(3));
        assert_eq!(Sequence(7).advance(0), Sequence(7));
    }

    #[test]
    fn topic_ids_print_and_parse() {
        let id = TopicId(0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "00000000000000000123456789abcdef");
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "00", "+0000000000000000123456789abcdef", "0000000000000000123456789ABCDEF0"] {
            assert_eq!(bad.parse::<TopicId>(), Err(ParseTopicIdError), "{bad}");
        }
    }
}

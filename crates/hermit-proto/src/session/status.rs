//! The one table of status codes.

use std::fmt;

/// From here on a status is retryable, so that an old client treats a new code rightly.
const RETRYABLE_FROM: u32 = 1000;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal),+ $(,)?) => {
        /// How a request ended: the record-count field of a response's or delivery's header.
        ///
        /// Append-only: a code is never used again. Codes from 1000 on are retryable: the same request may succeed
        /// later, unchanged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)+
            /// A code that this release does not know.
            Other(u32),
        }

        impl Status {
            /// Every status that this release knows, in the order of the codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code on the wire.
            #[must_use]
            pub const fn code(self) -> u32 {
                match self {
                    $(Self::$name => $code,)+
                    Self::Other(code) => code,
                }
            }

            /// The status with this code; [`Status::Other`] if this release does not know it.
            #[must_use]
            pub const fn from_code(code: u32) -> Self {
                match code {
                    $($code => Self::$name,)+
                    other => Self::Other(other),
                }
            }

            /// The name used in logs and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                    Self::Other(_) => "Other",
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0,
    /// The operation's number is unknown to the broker.
    UnknownOperation = 1,
    /// The request's bytes do not have the form of its operation.
    Malformed = 2,
    /// No session version in common. Details: lowest, highest the broker speaks.
    UnsupportedVersion = 3,
    /// The session has not said who it is, or not convincingly.
    NotAuthenticated = 4,
    /// The user may not do this.
    NotAuthorized = 5,
    /// Hello is missing, or came twice.
    BadSessionState = 6,
    /// Connections without TLS are not taken here.
    TlsRequired = 7,
    /// No topic of that name or id.
    UnknownTopic = 16,
    /// The topic has no such partition. Details: the topic's partition count.
    UnknownPartition = 17,
    /// A topic of that name exists.
    TopicExists = 18,
    /// The name breaks the rule for names.
    InvalidName = 19,
    /// A setting is unknown, or its value is not allowed.
    InvalidConfig = 20,
    /// The topic belongs to the broker; clients do not write it.
    InternalTopic = 21,
    /// A pattern for names of topics is no regular expression, or too large a one.
    InvalidPattern = 22,
    /// Larger than a limit. Details: limit, size.
    TooLarge = 32,
    /// More records in a frame than the limit. Details: limit, count.
    TooManyRecords = 33,
    /// A body CRC does not match: the frame was damaged on its way.
    CorruptFrame = 34,
    /// A compacted topic takes frames with a key only.
    KeyRequired = 35,
    /// A compacted topic takes single records only.
    RecordSetNotAllowed = 36,
    /// A frame uses a bit or codec that the broker does not know, or is none that clients may send.
    UnsupportedFrame = 37,
    /// A rule that the broker's operator added refuses the records.
    Rejected = 38,
    /// The offset lies outside the partition. Details: log start, high watermark.
    OffsetOutOfRange = 48,
    /// The position's leader epoch ended before the position. Details: the offset at which that epoch ended.
    Diverged = 49,
    /// The partition takes no writes until the broker was restarted: a sync failed.
    ReadOnly = 50,
    /// The stored data are damaged. Details: first damaged offset, next readable offset.
    CorruptLog = 51,
    /// A gap in the producer's sequence. Details: sequence expected, sequence found.
    OutOfOrderSequence = 64,
    /// The broker does not know, or no longer knows, the producer id.
    UnknownProducer = 65,
    /// A newer incarnation of the producer id exists.
    FencedProducer = 66,
    /// The commit lies beyond the high watermark. Details: high watermark.
    CommitBeyondEnd = 80,
    /// No subscription has that id, or one already has.
    BadSubscription = 81,
    /// The group has neither members nor positions.
    UnknownGroup = 82,
    /// The member is not in the group, or not any more: it was silent for too long, did not give up what it was asked to, or the broker
    /// was restarted. It joins again, under another id.
    UnknownMember = 83,
    /// The partition is not the member's, or not since the generation that it tells.
    StaleGeneration = 84,
    /// The group has members: only they commit, and it is not deleted.
    GroupActive = 85,
    /// The group's members divide partitions in another way.
    InconsistentStrategy = 86,
    /// No user has that name.
    UnknownUser = 96,
    /// A user of that name exists.
    UserExists = 97,
    /// The user has no token of that label.
    UnknownToken = 98,
    /// The user has a token of that label.
    TokenExists = 99,
    /// Nobody would be left who may log in and administer the broker.
    LastAdministrator = 100,
    /// A fault in the broker; its log says more.
    Internal = 999,
    /// The disk is full.
    DiskFull = 1000,
    /// The broker's memory for requests in flight is used up.
    Throttled = 1001,
    /// The broker is stopping.
    ShuttingDown = 1002,
    /// The broker did not get it done in time; it may still happen.
    Timeout = 1003,
    /// The limit on connections is reached. Details: limit.
    TooManyConnections = 1004,
    /// The limit on subscriptions of a session is reached. Details: limit.
    TooManySubscriptions = 1005,
    /// The limit on producer ids is reached. Details: limit.
    TooManyProducers = 1006,
    /// The limit on members of a group, on groups with members, or on the memory for their patterns, is reached. Details: limit.
    TooManyMembers = 1007,
    /// Logins fail too often, or too many wait for their passwords to be checked. Details: ms after which another attempt is looked at.
    TooManyLogins = 1008,
}

impl Status {
    /// Whether the same request may succeed later, unchanged.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        self.code() >= RETRYABLE_FROM
    }

    /// Whether this is [`Status::Ok`].
    #[must_use]
    pub const fn is_ok(self) -> bool {
        matches!(self, Self::Ok)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(code) => write!(f, "status {code}"),
            known => f.write_str(known.name()),
        }
    }
}

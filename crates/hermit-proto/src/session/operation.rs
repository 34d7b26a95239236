//! The one table of operations.

use std::fmt;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $number:literal),+ $(,)?) => {
        /// What a request asks for: the record-count field of its header.
        ///
        /// Append-only: a number is never used again. The gaps are room for relatives: 4–15 the session itself
        /// (authentication in several steps), 20–31 topics, 33–47 reading about partitions, 50–63 producing,
        /// 67–79 subscriptions, 80–95 consumer groups, 96–111 the broker, 112 and up whatever comes later. 0 is no operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[$doc])* $name,)+
        }

        impl Operation {
            /// Every operation, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$name => $number,)+
                }
            }

            /// The operation with this number, if this release knows it.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The name used in logs and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

operations! {
    /// First request of every session: versions, features, client name, authentication.
    Hello = 1,
    /// Says "still here"; any other bytes say so too.
    Heartbeat = 2,
    /// Announces the end: what was asked before is still answered.
    Goodbye = 3,
    /// Topics with their ids, settings and partitions.
    Metadata = 16,
    /// Creates a topic.
    CreateTopic = 17,
    /// Deletes a topic and its data.
    DeleteTopic = 18,
    /// Names of topics, page by page.
    ListTopics = 19,
    /// Changes a topic's settings.
    AlterTopic = 20,
    /// Adds partitions to a topic.
    AddPartitions = 21,
    /// Where a partition begins and ends, and the offset for a time.
    ListOffsets = 32,
    /// Deletes the oldest records of a partition.
    Trim = 33,
    /// Gives an idempotent producer its id and epoch.
    InitProducerId = 48,
    /// Appends frames to one partition.
    Produce = 49,
    /// Opens a stream of deliveries from one partition.
    Subscribe = 64,
    /// Grants a subscription more bytes; not answered.
    Credit = 65,
    /// Ends a subscription.
    Unsubscribe = 66,
    /// Stores positions for a consumer group.
    Commit = 80,
    /// Reads the stored positions of a consumer group.
    FetchCommitted = 81,
    /// Makes a consumer a member of a group, which then gets partitions.
    JoinGroup = 82,
    /// Keeps a member alive, tells what it holds, and asks what it may hold.
    GroupHeartbeat = 83,
    /// Takes a member out of its group.
    LeaveGroup = 84,
    /// Names of groups, page by page.
    ListGroups = 85,
    /// A group's members, positions and lag.
    DescribeGroup = 86,
    /// Deletes the positions of a group that nobody is in.
    DeleteGroup = 87,
    /// What the broker is, and how it fares.
    DescribeBroker = 96,
    /// Creates a user, or changes its password, or whether it may log in.
    PutUser = 97,
    /// Deletes a user, its tokens, and the rules that name it.
    DeleteUser = 98,
    /// Users, page by page, without their secrets.
    ListUsers = 99,
    /// Makes a token for a user, which is told this once.
    CreateToken = 100,
    /// Deletes a token of a user.
    DeleteToken = 101,
    /// Allows principals more.
    AddRules = 102,
    /// Takes back what rules allow.
    DeleteRules = 103,
    /// Rules, page by page.
    ListRules = 104,
    /// Whom the broker takes the client for.
    WhoAmI = 105,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

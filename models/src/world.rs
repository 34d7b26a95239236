//! What the modelled files use of their own crates, as far as they do.

/// Of `hermit-broker` and of `hermit-log`.
pub(crate) mod error {
    pub(crate) use hermit_log::LogError;

    /// As far as a waiter is told.
    #[derive(Debug)]
    pub(crate) enum BrokerError {
        Log(LogError),
        UnknownTopic,
    }

    impl BrokerError {
        pub(crate) fn unknown_topic(_which: &str) -> Self {
            Self::UnknownTopic
        }
    }

    impl std::fmt::Display for BrokerError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }
}

/// Of `hermit-broker`.
pub(crate) mod events {
    use hermit_log::LogError;
    use hermit_proto::{Offset, PartitionId, TopicName};

    /// Nobody is told in the models.
    #[derive(Debug)]
    pub(crate) struct Events;

    #[derive(Debug)]
    #[expect(dead_code, reason = "nobody is told in the models")]
    pub(crate) enum Event {
        PartitionDamaged { topic: TopicName, partition: PartitionId, from: Offset, next: Offset },
        PartitionReadOnly { topic: TopicName, partition: PartitionId, reason: LogError },
    }

    impl Events {
        pub(crate) fn push(&self, _event: Event) {}
    }
}

/// Of `hermit-broker`.
pub(crate) mod address {
    /// Where a peer is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(crate) struct PeerAddress(pub(crate) u32);
}

/// Of `hermit-broker`.
pub(crate) mod limits {
    /// Those that the budget depends on.
    #[derive(Debug)]
    pub(crate) struct Limits {
        pub(crate) max_inflight_bytes: u64,
        pub(crate) max_request_bytes: u32,
        pub(crate) min_large_frame_rate: u64,
    }
}

/// Of `hermit-log`.
pub(crate) mod clock {
    use std::time::Duration;

    /// Where the log takes its time from.
    pub(crate) trait Clock: std::fmt::Debug + Send + Sync + 'static {
        fn monotonic(&self) -> Duration;
    }

    /// What has passed in the model.
    #[derive(Debug)]
    pub(crate) struct Passed;

    impl Clock for Passed {
        fn monotonic(&self) -> Duration {
            parking_lot::time::passed()
        }
    }
}

/// Of `hermit-log`.
pub(crate) mod config {
    use std::time::Duration;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Durability {
        Sync,
        Os,
    }

    /// What decides when a flush is due.
    #[derive(Clone, Debug)]
    pub(crate) struct LogConfig {
        pub(crate) durability: Durability,
        pub(crate) os_flush_bytes: u64,
        pub(crate) os_flush_interval: Duration,
    }
}

/// Of `hermit-log`.
pub(crate) mod disk {
    use std::sync::Arc;

    use crate::error::LogError;

    /// A file system whose sync does what the model says.
    pub(crate) struct SharedFileSystem(pub(crate) Arc<dyn Fn() + Send + Sync>);

    impl SharedFileSystem {
        pub(crate) fn sync(&self) -> Result<(), LogError> {
            (self.0)();
            Ok(())
        }
    }

    impl std::fmt::Debug for SharedFileSystem {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("SharedFileSystem")
        }
    }
}

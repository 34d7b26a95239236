//! Every interleaving of what wakes and waits in the broker: `cargo xtask loom`.
//!
//! The files are the broker's own, compiled here with locks and wake-ups whose orders loom chooses; what they need of other crates stands in
//! `stand_ins/`. A model ends when all its threads do: a lost wake-up is a deadlock, which loom reports.
#![expect(clippy::print_stdout, reason = "a program that tells what it has tried")]

#[expect(dead_code, reason = "the models do not measure it")]
#[path = "../../crates/hermit-broker/src/memory/mod.rs"]
mod memory;
mod models;
#[expect(dead_code, reason = "the models need a part of it")]
#[path = "../../crates/hermit-broker/src/progress.rs"]
mod progress;
#[expect(unreachable_pub, reason = "it is public in the broker")]
#[path = "../../crates/hermit-broker/src/signal.rs"]
mod signal;

mod error {
    /// As far as a waiter is told.
    #[derive(Debug)]
    pub(crate) enum BrokerError {
        Log(hermit_log::LogError),
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

mod events {
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

mod address {
    /// Where a peer is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(crate) struct PeerAddress(pub(crate) u32);
}

mod limits {
    /// Those that the budget depends on.
    #[derive(Debug)]
    pub(crate) struct Limits {
        pub(crate) max_inflight_bytes: u64,
        pub(crate) max_request_bytes: u32,
        pub(crate) min_large_frame_rate: u64,
    }
}

fn main() {
    for (name, model) in models::ALL {
        model();
        println!("ok: {name}");
    }
}

//! Idempotent producers behind a network that loses, doubles and reorders, against a model: exactly once, in order, also across restarts, power cuts,
//! retention, second incarnations and expiry.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the test's failure")]

mod check;
#[path = "../incidents/hooked.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod hooked;
mod net;
#[path = "../incidents/rig.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod rig;

use std::time::Duration;

use proptest::prelude::*;

use crate::net::Net;

/// As many as the log remembers of each producer.
const WINDOW: usize = 5;
const EXPIRY: Duration = Duration::from_secs(100);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A client makes a batch of so many frames, and hands it to the network.
    Send {
        client: usize,
        frames: u8,
    },
    /// A client sends again what it has no answer for.
    Resend {
        client: usize,
    },
    /// The network delivers one of the messages that are under way, and keeps it where it is to come twice; the answer may be lost.
    Deliver {
        which: usize,
        keep: bool,
        answered: bool,
    },
    Lose {
        which: usize,
    },
    /// A client starts anew, with the next epoch; the old one goes on for a while without knowing.
    Incarnate {
        client: usize,
    },
    Flush,
    Retain {
        keep: u8,
    },
    Advance {
        seconds: u8,
    },
    Restart(Stop),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    Clean,
    Killed,
    PowerCut(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let client = 0..3usize;
    prop_oneof![
        6 => (client.clone(), 1..4u8).prop_map(|(client, frames)| Op::Send { client, frames }),
        3 => client.clone().prop_map(|client| Op::Resend { client }),
        10 => (any::<usize>(), prop::bool::weighted(0.3), prop::bool::weighted(0.7))
            .prop_map(|(which, keep, answered)| Op::Deliver { which, keep, answered }),
        1 => any::<usize>().prop_map(|which| Op::Lose { which }),
        1 => client.prop_map(|client| Op::Incarnate { client }),
        4 => Just(Op::Flush),
        1 => (0..8u8).prop_map(|keep| Op::Retain { keep }),
        1 => (1..60u8).prop_map(|seconds| Op::Advance { seconds }),
        1 => prop_oneof![Just(Stop::Clean), Just(Stop::Killed), any::<u64>().prop_map(Stop::PowerCut)].prop_map(Op::Restart),
    ]
}

fn run(ops: &[Op], max: usize) {
    let mut net = Net::new(max);
    for op in ops {
        net.step(op);
    }
    net.settle();
    net.restart(Stop::PowerCut(7));
    net.consume();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_batch_is_there_once_and_in_order(ops in prop::collection::vec(op(), 1..160)) {
        run(&ops, 100);
    }

    #[test]
    fn whoever_is_forgotten_is_told_so_and_nothing_is_there_twice(ops in prop::collection::vec(op(), 1..160)) {
        run(&ops, 2);
    }
}

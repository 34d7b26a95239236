//! The program's memory is bounded by its settings, not by its clients: `cargo xtask limits` in small.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use hermit_torture::limits::{Load, Measured, Protocol, measure, sent};
use hermit_torture::server::Setup;

const BOTH: [Protocol; 2] = [Protocol::V1, Protocol::V2];

async fn measured(load: Load) -> Measured {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    let measured = measure(setup, load).await.unwrap();
    assert!(measured.is_within_promise(), "{load}: {measured}");
    measured
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_consumers_cost_little_and_are_all_woken() {
    for protocol in BOTH {
        measured(Load::Idle(protocol, 200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_far_behind_costs_nothing_for_it() {
    for protocol in BOTH {
        measured(Load::Behind(protocol, 128 << 20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announced_frame_costs_what_was_sent_of_it() {
    for protocol in BOTH {
        // A hundred times 50 MiB are announced.
        measured(Load::Announced(protocol, 100, 0)).await;
        measured(Load::Announced(protocol, 100, 64 << 10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_frames_that_really_come_stay_within_their_room_and_hold_up_nobody() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_hermitd")), dir.path());
    let sent = sent::measure(setup, 40, Duration::from_secs(3), 6).await.unwrap();
    assert!(sent.broken().is_empty(), "{sent}: {:?}", sent.broken());
}

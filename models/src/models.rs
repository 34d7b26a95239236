//! The models.

use std::sync::Arc;
use std::task::Poll;

use hermit_log::{Bounds, LogError, LogListener as _};
use hermit_proto::Offset;
use loom::future::block_on;
use loom::thread;

use crate::address::PeerAddress;
use crate::limits::Limits;
use crate::memory::{Budget, Share};
use crate::progress::Progress;
use crate::signal::Signal;

fn until(high_watermark: u64) -> Bounds {
    let end = Offset(high_watermark);
    Bounds { log_start: Offset(0), high_watermark: end, flushed_end: end, log_end: end }
}

/// Waits until all of `tokens` have come.
fn wait_for(signal: &Signal, tokens: &[u64]) {
    let mut seen = Vec::new();
    loop {
        signal.take_into(&mut seen);
        if tokens.iter().all(|token| seen.contains(token)) {
            return;
        }
        block_on(signal.notified());
    }
}

fn no_token_of_two_that_wake_at_once_is_lost() {
    loom::model(|| {
        let signal = Arc::new(Signal::new());
        let wakers: Vec<_> = [1, 2]
            .into_iter()
            .map(|token| {
                let signal = Arc::clone(&signal);
                thread::spawn(move || signal.wake(token))
            })
            .collect();
        wait_for(&signal, &[1, 2]);
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

fn who_waits_while_the_watermark_moves_is_woken() {
    loom::model(|| {
        let progress = Arc::new(Progress::default());
        let signal = Arc::new(Signal::new());
        // Reports may overtake each other.
        let reports: Vec<_> = [5, 4]
            .into_iter()
            .map(|end| {
                let progress = Arc::clone(&progress);
                thread::spawn(move || progress.advanced(until(end)))
            })
            .collect();
        while progress.wait(Offset(5), &signal, 7).is_pending() {
            wait_for(&signal, &[7]);
        }
        reports.into_iter().for_each(|report| report.join().unwrap());
        assert_eq!((progress.high_watermark(), progress.waiters()), (Offset(5), 0));
    });
}

fn who_waits_for_what_never_comes_is_told() {
    loom::model(|| {
        let progress = Arc::new(Progress::default());
        let signal = Arc::new(Signal::new());
        let failing = Arc::clone(&progress);
        let fails = thread::spawn(move || failing.failed(&LogError::Closed));
        let deleting = Arc::clone(&progress);
        let deletes = thread::spawn(move || deleting.delete());
        let told = loop {
            match progress.wait(Offset(1), &signal, 7) {
                Poll::Pending => wait_for(&signal, &[7]),
                Poll::Ready(told) => break told,
            }
        };
        assert!(told.is_err());
        fails.join().unwrap();
        deletes.join().unwrap();
        assert_eq!(progress.waiters(), 0);
    });
}

fn a_waiter_that_goes_away_leaves_nothing_behind() {
    loom::model(|| {
        let progress = Arc::new(Progress::default());
        let signal = Arc::new(Signal::new());
        let moving = Arc::clone(&progress);
        let moves = thread::spawn(move || moving.advanced(until(1)));
        let waits = progress.wait(Offset(1), &signal, 7).is_pending();
        progress.forget(&signal, 7);
        moves.join().unwrap();
        assert_eq!(progress.waiters(), 0);
        let mut woken = Vec::new();
        signal.take_into(&mut woken);
        assert!(woken.is_empty() || waits, "who did not wait is not woken");
    });
}

/// Reads a unit that takes all there is, and lets it go.
fn read_large(mut share: Share) {
    let all = 1 << 20;
    share.update(100, Some(all));
    while share.is_waiting() {
        block_on(share.changed());
        let _more = share.permit();
    }
    share.update(all, Some(all));
    share.update(0, None);
}

fn who_waits_for_room_is_told_when_another_is_done() {
    loom::model(|| {
        // Room for one of them at a time.
        let limits = Limits { max_inflight_bytes: 3 << 19, max_request_bytes: 1 << 20, min_large_frame_rate: 1 };
        let budget = Budget::new(&limits);
        let others: Vec<_> = [1, 2]
            .into_iter()
            .map(|address| {
                let share = budget.share(PeerAddress(address), 1);
                thread::spawn(move || read_large(share))
            })
            .collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(budget.used_bytes(), 0);
    });
}

fn who_gives_up_waiting_for_room_keeps_it_from_nobody() {
    loom::model(|| {
        let limits = Limits { max_inflight_bytes: 3 << 19, max_request_bytes: 1 << 20, min_large_frame_rate: 1 };
        let budget = Budget::new(&limits);
        let mut leaves = budget.share(PeerAddress(1), 1);
        let leaving = thread::spawn(move || leaves.update(100, Some(1 << 20)));
        read_large(budget.share(PeerAddress(2), 1));
        leaving.join().unwrap();
        assert_eq!(budget.used_bytes(), 0);
    });
}

/// All of them.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("no token of two that wake at once is lost", no_token_of_two_that_wake_at_once_is_lost),
    ("who waits while the watermark moves is woken", who_waits_while_the_watermark_moves_is_woken),
    ("who waits for what never comes is told", who_waits_for_what_never_comes_is_told),
    ("a waiter that goes away leaves nothing behind", a_waiter_that_goes_away_leaves_nothing_behind),
    ("who waits for room is told when another is done", who_waits_for_room_is_told_when_another_is_done),
    ("who gives up waiting for room keeps it from nobody", who_gives_up_waiting_for_room_keeps_it_from_nobody),
];

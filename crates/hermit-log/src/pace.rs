//! How a group commit paces itself: whoever was just answered often has the next ready at once.
//!
//! Where clients keep a number of frames in flight, answers bring new frames. If the next sync began with what came during the last one, it would carry
//! half of what is in flight, and the other half would wait for it: two syncs for each round of all clients. So what came meanwhile waits for
//! the answers' return, though only for part of the time that a sync takes: where the return takes as long as that, waiting gains nothing, as the disk
//! would be idle for as long as it saves. Whether it gains is learned. The same rule holds for frames of one log and for logs that are flushed together.

use std::time::Duration;

/// Groups that are not waited for, at most, before it is tried again.
const MAX_PAUSE: u32 = 63;

/// No wait is longer, however long syncs take: by then most have come back.
const MAX_WAIT: Duration = Duration::from_millis(40);

/// The latest of many measurements counts for an eighth.
pub(crate) fn blend(before: Duration, latest: Duration) -> Duration {
    if before.is_zero() { latest } else { before - before / 8 + latest / 8 }
}

/// The pace of one stream of syncs.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    gathering: Option<Gathering>,
    /// What a sync takes lately.
    usual: Duration,
    /// Groups still to come that are not waited for, as waiting did not pay.
    skip: u32,
    /// The last value that `skip` began from.
    pause: u32,
}

#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// What waited when it began.
    from: u64,
    answered: u64,
    until: Duration,
    /// Something waited for the others.
    waited: bool,
}

impl Gathering {
    /// Not for the very last, which may be long in coming.
    const fn is_complete(&self, waiting: u64) -> bool {
        waiting.saturating_sub(self.from) + self.answered / 8 >= self.answered
    }
}

impl Pace {
    /// A sync that took `took` has ended: `answered` are answered now, and `waiting` have come meanwhile.
    pub(crate) fn synced(&mut self, now: Duration, took: Duration, answered: u64, waiting: u64) {
        // One that takes long for once tells nothing of how long the answered take to return.
        let took = if self.usual.is_zero() { took } else { took.min(self.usual * 2) };
        self.usual = blend(self.usual, took);
        if self.skip > 0 {
            self.skip -= 1;
            self.gathering = None;
        } else {
            self.gathering = Some(Gathering { from: waiting, answered, until: now + (took * 5 / 8).min(MAX_WAIT), waited: false });
        }
    }

    /// When what waits is to be synced; `None` is now.
    pub(crate) fn due(&mut self, now: Duration, waiting: u64) -> Option<Duration> {
        let gathering = self.gathering.as_mut()?;
        if gathering.is_complete(waiting) || now >= gathering.until {
            return None;
        }
        gathering.waited = true;
        Some(gathering.until)
    }

    /// A sync of `taken` begins.
    pub(crate) fn begun(&mut self, taken: u64) {
        let Some(gathering) = self.gathering.take().filter(|gathering| gathering.waited) else { return };
        // Frames that come by themselves at some rate are less than half of those that are answered.
        if taken.saturating_sub(gathering.from) >= gathering.answered - gathering.answered / 4 {
            self.pause = 0;
        } else {
            self.pause = (self.pause * 2 + 1).min(MAX_PAUSE);
            self.skip = self.pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(300);
    const RETURN: Duration = Duration::from_micros(150);

    /// Clients with `in_flight` frames, each of which comes back `RETURN` after it was answered. Answers how many syncs `rounds` of them took.
    fn syncs_of_a_closed_loop(in_flight: u64, rounds: u64) -> u64 {
        let (mut pace, mut now, mut syncs, mut done) = (Pace::default(), Duration::ZERO, 0, 0);
        // As it begins where the first frame is synced alone.
        let mut returning = vec![(Duration::ZERO, 1), (SYNC / 2, in_flight - 1)];
        while done < in_flight * rounds {
            let arrived = |returning: &[(Duration, u64)], now| -> u64 {
                returning.iter().filter(|(at, _)| *at <= now).map(|(_, frames)| frames).sum()
            };
            loop {
                let waiting = arrived(&returning, now);
                let next = returning.iter().map(|(at, _)| *at).filter(|at| *at > now).min();
                match (waiting, pace.due(now, waiting)) {
                    (0, _) => now = next.expect("something is on its way"),
                    (_, None) => break,
                    (_, Some(until)) => now = next.map_or(until, |next| next.min(until)),
                }
            }
            let taken = arrived(&returning, now);
            returning.retain(|(at, _)| *at > now);
            pace.begun(taken);
            now += SYNC;
            syncs += 1;
            done += taken;
            pace.synced(now, SYNC, taken, arrived(&returning, now));
            returning.push((now + RETURN, taken));
        }
        syncs
    }

    #[test]
    fn all_that_clients_keep_in_flight_goes_into_one_sync() {
        for in_flight in [2, 3, 16, 1000] {
            let syncs = syncs_of_a_closed_loop(in_flight, 100);
            assert!(syncs <= 105, "{in_flight} in flight: {syncs} syncs for 100 rounds");
        }
    }

    #[test]
    fn a_lone_frame_waits_for_nobody() {
        let mut pace = Pace::default();
        for round in 0..10 {
            let now = SYNC * 3 * round;
            assert_eq!(pace.due(now, 1), None);
            pace.begun(1);
            pace.synced(now + SYNC, SYNC, 1, 0);
        }
    }

    #[test]
    fn nobody_waits_long_because_one_sync_did() {
        let stall = Duration::from_secs(8);
        let mut pace = Pace::default();
        pace.begun(10);
        pace.synced(stall, stall, 10, 0);
        assert_eq!(pace.due(stall, 1), Some(stall + MAX_WAIT), "nothing is known yet");
        let mut pace = Pace::default();
        for _ in 0..3 {
            pace.synced(SYNC, SYNC, 10, 0);
            pace.begun(10);
        }
        pace.synced(stall, stall, 10, 0);
        assert!(pace.due(stall, 1).is_some_and(|until| until <= stall + SYNC * 2));
        pace.begun(10);
        pace.synced(stall, SYNC, 10, 0);
        assert!(pace.due(stall, 1).is_some_and(|until| until <= stall + SYNC * 5 / 8));
    }

    #[test]
    fn where_the_answered_do_not_return_waiting_becomes_rare() {
        let (mut pace, mut now, mut waits) = (Pace::default(), Duration::ZERO, 0);
        for _ in 0..1000 {
            // Ten frames come in each sync's time, whatever is answered.
            let mut waiting = 10;
            if let Some(until) = pace.due(now, waiting) {
                waits += 1;
                waiting += 6;
                now = until;
                assert_eq!(pace.due(now, waiting), None, "the wait ends");
            }
            pace.begun(waiting);
            now += SYNC;
            pace.synced(now, SYNC, waiting, 10);
        }
        assert!(waits < 30, "waited {waits} times");
        // It is found when that changes.
        let found = (0..200).any(|_| {
            let found = pace.due(now, 10).is_some();
            pace.begun(16);
            now += SYNC;
            pace.synced(now, SYNC, 16, 10);
            found
        });
        assert!(found);
    }
}

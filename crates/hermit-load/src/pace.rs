//! When records are due.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;

use crate::meter::Meter;

/// The longest nap, so that a load that is stopped ends soon.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// Records that are to be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The first one's number, from 0.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// When the first one should have been sent.
    pub(crate) intended: Instant,
}

/// A schedule: record `n` is due at `begin + n × interval`, whether or not those before it could be sent in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    begin: Instant,
    /// Records a second; `None`: as fast as can be.
    rate: Option<f64>,
    /// No more than so many.
    records: u64,
    /// None is due from here on.
    end: Option<Instant>,
}

impl Schedule {
    pub(crate) const fn new(begin: Instant, rate: Option<f64>, records: Option<u64>, end: Option<Instant>) -> Self {
        let records = match records {
            Some(records) => records,
            None => u64::MAX,
        };
        Self { begin, rate, records, end }
    }

    /// When record `number` is due.
    pub(crate) fn intended(&self, number: u64) -> Instant {
        #[expect(clippy::cast_precision_loss, reason = "to 1 ns for months of records")]
        let after =
            self.rate.map_or(Duration::ZERO, |rate| Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX));
        self.begin.checked_add(after).unwrap_or(self.begin)
    }

    /// How many records behind the first `sent` are due, `most` at most; `None` when the schedule is over.
    fn due(&self, sent: u64, most: u64, now: Instant) -> Option<Due> {
        let left = self.records.saturating_sub(sent);
        let over = match (self.rate, self.end) {
            (Some(_), Some(end)) => self.intended(sent) >= end,
            (None, Some(end)) => now >= end,
            (_, None) => false,
        };
        if left == 0 || over {
            return None;
        }
        let Some(rate) = self.rate else {
            return Some(Due { first: sent, count: left.min(most), intended: now });
        };
        let until = self.end.map_or(now, |end| now.min(end));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number, which saturates")]
        let so_far = (until.saturating_duration_since(self.begin).as_secs_f64() * rate) as u64;
        // Record n is due at n intervals: so one more than have passed, but for the end. What is rounded must not leave one due for ever.
        let begun = u64::from(self.end.is_none_or(|end| until < end));
        let count = so_far.saturating_add(begun).saturating_sub(sent).max(u64::from(self.intended(sent) <= now));
        Some(Due { first: sent, count: count.min(left).min(most), intended: self.intended(sent) })
    }
}

/// Follows a schedule. With a rate it sleeps on its thread, exactly, as a runtime's timer is one of milliseconds.
#[derive(Debug)]
pub(crate) struct Pace {
    schedule: Schedule,
    sent: u64,
}

impl Pace {
    pub(crate) const fn new(schedule: Schedule) -> Self {
        Self { schedule, sent: 0 }
    }

    /// The next records, `most` at most, sleeping until one is due. `None` when the schedule is over, or the load was stopped.
    pub(crate) fn next(&mut self, most: u64, meter: &Meter) -> Option<Due> {
        loop {
            if meter.is_stopped() {
                return None;
            }
            let now = Instant::now();
            let due = self.schedule.due(self.sent, most, now)?;
            if due.count > 0 {
                self.sent += due.count;
                return Some(due);
            }
            let nap = due.intended.saturating_duration_since(now);
            std::thread::sleep(nap.min(LONGEST_NAP));
        }
    }
}

/// Makes naps of this thread exact: without it each is some 50 µs too long.
pub(crate) fn be_punctual() {
    // A kernel that refuses it leaves the naps as they are, which the report's lateness shows.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_by_the_clock_and_not_by_what_was_sent() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let schedule = Schedule::new(begin, Some(1000.0), None, Some(at(100)));
        let due = |sent, most, now| schedule.due(sent, most, now).map(|due| (due.count, due.intended));
        assert_eq!(due(0, 10, begin), Some((1, begin)));
        assert_eq!(due(1, 10, at(0)), Some((0, at(1))), "the second is due after an interval");
        assert_eq!(due(1, 100, at(20)), Some((20, at(1))), "all that are late at once, counted from when they were due");
        assert_eq!(due(1, 7, at(20)), Some((7, at(1))));
        assert_eq!(due(99, 7, at(500)), Some((1, at(99))), "who is late sends all that was due before the end");
        assert_eq!(due(100, 7, at(500)), None);
    }

    #[test]
    fn a_schedule_comes_to_its_end_whatever_is_rounded() {
        let begin = Instant::now();
        for rate in [1.0 / 3.0, 5000.0 / 3.0, 4567.89, 1e6 / 7.0] {
            let end = begin + Duration::from_millis(200);
            let schedule = Schedule::new(begin, Some(rate), None, Some(end));
            let mut sent = 0;
            while let Some(due) = schedule.due(sent, 100, end) {
                assert!(due.count > 0 && due.intended < end, "{rate}: {sent}");
                sent += due.count;
            }
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let difference = sent as f64 - rate / 5.0;
            assert!((0.0..=1.0).contains(&difference), "{rate}: {sent}");
        }
    }

    #[test]
    fn without_a_rate_everything_is_due_until_the_end() {
        let begin = Instant::now();
        let end = begin + Duration::from_secs(1);
        let schedule = Schedule::new(begin, None, Some(25), Some(end));
        assert_eq!(schedule.due(20, 10, begin).map(|due| due.count), Some(5));
        assert_eq!(schedule.due(25, 10, begin), None);
        assert_eq!(schedule.due(0, 10, end), None);
    }
}

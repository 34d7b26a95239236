//! What is counted, as plain atomics: whoever appends or flushes adds to them, and whoever wants to know reads them without a lock. Only the flushes under way have one, which a flush takes twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::log::Log;
use crate::view::{Bounds, Until};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Upper ends of the buckets in ns, inclusive: three to a decade, from what an append takes to what a disk that is failing takes. What is longer is in a
/// bucket of its own.
const ENDS: [u64; Histogram::BUCKETS] = [
    US,
    25 * US / 10,
    5 * US,
    10 * US,
    25 * US,
    50 * US,
    100 * US,
    250 * US,
    500 * US,
    MS,
    25 * MS / 10,
    5 * MS,
    10 * MS,
    25 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    1_000 * MS,
    2_500 * MS,
    5_000 * MS,
    10_000 * MS,
];

/// Durations, by fixed buckets. Adding one is two relaxed additions.
#[derive(Debug, Default)]
pub struct Histogram {
    /// By bucket, and then those that are longer.
    counts: [AtomicU64; Self::BUCKETS],
    longer: AtomicU64,
    sum_ns: AtomicU64,
}

/// A [`Histogram`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many durations were in each bucket, above the end of the one before: not added up.
    pub counts: [u64; Histogram::BUCKETS],
    /// How many were longer than the last bucket's end.
    pub longer: u64,
    /// All of them added up.
    pub sum: Duration,
}

impl Histogram {
    /// How many buckets have an end.
    pub const BUCKETS: usize = 22;

    /// The upper ends of the buckets, inclusive.
    pub fn ends() -> impl Iterator<Item = Duration> {
        ENDS.into_iter().map(Duration::from_nanos)
    }

    /// Adds a duration.
    pub fn add(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = ENDS.partition_point(|end| *end < ns);
        self.counts.get(bucket).unwrap_or(&self.longer).fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// As it is now. What is being added meanwhile may be in one of its numbers and not yet in another.
    #[must_use]
    pub fn read(&self) -> Durations {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Durations {
            counts: self.counts.each_ref().map(get),
            longer: get(&self.longer),
            sum: Duration::from_nanos(get(&self.sum_ns)),
        }
    }
}

impl Durations {
    /// How many durations were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>().wrapping_add(self.longer)
    }
}

/// What all logs of a [`LogEnv`](crate::LogEnv) do.
#[derive(Debug, Default)]
pub struct LogTimes {
    /// Appends of a batch: its offsets, its checksums and the write into the page cache. What it waited for the log's lock is no part of it.
    pub append: Histogram,
    /// Flushes of one log each, from the first sync to the moved end; those that failed are not among them. A flush of many logs together counts once for each.
    pub flush: Histogram,
    /// Flushes that have begun and not ended: a disk that takes for ever shows nowhere else.
    pub flushing: UnderWay,
    /// Writes into the page cache, with making room for them.
    pub writes: Writes,
}

/// What has begun and not ended, by when it began.
#[derive(Debug, Default)]
pub struct UnderWay(Mutex<Beginnings>);

#[derive(Debug, Default)]
struct Beginnings {
    /// Tells those of the same time apart.
    number: u64,
    by_time: BTreeSet<(Duration, u64)>,
}

/// One that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct OneUnderWay<'a> {
    all: &'a UnderWay,
    began: (Duration, u64),
}

impl UnderWay {
    /// How long that is under way which began first, where `now` is of the clock of the logs ([`Clock::monotonic`](crate::Clock::monotonic)); zero where nothing is.
    #[must_use]
    pub fn oldest(&self, now: Duration) -> Duration {
        self.0.lock().by_time.first().map_or(Duration::ZERO, |(began, _)| now.saturating_sub(*began))
    }

    pub(crate) fn begin(&self, now: Duration) -> OneUnderWay<'_> {
        let mut beginnings = self.0.lock();
        beginnings.number = beginnings.number.wrapping_add(1);
        let began = (now, beginnings.number);
        beginnings.by_time.insert(began);
        OneUnderWay { all: self, began }
    }
}

impl Drop for OneUnderWay<'_> {
    fn drop(&mut self) {
        self.all.0.lock().by_time.remove(&self.began);
    }
}

/// Counts what begins and what ends.
#[derive(Debug, Default)]
pub struct Writes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Some of [`Writes`], at one moment.
#[derive(Clone, Copy, Debug)]
pub struct WritesSeen {
    under_way: bool,
    ended: u64,
}

impl Writes {
    /// As they are now.
    #[must_use]
    pub fn seen(&self) -> WritesSeen {
        let ended = self.ended.load(Ordering::Relaxed);
        WritesSeen { under_way: self.begun.load(Ordering::Relaxed) != ended, ended }
    }

    /// Whether one was under way since then, and none has ended: the disk takes that long.
    #[must_use]
    pub fn hang_since(&self, seen: WritesSeen) -> bool {
        seen.under_way && self.ended.load(Ordering::Relaxed) == seen.ended
    }

    /// One is under way until what this gives is dropped.
    pub(crate) fn begin(&self) -> OneWrite<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        OneWrite(self)
    }
}

#[derive(Debug)]
pub(crate) struct OneWrite<'a>(&'a Writes);

impl Drop for OneWrite<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A counter that has one writer at a time, which costs no atomic addition.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// The caller holds the lock that all writers hold.
    pub(crate) fn add_alone(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What was appended to a log since it was opened. Written under the log's lock.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) records: Counter,
    pub(crate) bytes: Counter,
    pub(crate) batches: Counter,
}

/// The figures of one log at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// The ends of the log.
    pub bounds: Bounds,
    /// Bytes of all segments.
    pub size_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Ranges that are known to be damaged, or were left out on purpose.
    pub fenced_ranges: u64,
    /// Records appended since the log was opened.
    pub appended_records: u64,
    /// Bytes of their frames.
    pub appended_bytes: u64,
    /// Batches that they came in.
    pub appended_batches: u64,
}

impl Log {
    /// The log's figures. Takes no lock that an append or a flush holds for longer than it takes to move an end.
    #[must_use]
    pub fn figures(&self) -> LogFigures {
        let (view, counts) = self.view_and_counts();
        let view = view.read();
        let end = view.end(Until::LogEnd);
        LogFigures {
            bounds: view.bounds(),
            size_bytes: view.segments.iter().filter_map(|segment| view.limit_of(segment, end)).sum(),
            segments: view.segments.len() as u64,
            fenced_ranges: view.fenced.ranges().len() as u64,
            appended_records: counts.records.get(),
            appended_bytes: counts.bytes.get(),
            appended_batches: counts.batches.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        let ends: Vec<_> = Histogram::ends().collect();
        assert!(ends.is_sorted() && ends.contains(&Duration::from_millis(100)));
        for end in &ends {
            histogram.add(*end);
        }
        assert_eq!(histogram.read().counts, [1; Histogram::BUCKETS]);
        for end in &ends {
            histogram.add(*end + Duration::from_nanos(1));
        }
        let read = histogram.read();
        let mut expected = [2; Histogram::BUCKETS];
        expected[0] = 1;
        assert_eq!((read.counts, read.longer), (expected, 1));
        assert_eq!(read.count(), 2 * ends.len() as u64);
        let nanos = Duration::from_nanos(ends.len() as u64);
        assert_eq!(read.sum, 2 * ends.iter().sum::<Duration>() + nanos);
    }
}

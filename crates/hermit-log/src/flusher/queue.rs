//! Which logs are to be flushed next, by whom, and whether together. No threads and no locks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Flush;
use super::crossover::Crossover;
use crate::disk::SharedFileSystem;
use crate::pace::Pace;

type Logs = Vec<Arc<dyn Flush>>;

/// What a thread is to do.
#[derive(Debug)]
pub(super) enum Work {
    One(Arc<dyn Flush>),
    /// All on one file system.
    Group(Logs),
    /// Look again then.
    Later(Duration),
    Nothing,
    End,
}

/// Those on the file system of the first, and the others.
fn split_off_first(logs: Logs) -> (Logs, Logs) {
    let id = |log: &Arc<dyn Flush>| log.file_system().map(Arc::as_ptr).map(<*const SharedFileSystem>::addr);
    let first = logs.first().and_then(id);
    logs.into_iter().partition(|log| id(log) == first)
}

pub(super) fn by_file_system(mut logs: Logs) -> Vec<Logs> {
    let mut groups = Vec::new();
    while !logs.is_empty() {
        let (group, rest) = split_off_first(logs);
        groups.push(group);
        logs = rest;
    }
    groups
}

#[derive(Debug)]
pub(super) struct Queue {
    ready: VecDeque<Arc<dyn Flush>>,
    /// By the time at which they are due; the number tells equal times apart.
    later: BTreeMap<(Duration, u64), Weak<dyn Flush>>,
    numbered: u64,
    threads: usize,
    crossover: Crossover,
    /// How groups follow each other.
    pace: Pace,
    /// Until when others wait for the group that is being flushed.
    group_until: Option<Duration>,
    /// Some thread looks again when the group has taken too long.
    group_watched: bool,
    stopped: bool,
}

impl Queue {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            later: BTreeMap::new(),
            numbered: 0,
            threads,
            crossover: Crossover::default(),
            pace: Pace::default(),
            group_until: None,
            group_watched: false,
            stopped: false,
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Adds a log that is due. Answers whether a thread is to look.
    pub(super) fn push(&mut self, log: Arc<dyn Flush>, now: Duration) -> bool {
        self.ready.push_back(log);
        // The others may have gone to sleep for good before there was anything to wait with.
        self.waits_until(now).is_none() || (self.group_until.is_some() && !std::mem::replace(&mut self.group_watched, true))
    }

    /// Adds a log that will be due. Answers whether it is the first that will be.
    pub(super) fn push_later(&mut self, log: Weak<dyn Flush>, due: Duration) -> bool {
        self.numbered += 1;
        let key = (due, self.numbered);
        self.later.insert(key, log);
        self.later.first_key_value().is_some_and(|(first, _)| *first == key)
    }

    /// Until when those that are due wait: for the group that is being flushed, or for those that are about to come back from the last.
    fn waits_until(&mut self, now: Duration) -> Option<Duration> {
        match self.group_until {
            Some(until) => Some(until).filter(|until| now < *until),
            None => self.pace.due(now, self.ready.len() as u64),
        }
    }

    fn look_at_later(&mut self, now: Duration) {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            // A log that is gone was closed, and flushed by that.
            if let Some(log) = entry.remove().upgrade() {
                self.ready.push_back(log);
            }
        }
    }

    /// The log that has waited longest, if one is due.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Arc<dyn Flush>> {
        self.look_at_later(now);
        self.ready.pop_front()
    }

    /// Those that are due on the file system of the first of them.
    fn take_group(&mut self) -> Logs {
        let (group, rest) = split_off_first(std::mem::take(&mut self.ready).into());
        self.ready = rest.into();
        group
    }

    /// What a thread that has nothing to do is to do.
    pub(super) fn next(&mut self, now: Duration) -> Work {
        self.look_at_later(now);
        let timer = self.later.first_key_value().map(|((due, _), _)| *due);
        // Also where nothing is due yet: whoever comes first finds somebody who looks in time.
        if let Some(until) = self.waits_until(now)
            && !self.stopped
        {
            self.group_watched = true;
            return Work::Later(timer.map_or(until, |timer| timer.min(until)));
        }
        let joins = self.group_until.is_none() && self.crossover.joins(now, self.ready.len(), self.threads);
        if joins && self.ready.front().is_some_and(|log| log.file_system().is_some()) {
            let group = self.take_group();
            self.pace.begun(group.len() as u64);
            self.group_watched = false;
            self.group_until = Some(now + self.crossover.patience(group.len(), self.threads));
            return Work::Group(group);
        }
        match self.ready.pop_front() {
            Some(log) => {
                self.pace.begun(1);
                Work::One(log)
            }
            None if self.stopped => Work::End,
            None => timer.map_or(Work::Nothing, Work::Later),
        }
    }

    /// A log was flushed by itself, if there was anything to flush.
    pub(super) fn one_done(&mut self, took: Option<Duration>) {
        if let Some(took) = took {
            self.crossover.took_own(took);
        }
    }

    /// Logs were flushed together, if there was anything to flush.
    pub(super) fn group_done(&mut self, now: Duration, took: Option<Duration>, logs: usize) {
        self.group_until = None;
        if let Some(took) = took {
            self.crossover.took_whole(now, took, logs, self.threads);
            self.pace.synced(now, took, logs as u64, self.ready.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::Disk;
    use crate::disk::sim::SimDisk;
    use crate::flusher::{Next, Start};

    const MS: Duration = Duration::from_millis(1);

    #[derive(Debug)]
    struct Dirty(Arc<SharedFileSystem>);

    impl Flush for Dirty {
        fn file_system(&self) -> Option<&Arc<SharedFileSystem>> {
            Some(&self.0)
        }
        fn begin(&self, _waits: bool) -> Start<'_> {
            Start::Nothing
        }
        fn next(&self) -> Next {
            Next::Nothing
        }
    }

    /// A queue whose logs are on one file system, and which knows that a sync of one takes a millisecond.
    fn queue() -> (Queue, Arc<dyn Flush>) {
        let file_system = SimDisk::new(1).open_file_system(Path::new("/")).unwrap();
        let mut queue = Queue::new(4);
        queue.one_done(Some(MS));
        (queue, Arc::new(Dirty(Arc::new(SharedFileSystem::new(file_system)))))
    }

    fn begin_group(queue: &mut Queue, log: &Arc<dyn Flush>, now: Duration, logs: usize) {
        for _ in 0..logs {
            queue.push(Arc::clone(log), now);
        }
        assert!(matches!(queue.next(now), Work::Group(group) if group.len() == logs));
    }

    #[test]
    fn while_a_group_is_flushed_one_thread_is_woken_to_see_how_long_it_takes() {
        let (mut queue, log) = queue();
        begin_group(&mut queue, &log, MS, 8);
        assert!(queue.push(Arc::clone(&log), MS), "all others may be asleep without an end");
        let Work::Later(until) = queue.next(MS) else { panic!("it waits for the group") };
        assert!(!queue.push(Arc::clone(&log), MS), "somebody looks in time");
        assert!(matches!(queue.next(until), Work::One(_)));
        queue.group_done(MS * 5, Some(MS * 4), 8);
        // The same with the next.
        while matches!(queue.next(MS * 100), Work::One(_)) {}
        begin_group(&mut queue, &log, MS * 200, 16);
        assert!(queue.push(log, MS * 200));
    }

    #[test]
    fn a_group_with_nothing_to_flush_says_nothing_of_what_a_sync_takes() {
        let (mut queue, log) = queue();
        begin_group(&mut queue, &log, MS, 16);
        queue.group_done(MS * 4, Some(MS * 3), 16);
        assert!(!queue.crossover.joins(MS * 10, 12, 4), "3 ms against 3");
        for round in 2..10 {
            begin_group(&mut queue, &log, MS * 10 * round, 16);
            queue.group_done(MS * 10 * round, None, 16);
        }
        assert!(!queue.crossover.joins(MS * 200, 12, 4), "as before");
    }
}

//! One run of [`Consumer::process_parallel`](crate::Consumer::process_parallel).

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use bytes::Bytes;
use hermit_proto::Offset;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::schedule::Schedule;
use super::{HandlerError, OnError, Parallel, goes_on};
use crate::backoff::Backoff;
use crate::consumer::group::Key;
use crate::consumer::stream::Turn;
use crate::consumer::{Acker, Consumer, Record};
use crate::error::{Error, Result};

/// Records that must not overtake each other: those of a partition with the same key, or without any.
type Lane = (Key, Option<Bytes>);

/// Records that are taken from one look at all partitions to the next.
const LOOK_EVERY: usize = 1024;

#[derive(Debug)]
struct Job {
    record: Record,
    backoff: Option<Backoff>,
    failures: u32,
}

#[derive(Debug)]
struct Running {
    lane: Option<Lane>,
    job: Job,
    /// Its partition is not read any more.
    gone: bool,
}

pub(super) struct Run {
    config: Parallel,
    acker: Option<Acker>,
    schedule: Schedule<Lane, Job>,
    tasks: JoinSet<Result<(), HandlerError>>,
    running: HashMap<Id, Running>,
    /// Waiting for their next attempt.
    delayed: Vec<(Instant, Running)>,
    buffered_bytes: usize,
    /// Taken since it was last looked how far processing is ahead of what can be committed.
    unlooked: usize,
    /// Some partition is too far ahead.
    far_ahead: bool,
    /// The first record of each partition that was taken and is not processed.
    left_over: BTreeMap<Key, (Arc<str>, Offset)>,
    over: bool,
}

impl Run {
    pub(super) fn new(config: Parallel, acker: Option<Acker>) -> Self {
        Self {
            config,
            acker,
            schedule: Schedule::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            delayed: Vec::new(),
            buffered_bytes: 0,
            unlooked: 0,
            far_ahead: false,
            left_over: BTreeMap::new(),
            over: false,
        }
    }

    /// Takes records and has them processed.
    pub(super) async fn turns<H, F, E>(
        &mut self,
        consumer: &mut Consumer,
        handler: &H,
        shutdown: impl Future<Output = ()>,
    ) -> Result<()>
    where
        H: Fn(Record) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        tokio::pin!(shutdown);
        loop {
            self.begin(handler);
            let buffered = self.schedule.len() + self.running.len() + self.delayed.len();
            if self.over && buffered == 0 {
                return Ok(());
            }
            self.look_ahead();
            let room = buffered < self.config.max_buffered
                && self.buffered_bytes < self.config.max_buffered_bytes
                && !self.far_ahead
                && !self.over;
            let retry_at = self.delayed.iter().map(|(at, _)| *at).min();
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                Some(ended) = self.tasks.join_next_with_id() => self.finished(ended)?,
                () = wait_until(retry_at) => self.release_delayed(),
                turn = consumer.turn(room.then_some(Consumer::next_ready)) => match turn {
                    Ok(Turn::Taken(record)) => self.take(record),
                    Ok(Turn::Gone(keys)) => self.let_go(&keys),
                    Ok(Turn::Over) => self.over = true,
                    Err(error) if goes_on(&error) => tracing::warn!(%error, "processing goes on"),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Finds out now and then whether records are processed far behind one that is not.
    fn look_ahead(&mut self) {
        if let Some(acker) = &self.acker
            && (self.far_ahead || self.unlooked >= LOOK_EVERY.min(self.config.max_ahead))
        {
            self.unlooked = 0;
            self.far_ahead = acker.most_ahead() >= self.config.max_ahead;
        }
    }

    fn take(&mut self, record: Record) {
        self.unlooked += 1;
        let partition = (record.topic_id, record.partition);
        let lane = match &record.key {
            None if !self.config.keyless_in_order => None,
            key => Some((partition, key.clone())),
        };
        self.buffered_bytes += size_bytes(&record);
        self.schedule.push(lane, Job { record, backoff: None, failures: 0 });
    }

    /// Begins what may begin.
    fn begin<H, F, E>(&mut self, handler: &H)
    where
        H: Fn(Record) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        while self.running.len() < self.config.workers {
            let Some((lane, job)) = self.schedule.next() else { return };
            self.spawn(handler, Running { lane, job, gone: false });
        }
    }

    fn spawn<H, F, E>(&mut self, handler: &H, running: Running)
    where
        H: Fn(Record) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        let record = running.job.record.clone();
        // It may panic before it comes to its future; nothing of it is used again then.
        let task = match catch_unwind(AssertUnwindSafe(|| handler(record))) {
            Ok(handling) => self.tasks.spawn(async move { handling.await.map_err(Into::into) }),
            Err(panic) => self.tasks.spawn(async move { resume_unwind(panic) }),
        };
        self.running.insert(task.id(), running);
    }

    fn finished(&mut self, ended: Result<(Id, Result<(), HandlerError>), JoinError>) -> Result<()> {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome),
            Err(panicked) => (panicked.id(), Err(panicked.into())),
        };
        let Some(running) = self.running.remove(&id) else { return Ok(()) };
        let Err(error) = outcome else {
            self.processed(running);
            return Ok(());
        };
        match &mut self.config.on_error {
            _ if running.gone => self.give_back(running),
            OnError::Skip(skipped) => {
                skipped(&running.job.record, &error);
                self.processed(running);
            }
            OnError::Retry { backoff, attempts } if running.job.failures < *attempts => {
                let Running { lane, mut job, gone } = running;
                job.failures += 1;
                let wait = job.backoff.get_or_insert_with(|| Backoff::new(*backoff)).next();
                tracing::debug!(topic = %job.record.topic, offset = %job.record.offset, %error, ?wait, "calling the handler again");
                self.delayed.push((Instant::now() + wait, Running { lane, job, gone }));
            }
            OnError::Stop | OnError::Retry { .. } => {
                let Record { topic, partition, offset, .. } = running.job.record.clone();
                self.give_back(running);
                return Err(Error::Handler { topic, partition, offset, source: error.into() });
            }
        }
        Ok(())
    }

    fn processed(&mut self, running: Running) {
        if let Some(acker) = &self.acker {
            acker.ack(&running.job.record);
        }
        self.buffered_bytes = self.buffered_bytes.saturating_sub(size_bytes(&running.job.record));
        self.schedule.done(running.lane);
    }

    /// A record that was begun, or could have been, is not processed.
    fn give_back(&mut self, running: Running) {
        self.abandon(&running.job.record, running.gone);
        self.schedule.done(running.lane);
    }

    fn abandon(&mut self, record: &Record, gone: bool) {
        self.buffered_bytes = self.buffered_bytes.saturating_sub(size_bytes(record));
        if let Some(acker) = &self.acker {
            acker.abandon(record);
        }
        if gone {
            return;
        }
        let first = self.left_over.entry((record.topic_id, record.partition)).or_insert((record.topic.clone(), record.offset));
        first.1 = first.1.min(record.offset);
    }

    /// What waited for its next attempt, and is due, is tried again.
    fn release_delayed(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.delayed).into_iter().partition(|(at, _)| *at <= now);
        self.delayed = later;
        let due: Vec<(Instant, Running)> = due;
        for (_, Running { lane, job, gone: _ }) in due {
            self.schedule.resume(lane, job);
        }
    }

    /// These partitions are not read any more: what is not begun of them is not processed here.
    fn let_go(&mut self, keys: &[Key]) {
        let is_gone = |record: &Record| keys.contains(&(record.topic_id, record.partition));
        for job in self.schedule.withdraw(|job| is_gone(&job.record)) {
            self.abandon(&job.record, false);
        }
        let (gone, stay) = std::mem::take(&mut self.delayed).into_iter().partition(|(_, delayed)| is_gone(&delayed.job.record));
        self.delayed = stay;
        let gone: Vec<(Instant, Running)> = gone;
        for (_, delayed) in gone {
            self.give_back(delayed);
        }
        for running in self.running.values_mut().filter(|running| is_gone(&running.job.record)) {
            running.gone = true;
        }
        // Where they are read next is for the group to say.
        for key in keys {
            self.left_over.remove(key);
        }
    }

    /// Lets the handlers that run finish; nothing else begins.
    pub(super) async fn drain(&mut self) -> Result<()> {
        for job in self.schedule.withdraw(|_| true) {
            self.abandon(&job.record, false);
        }
        for (_, delayed) in std::mem::take(&mut self.delayed) {
            self.give_back(delayed);
        }
        let mut first = Ok(());
        while let Some(ended) = self.tasks.join_next_with_id().await {
            first = first.and(self.finished(ended));
            for (_, delayed) in std::mem::take(&mut self.delayed) {
                self.give_back(delayed);
            }
        }
        first
    }

    /// Handlers that still run are cut short, and what is not processed is not processed here.
    fn cut_short(&mut self) {
        self.tasks.abort_all();
        for job in self.schedule.withdraw(|_| true) {
            self.abandon(&job.record, false);
        }
        for (_, delayed) in std::mem::take(&mut self.delayed) {
            self.give_back(delayed);
        }
        for (_, running) in std::mem::take(&mut self.running) {
            self.give_back(running);
        }
    }

    /// Puts the consumer before the first records that are not processed.
    fn rewind(&mut self, consumer: &mut Consumer) {
        for ((_, partition), (topic, offset)) in std::mem::take(&mut self.left_over) {
            if let Err(error) = consumer.seek(&topic, partition, offset) {
                tracing::debug!(%error, "the partition is not assigned any more");
            }
        }
    }
}

/// A run with its consumer, which it leaves before the first records that are not processed, also when nobody waits for its end.
pub(super) struct Bound<'a> {
    pub(super) run: Run,
    pub(super) consumer: &'a mut Consumer,
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.run.cut_short();
        if let Some(shared) = &self.consumer.group {
            // Going elsewhere forgets what was acknowledged. It goes its way without being waited for.
            drop(shared.tell(|state| state.commit_owed(Instant::now())));
        }
        self.run.rewind(self.consumer);
    }
}

fn size_bytes(record: &Record) -> usize {
    record.key.as_ref().map_or(0, Bytes::len) + record.value.as_ref().map_or(0, Bytes::len)
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

//! A consumer: every frame from the group's position on, and what comes later.

use std::io;
use std::sync::Arc;
use std::task::Poll;

use hermit_log::{LogError, Range};
use hermit_proto::session::AccessOperations;
use hermit_proto::v1::consumer_header;
use hermit_proto::{FramePrefix, GroupName, Offset, PREFIX_SIZE, PartitionId, TopicName};
use tokio::sync::oneshot;

use super::access::Guard;
use super::gather::{Fault, Gathering, is_large, next_room_bytes};
use super::outgoing::{Outgoing, Place};
use crate::broker::{Phase, reached};
use crate::error::BrokerError;
use crate::limits::{TURN_BYTES, V1_GATHER_BYTES};
use crate::partition::Partition;
use crate::server::Line;
use crate::server::connection::{Connection, End};
use crate::server::reader::{Reader, Step, Warmed};
use crate::server::sendfile::FileRange;
use crate::server::turn::Turn;
use crate::server::warmer::Awaits;
use crate::signal::Signal;

pub(in crate::server) async fn consume(
    connection: Connection<'_>,
    group: GroupName,
    topic: TopicName,
    partition: PartitionId,
) -> End {
    let mut phase = connection.broker.phase();
    let signal = Arc::new(Signal::new());
    let mut guard = match Guard::new(connection.broker, Some(group.as_str()), &topic, AccessOperations::CONSUME, &signal) {
        Ok(guard) => guard,
        Err(end) => return end,
    };
    let partition = tokio::select! {
        found = find(&connection, &topic, partition) => match found {
            Ok(found) => found,
            Err(error) => return error.into(),
        },
        end = connection.closed() => return end,
        end = not_allowed(&connection, &mut guard, &signal) => return end,
        () = reached(&mut phase, Phase::Draining) => return End::Stopping,
    };
    let from = match position(&connection, &group, &topic, &partition) {
        Ok(from) => from,
        Err(error) => return error.into(),
    };
    let reader = Reader::new(Arc::clone(&partition), from);
    let from = Place::at(from);
    let mut consumer = Consumer {
        connection,
        partition,
        reader,
        from,
        signal,
        guard,
        large: false,
        room_bytes: V1_GATHER_BYTES as u64,
        turn: Turn::of(TURN_BYTES),
    };
    let end = consumer.run().await;
    consumer.partition.progress().forget(&consumer.signal, 0);
    end
}

/// The partition; waits for a topic that is not there yet.
async fn find(connection: &Connection<'_>, topic: &TopicName, partition: PartitionId) -> Result<Arc<Partition>, BrokerError> {
    // Subscribed before the look, so that no appearance is missed.
    let mut appearances = connection.broker.registry().appearances();
    loop {
        match connection.broker.topic(topic) {
            Ok(topic) => return topic.partition(partition).cloned(),
            Err(_not_there_yet) => {
                if appearances.changed().await.is_err() {
                    return Err(BrokerError::ShuttingDown);
                }
            }
        }
    }
}

/// Resolves when the connection is not allowed any more.
async fn not_allowed(connection: &Connection<'_>, guard: &mut Guard, signal: &Signal) -> End {
    loop {
        if let Err(end) = guard.check(connection.broker) {
            return end;
        }
        signal.notified().await;
    }
}

/// Where the group goes on. A position whose history was lost is moved to where that history ended.
fn position(
    connection: &Connection<'_>,
    group: &GroupName,
    topic: &TopicName,
    partition: &Partition,
) -> Result<Offset, BrokerError> {
    let (bounds, lines) = (partition.bounds()?, connection.broker.lines());
    let Some(committed) = connection.broker.committed(group, partition.topic(), partition.id())? else {
        return Ok(bounds.log_start);
    };
    let mut from = committed.offset;
    if let Err(BrokerError::Diverged { end, .. }) = partition.check_epoch(from, committed.leader_epoch) {
        if let Line::Write { left_out } = lines.moved.line() {
            tracing::warn!(%group, %topic, partition = %partition.id(), position = %from, moved_to = %end, left_out, "records that the group had read were lost; its position was moved");
        }
        from = end;
    }
    if from > bounds.high_watermark {
        if let Line::Write { left_out } = lines.moved.line() {
            tracing::warn!(%group, %topic, partition = %partition.id(), position = %from, moved_to = %bounds.high_watermark, left_out, "the group's position lies beyond the end; it was moved");
        }
        from = bounds.high_watermark;
    }
    Ok(from.max(bounds.log_start))
}

impl Awaits for oneshot::Sender<Warmed> {
    fn is_wanted(&self) -> bool {
        !self.is_closed()
    }

    fn done(self: Box<Self>, warmed: Warmed) {
        // Nobody minds when the consumer is gone by then.
        drop(self.send(warmed));
    }
}

struct Consumer<'a> {
    connection: Connection<'a>,
    partition: Arc<Partition>,
    reader: Reader,
    /// What is to be sent next.
    from: Place,
    signal: Arc<Signal>,
    guard: Guard,
    /// Whether the last frame was a large one: the next is then expected to be, and only its prefix is read.
    large: bool,
    /// Bytes that the next gathering reads.
    room_bytes: u64,
    turn: Turn,
}

impl Consumer<'_> {
    async fn run(&mut self) -> End {
        let mut phase = self.connection.broker.phase();
        let mut out = Outgoing::default();
        loop {
            if *phase.borrow() > Phase::Running {
                return End::Stopping;
            }
            if let Err(end) = self.guard.check(self.connection.broker) {
                return end;
            }
            match self.next().await {
                Ok(Some(range)) => {
                    match self.send(&range, &mut out).await {
                        Ok(()) => self.advance(range.next_offset()),
                        Err(Fault::Ends(end)) => return end,
                        Err(Fault::Damaged) => match range.verify() {
                            // The log knows the damage now: reading on ends before it, and then tells of it.
                            Err(LogError::Corrupt { .. }) if self.from.sent_bytes == 0 => self.reader.seek(self.from.offset),
                            Err(error) => return BrokerError::Log(error).into(),
                            Ok(()) => return End::Refused("stored data cannot be read".into()),
                        },
                    }
                }
                Ok(None) => {
                    // At the end: nothing is kept but the cursor.
                    out = Outgoing::default();
                    let end = tokio::select! {
                        end = self.wait() => end,
                        end = self.connection.closed() => Some(end),
                        () = reached(&mut phase, Phase::Draining) => Some(End::Stopping),
                    };
                    if let Some(end) = end {
                        return end;
                    }
                }
                Err(error) => return error.into(),
            }
        }
    }

    /// The next range; damaged ones are passed over with a line in the log, as version 1 has no words for them.
    async fn next(&mut self) -> Result<Option<Range>, BrokerError> {
        loop {
            let found = match self.reader.step(TURN_BYTES) {
                Ok(Step::AtEnd) => return Ok(None),
                Ok(Step::Found(range)) => Ok(Some(range)),
                Ok(Step::Cold(cold)) => {
                    let (done, warmed) = oneshot::channel();
                    self.connection.broker.warmer().warm(cold, done);
                    self.reader.take(warmed.await.unwrap_or(Err(LogError::Closed)))
                }
                Err(error) => Err(error),
            };
            match found {
                Ok(Some(range)) => return Ok(Some(range)),
                Ok(None) => {}
                Err(BrokerError::Log(LogError::Corrupt { from, next })) => {
                    let (topic, partition) = (self.partition.topic(), self.partition.id());
                    if let Line::Write { left_out } = self.connection.broker.lines().passed_over.line() {
                        tracing::error!(peer = %self.connection.transport.peer, %topic, %partition, %from, %next, left_out, "a damaged range was passed over");
                    }
                    self.go_on_at(self.from.offset.max(next));
                }
                // Retention overtook the consumer.
                Err(BrokerError::Log(LogError::OutOfRange { log_start, .. })) if self.from.offset < log_start => {
                    self.go_on_at(log_start);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn go_on_at(&mut self, offset: Offset) {
        self.from = Place::at(offset);
        self.reader.seek(offset);
    }

    /// Everything before `offset` was sent.
    fn advance(&mut self, offset: Offset) {
        if offset > self.from.offset {
            self.from = Place::at(offset);
        }
    }

    /// Waits for more, or for something else to look at. `Some` where there will be none.
    async fn wait(&self) -> Option<End> {
        let until = Offset(self.reader.next().0.saturating_add(1));
        match self.partition.progress().wait(until, &self.signal, 0) {
            Poll::Ready(Ok(())) => {}
            // A log that takes no more writes can still be read: the consumer waits on, for the restart.
            Poll::Pending | Poll::Ready(Err(BrokerError::Log(_))) => self.signal.notified().await,
            Poll::Ready(Err(error)) => return Some(error.into()),
        }
        None
    }

    async fn send(&mut self, range: &Range, out: &mut Outgoing) -> Result<(), Fault> {
        let (mut at, end) = (range.position(), range.position().saturating_add(range.len_bytes()));
        while at < end {
            if self.large {
                let prefix = self.read_prefix(range, at)?;
                if let Some(header) = consumer_header(&prefix).filter(|_| is_large(&prefix)) {
                    at = self.send_large(range, at, &prefix, &header, out).await?;
                    continue;
                }
            }
            let gathered = self.gathering(range, at).run(out)?;
            self.connection.write_all(out.as_bytes()).await?;
            self.turn.moved(out.total_bytes());
            self.turn.pass().await;
            self.from = gathered.next;
            if gathered.is_damaged {
                return Err(Fault::Damaged);
            }
            self.large = gathered.before_large;
            self.room_bytes = next_room_bytes(gathered.at.saturating_sub(at), gathered.before_large);
            at = gathered.at;
        }
        Ok(())
    }

    fn gathering<'a>(&'a self, range: &'a Range, at: u64) -> Gathering<'a> {
        let max_set_bytes = usize::try_from(self.connection.broker.limits().max_frame_bytes).unwrap_or(usize::MAX);
        let room_bytes = self.room_bytes;
        Gathering {
            range,
            at,
            partition: &self.partition,
            next: self.from,
            max_set_bytes,
            room_bytes,
            stream: &self.connection.stream,
            lines: &self.connection.broker.lines().passed_over,
        }
    }

    fn read_prefix(&self, range: &Range, at: u64) -> Result<FramePrefix, Fault> {
        let mut bytes = [0; PREFIX_SIZE];
        range.file().read_exact_at(&mut bytes, at)?;
        FramePrefix::verify(&bytes, &self.partition.salt()).map_err(|_not_what_was_written| Fault::Damaged)
    }

    /// The header, then key and payload straight from the file, where they lie side by side.
    async fn send_large(
        &mut self,
        range: &Range,
        at: u64,
        prefix: &FramePrefix,
        header: &[u8],
        out: &mut Outgoing,
    ) -> Result<u64, Fault> {
        let stream = &self.connection.stream;
        out.begin(self.from);
        let mut unsent = header;
        while !unsent.is_empty() {
            match stream.try_write_more(unsent) {
                Ok(sent) => unsent = unsent.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    out.release();
                    self.connection.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let end = at.saturating_add(prefix.frame_bytes());
        let position = at.saturating_add(PREFIX_SIZE as u64);
        let mut body = FileRange { file: Arc::clone(range.file()), position, left_bytes: prefix.header.body_bytes() };
        while !body.is_done() {
            match body.try_send(stream) {
                Ok(sent) => {
                    self.turn.moved(sent);
                    self.turn.pass().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    out.release();
                    self.connection.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.advance(prefix.next_offset());
        Ok(end)
    }
}

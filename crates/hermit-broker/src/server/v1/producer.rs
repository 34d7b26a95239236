//! A producer: frames in, nine bytes out for each, in order, once it is as durable as the topic promises.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf as _, BytesMut};
use hermit_log::Batch;
use hermit_proto::session::AccessOperations;
use hermit_proto::{PartitionId, TopicName};
use tokio::time::Instant;

use super::access::{Guard, check_create};
use super::incoming::Incoming;
use super::owed::Owed;
use crate::address::PeerAddress;
use crate::broker::{Broker, Phase, reached};
use crate::error::{BrokerError, status_of};
use crate::hooks::Client;
use crate::limits::READ_TURN_BYTES;
use crate::memory::Share;
use crate::partition::Partition;
use crate::server::connection::{Connection, End, STALLED_AT_STOP};
use crate::server::turn::Turn;
use crate::signal::Signal;

/// Unsent answers beyond this stop the reading: the peer does not read them.
const MAX_UNSENT_BYTES: usize = 64 << 10;
/// Buffers of idle connections are not kept beyond this.
const KEEP_BYTES: usize = 4 << 10;
/// Room for a batch that a thread keeps for the next one: what a read of small frames becomes, and some large frames.
const KEEP_BATCH_BYTES: usize = 1 << 20;

thread_local! {
    /// Where frames become a batch. An append waits for nothing, so that all connections of a thread use the same room in turn.
    static BATCH: RefCell<Batch> = RefCell::default();
}

pub(in crate::server) async fn produce(
    connection: Connection<'_>,
    already_read: BytesMut,
    topic: TopicName,
    partition: PartitionId,
    address: PeerAddress,
) -> End {
    let signal = Arc::new(Signal::new());
    let guard = match Guard::new(connection.broker, None, &topic, AccessOperations::PRODUCE, &signal) {
        Ok(guard) => guard,
        Err(end) => return end,
    };
    let partition = match find(connection.broker, topic, partition).await {
        Ok(found) => found,
        Err(end) => return end,
    };
    let incoming = Incoming::new(connection.broker.limits().frame_limits(), &already_read);
    drop(already_read);
    let mut producer = Producer {
        // While a frame is appended it is in the batch as well.
        share: connection.broker.budget().share(address, 2),
        address: connection.transport.peer.to_string(),
        connection,
        partition,
        incoming,
        owed: Owed::default(),
        unsent: BytesMut::new(),
        signal,
        guard,
        last_read: Instant::now(),
        deaf_at: Instant::now(),
        sent_at: Instant::now(),
        more: true,
        turn: Turn::of(READ_TURN_BYTES),
        ending: None,
    };
    let end = producer.run().await;
    producer.partition.progress().forget(&producer.signal, 0);
    end
}

/// The partition. A topic that is not there is created, which may take its time; others do not wait for that.
async fn find(broker: &Broker, name: TopicName, partition: PartitionId) -> Result<Arc<Partition>, End> {
    let topic = match broker.topic(&name) {
        Ok(topic) if !name.is_internal() => topic,
        _ => {
            if broker.live().create_topics {
                check_create(broker, &name)?;
            }
            let broker = broker.clone();
            let created = tokio::task::spawn_blocking(move || broker.topic_for_producer(&name, 1)).await;
            created.map_err(|_panicked| End::Refused("a fault in the broker".into()))??
        }
    };
    let partition = topic.partition(partition)?;
    partition.log()?;
    Ok(Arc::clone(partition))
}

struct Producer<'a> {
    connection: Connection<'a>,
    /// Where the peer connects from.
    address: String,
    partition: Arc<Partition>,
    incoming: Incoming,
    owed: Owed,
    unsent: BytesMut,
    signal: Arc<Signal>,
    guard: Guard,
    share: Share,
    last_read: Instant,
    /// When the broker last was not reading: until then silence was its own.
    deaf_at: Instant,
    /// When the peer last took an answer, since nothing more is read.
    sent_at: Instant,
    /// Whether whole frames may be in the buffer.
    more: bool,
    turn: Turn,
    /// Why nothing more is read. What is owed is answered first.
    ending: Option<End>,
}

impl Producer<'_> {
    async fn run(&mut self) -> End {
        let mut phase = self.connection.broker.phase();
        loop {
            if let Err(end) = self.advance() {
                return end;
            }
            self.turn.pass().await;
            if self.owed.is_empty() && self.unsent.is_empty() && !self.more {
                if let Some(end) = self.ending.take() {
                    return end;
                }
                self.rest();
            }
            let may_read = self.may_read();
            let permit = self.share.permit().filter(|_| may_read);
            let is_deaf = permit.is_none();
            let stream = &self.connection.stream;
            let deadline = self.last_read.max(self.deaf_at) + self.connection.broker.limits().frame_timeout;
            let in_frame = !is_deaf && !self.incoming.deframer.is_between_units();
            let turn_ends_at = self.share.turn_ends_at();
            let watches = self.connection.broker.access().is_enabled();
            tokio::select! {
                ready = stream.readable(), if !is_deaf => {
                    if let Err(error) = ready { return error.into(); }
                    if let Err(end) = self.read(permit.unwrap_or_default()) { return end; }
                }
                () = self.share.changed(), if self.share.is_waiting() => {}
                () = tokio::time::sleep_until(turn_ends_at.unwrap_or(deadline)), if turn_ends_at.is_some() => {
                    if !self.share.turn_ends(!self.unsent.is_empty()) {
                        return End::Timeout("large frame, while others waited for its room,");
                    }
                }
                ready = stream.writable(), if !self.unsent.is_empty() => {
                    if let Err(error) = ready { return error.into(); }
                }
                () = self.signal.notified(), if watches || !self.owed.is_empty() => {}
                () = tokio::time::sleep_until(deadline), if in_frame => return End::Timeout("rest of a frame"),
                () = reached(&mut phase, Phase::Draining), if self.ending.is_none() => {
                    self.ending = Some(End::Stopping);
                    self.sent_at = Instant::now();
                }
                // Who takes nothing does not hold up a stop.
                () = tokio::time::sleep_until(self.sent_at + STALLED_AT_STOP), if self.is_held_up() => return End::Stopping,
            }
            if is_deaf {
                self.deaf_at = Instant::now();
            }
        }
    }

    fn is_held_up(&self) -> bool {
        matches!(self.ending, Some(End::Stopping)) && !self.unsent.is_empty()
    }

    fn may_read(&self) -> bool {
        self.ending.is_none() && !self.more && self.unsent.len() < MAX_UNSENT_BYTES && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.owed.len() >= self.connection.broker.limits().max_pending_answers
    }

    /// Everything that can be done without waiting.
    fn advance(&mut self) -> Result<(), End> {
        self.guard.check(self.connection.broker)?;
        loop {
            while self.more && self.unsent.len() < MAX_UNSENT_BYTES && !self.is_full() {
                self.append();
            }
            self.settle()?;
            self.send()?;
            if !self.more || self.is_full() || self.unsent.len() >= MAX_UNSENT_BYTES {
                return Ok(());
            }
        }
    }

    /// Appends what has been read, in one batch.
    fn append(&mut self) {
        let mut batch = BATCH.take();
        self.append_with(&mut batch);
        if batch.room_bytes() <= KEEP_BATCH_BYTES {
            batch.clear();
            BATCH.set(batch);
        }
    }

    fn append_with(&mut self, batch: &mut Batch) {
        let most = self.connection.broker.limits().max_pending_answers.saturating_sub(self.owed.len());
        // As it is now: the topic may have been altered since the last frames.
        let brought = self.incoming.gather(most, self.partition.is_compacted(), batch);
        self.more = brought.more;
        self.count();
        if !batch.is_empty() {
            let broker = self.connection.broker;
            let client = Client { name: "", address: &self.address, user: super::access::user(broker) };
            let appended = broker.append_from(&self.partition, batch, Some(client));
            match appended.inspect_err(|error| broker.counters().refused(status_of(error))) {
                Ok(_in_the_log) => {
                    batch.frames().iter().for_each(|frame| self.owed.stored(frame.offset, frame.prefix.header.record_count));
                }
                Err(error) if error.is_retryable() && !matches!(error, BrokerError::ShuttingDown) => {
                    tracing::debug!(peer = %self.connection.transport.peer, error = %crate::error::line(&error), "frames were refused for now");
                    self.owed.refused(batch.frames().len());
                }
                Err(error) => {
                    self.more = false;
                    self.ending = Some(error.into());
                    return;
                }
            }
        }
        if let Some(reason) = brought.refused {
            self.more = false;
            self.ending = Some(End::Refused(reason));
        }
    }

    /// Turns what is owed into answers, as far as the high watermark has come.
    fn settle(&mut self) -> Result<(), End> {
        let progress = self.partition.progress();
        while !self.owed.is_empty() {
            if let Some(until) = self.owed.until() {
                match progress.wait(until, &self.signal, 0) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Err(error)) => return Err(error.into()),
                    Poll::Ready(Ok(())) => {}
                }
            }
            self.owed.settle(progress.high_watermark(), &mut self.unsent);
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), End> {
        while !self.unsent.is_empty() {
            match self.connection.stream.try_write(&self.unsent) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(sent) => {
                    self.unsent.advance(sent);
                    if self.ending.is_some() {
                        self.sent_at = Instant::now();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read(&mut self, most: usize) -> Result<(), End> {
        match self.connection.stream.try_read(self.incoming.deframer.buffer(), most) {
            // The peer may still read its answers.
            Ok(0) if self.incoming.deframer.is_between_units() => self.ending = Some(End::Peer),
            Ok(0) => self.ending = Some(End::Refused("the stream ended within a frame".into())),
            Ok(read) => {
                self.turn.moved(read as u64);
                self.last_read = Instant::now();
                self.more = true;
                self.count();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.turn.begin();
                if self.connection.stream.take_received() {
                    self.last_read = Instant::now();
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Tells the budget what is in the buffer.
    fn count(&mut self) {
        let deframer = &self.incoming.deframer;
        self.share.update(deframer.buffered_bytes() as u64, deframer.announced_bytes());
    }

    /// Nothing is under way: an idle connection keeps no buffers.
    fn rest(&mut self) {
        self.incoming.deframer.release();
        if self.unsent.capacity() > KEEP_BYTES {
            self.unsent = BytesMut::new();
        }
        self.owed.release();
    }
}

//! Sending records.

mod batch;
mod config;
mod delivery;
mod driver;
mod lane;
mod record;
mod slot;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

pub use config::{Keyless, ProducerBuilder};
pub use delivery::Delivery;
pub use record::{ProducerRecord, RecordMetadata};

use self::driver::{Command, Driver};
use self::slot::{GatherConfig, NotTaken, TopicSlots};
use crate::admin::Admin;
use crate::clock::wall_clock_ns;
use crate::error::{Error, RecordFault, Result};

/// Sends records in batches, and tells of each where it was stored.
///
/// Records to one partition are stored in the order in which they were sent, each once: a batch that was answered while the
/// connection broke is sent again under the same sequences, which the broker recognises. Where that is not possible any
/// more — the broker forgot the producer in between — the record fails with [`Error::OutcomeUnknown`] rather than
/// risk a double.
///
/// Cheap to clone; all clones share buffers and connection. Close it, or what is still gathered is sent in the background
/// for as long as the runtime lives.
///
/// ```no_run
/// use hermit_client::{Client, ProducerRecord};
///
/// # async fn example() -> hermit_client::Result<()> {
/// let client = Client::connect("127.0.0.1:9092").await?;
/// let producer = client.producer().build()?;
///
/// // Hand over many, wait for the answers later …
/// let first = producer.enqueue("flights", ProducerRecord::new("on time").key("UA")).await?;
/// let second = producer.enqueue("flights", ProducerRecord::new("late").key("DL")).await?;
/// println!("{:?} {:?}", first.await?.offset, second.await?.offset);
///
/// // … or one by one.
/// producer.send("flights", ProducerRecord::new("cancelled").key("UA")).await?;
/// producer.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// Dropped with the last producer, which tells the driver to finish.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    admin: Admin,
    settings: ProducerBuilder,
    topics: RwLock<HashMap<Box<str>, Arc<TopicSlots>>>,
    /// One look-up at a time: a thousand records for a new topic ask once.
    lookup: tokio::sync::Mutex<()>,
    commands: mpsc::UnboundedSender<Command>,
}

/// What producer and driver both hold.
#[derive(Debug)]
struct Shared {
    /// One permit for each byte that may be buffered.
    buffer: Semaphore,
    /// Callers that wait for buffer space: batches must not linger then.
    waiting: AtomicUsize,
    next_slot: AtomicUsize,
    /// The first failure since the last flush.
    failure: Mutex<Option<Error>>,
}

impl Shared {
    fn note_failure(&self, error: &Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
    }

    fn take_failure(&self) -> Result<()> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// Counts a caller that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Producer {
    fn start(settings: ProducerBuilder) -> Self {
        let shared = Arc::new(Shared {
            buffer: Semaphore::new(settings.max_buffered_bytes),
            waiting: AtomicUsize::new(0),
            next_slot: AtomicUsize::new(0),
            failure: Mutex::new(None),
        });
        let (commands, received) = mpsc::unbounded_channel();
        let driver = Driver::new(settings.link.clone(), settings.acks, settings.lane_config(), shared.clone(), received);
        tokio::spawn(driver.run());
        let handle = Handle {
            shared,
            admin: Admin::new(settings.link.clone()),
            settings,
            topics: RwLock::default(),
            lookup: tokio::sync::Mutex::default(),
            commands,
        };
        Self { handle: Arc::new(handle) }
    }

    /// Sends a record and waits until it is stored.
    ///
    /// # Errors
    /// As [`Producer::enqueue`], and why the record could not be stored: [`Error::Refused`], [`Error::DeliveryTimeout`],
    /// [`Error::OutcomeUnknown`], and with [`Acks::None`](crate::Acks::None) connection errors.
    pub async fn send(&self, topic: &str, record: ProducerRecord<'_>) -> Result<RecordMetadata> {
        self.enqueue(topic, record).await?.await
    }

    /// Copies a record into its batch, waiting for room in the buffer if need be; the answer comes with the [`Delivery`].
    ///
    /// # Errors
    /// [`Error::InvalidRecord`] and [`Error::UnknownPartition`] for a record that cannot be sent; [`Error::Name`],
    /// [`Error::UnknownTopic`], [`Error::Refused`] and [`Error::Timeout`] where the topic cannot be looked up or created; [`Error::Closed`].
    pub async fn enqueue(&self, topic: &str, record: ProducerRecord<'_>) -> Result<Delivery> {
        // A topic that was deleted and created again has another id: it is looked up once more.
        for _ in 0..2 {
            let slots = match self.known(topic) {
                Some(slots) => slots,
                None => self.look_up(topic).await?,
            };
            if let Some(delivery) = self.enqueue_into(&slots, &record).await? {
                return Ok(delivery);
            }
        }
        Err(Error::UnknownTopic { topic: topic.into() })
    }

    /// `None` where the topic has to be looked up again.
    async fn enqueue_into(&self, slots: &TopicSlots, record: &ProducerRecord<'_>) -> Result<Option<Delivery>> {
        let cost = slots.check(record)?;
        let slot = slots.choose(record)?;
        self.reserve(slots, cost).await?;
        let timestamp = record.timestamp.unwrap_or_else(wall_clock_ns);
        let appended = match slot.append(record, slots.compacted, timestamp, cost, Instant::now()) {
            Ok(appended) => appended,
            Err(not_taken) => {
                self.handle.shared.buffer.add_permits(cost);
                return match not_taken {
                    NotTaken::TopicGone => Ok(None),
                    NotTaken::Closed => Err(Error::Closed { what: "producer" }),
                    NotTaken::Invalid(error) => Err(error),
                };
            }
        };
        if appended.announce
            && let Err(closed) = self.command(Command::Ready(slot.clone()))
        {
            slot.fail(&closed);
            return Err(closed);
        }
        Ok(Some(appended.delivery))
    }

    /// Takes buffer space; it is given back when the record's batch is done.
    async fn reserve(&self, slots: &TopicSlots, cost: usize) -> Result<()> {
        let shared = &self.handle.shared;
        let limit_bytes = self.handle.settings.max_buffered_bytes;
        let permits = match u32::try_from(cost) {
            Ok(permits) if cost <= limit_bytes => permits,
            _ => {
                let source = RecordFault::TooLarge { size_bytes: cost as u64, limit_bytes: limit_bytes as u64 };
                return Err(Error::InvalidRecord { topic: slots.name.clone(), source });
            }
        };
        let closed = |_closed| Error::Closed { what: "producer" };
        let permit = if let Ok(permit) = shared.buffer.try_acquire_many(permits) {
            permit
        } else {
            let _waiting = Waiting::new(&shared.waiting);
            self.command(Command::Urge)?;
            shared.buffer.acquire_many(permits).await.map_err(closed)?
        };
        permit.forget();
        Ok(())
    }

    fn known(&self, topic: &str) -> Option<Arc<TopicSlots>> {
        let topics = self.handle.topics.read().unwrap_or_else(PoisonError::into_inner);
        topics.get(topic).filter(|slots| !slots.is_gone()).cloned()
    }

    async fn look_up(&self, topic: &str) -> Result<Arc<TopicSlots>> {
        let handle = &*self.handle;
        let _one_at_a_time = handle.lookup.lock().await;
        if let Some(slots) = self.known(topic) {
            return Ok(slots);
        }
        let settings = &handle.settings;
        let found = handle.admin.metadata(topic, settings.create_topics).await?;
        let limits = settings.link.session(settings.link.deadline()).await?.limits();
        let config = GatherConfig {
            codec: settings.codec,
            // A set that is full must fit a frame, whatever the setting says.
            batch_bytes: settings.batch_bytes.min(limits.max_frame_bytes as usize).min(limits.max_request_bytes as usize / 2),
            linger: settings.linger,
            delivery_timeout: settings.delivery_timeout,
            keyless: settings.keyless,
            limits,
        };
        let partitions = u32::try_from(found.partitions.len()).unwrap_or(u32::MAX);
        let first_number = handle.shared.next_slot.fetch_add(found.partitions.len(), Ordering::Relaxed);
        let compacted = found.config.compaction == Some(true);
        let slots = Arc::new(TopicSlots::new(topic.into(), found.topic, compacted, partitions, first_number, config));
        let mut topics = handle.topics.write().unwrap_or_else(PoisonError::into_inner);
        topics.insert(topic.into(), slots.clone());
        Ok(slots)
    }

    fn command(&self, command: Command) -> Result<()> {
        self.handle.commands.send(command).map_err(|_driver_gone| Error::Closed { what: "producer" })
    }

    /// Sends what is gathered, and waits until every record enqueued before has its answer.
    ///
    /// # Errors
    /// The first failure of any record since the last flush, whether or not its [`Delivery`] told of it.
    pub async fn flush(&self) -> Result<()> {
        let (reply, batches) = oneshot::channel();
        self.command(Command::Flush(reply))?;
        let batches = batches.await.map_err(|_driver_gone| Error::Closed { what: "producer" })?;
        for batch in batches {
            if let Err(error) = batch.await {
                tracing::debug!(%error, "a batch failed");
            }
        }
        self.handle.shared.take_failure()
    }

    /// The first failure of any record since the last flush, if there is one already. The next flush reports it still.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.handle.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Flushes, and takes no more records, from no clone.
    ///
    /// # Errors
    /// As [`Producer::flush`].
    pub async fn close(&self) -> Result<()> {
        self.handle.shared.buffer.close();
        let flushed = self.flush().await;
        self.command(Command::Close)?;
        flushed
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The driver finishes what it has; if it is gone, there is nothing.
        drop(self.commands.send(Command::Close));
    }
}

//! Sending records.

mod batch;
mod config;
mod delivery;
mod driver;
mod enqueue;
mod identity;
mod lane;
mod lookup;
mod record;
mod room;
mod slot;
mod to_topic;
mod topic;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

pub use config::{Keyless, ProducerBuilder};
pub use delivery::{BatchDelivery, Delivery};
pub use identity::ProducerIdentity;
pub use record::{BatchMetadata, BatchOutcome, ProducerRecord, RecordMetadata};
pub use to_topic::TopicProducer;

use self::driver::{Command, Driver};
use self::lookup::Topics;
use self::room::Room;
use self::slot::Ahead;
use crate::admin::Admin;
use crate::error::{Error, Result};

/// Sends records in batches, and tells of each where it was stored.
///
/// Records to one partition are stored in the order in which they were sent, each once: a batch that was answered while the
/// connection broke is sent again under the same sequences, which the broker recognises. Where that is not possible any
/// more — the broker forgot the producer in between — the record fails with [`Error::OutcomeUnknown`] rather than
/// risk a double, and what was not sent yet goes on under a new identity.
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
/// // … or one by one …
/// producer.send("flights", ProducerRecord::new("cancelled").key("UA")).await?;
///
/// // … or many at once, which is the fastest.
/// let records: Vec<_> = ["a", "b", "c"].iter().map(|value| ProducerRecord::new(*value)).collect();
/// for stored in producer.send_batch("flights", &records).await? {
///     println!("{} records from offset {:?} of partition {}", stored.records, stored.first_offset, stored.partition);
/// }
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
    topics: RwLock<Topics>,
    /// One look-up at a time: a thousand records for a new topic ask once.
    lookup: tokio::sync::Mutex<()>,
    commands: mpsc::UnboundedSender<Command>,
    /// For look-ups in the background, also where a record is handed over outside of the runtime.
    runtime: runtime::Handle,
}

/// What producer and driver both hold.
#[derive(Debug)]
struct Shared {
    buffer: Room,
    next_slot: AtomicUsize,
    ahead: Arc<Ahead>,
    /// Connections so far: what is known of topics is asked for again after each.
    sessions: AtomicUsize,
    /// The first failure since the last flush.
    failure: Mutex<Option<Error>>,
    /// Why nothing is taken any more, if it is not that the producer was closed.
    fatal: Mutex<Option<Error>>,
}

impl Shared {
    fn note_failure(&self, error: &Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
    }

    /// Nothing can be sent any more.
    fn note_fatal(&self, error: &Error) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
    }

    fn is_fatal(&self) -> bool {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Why nothing is taken any more.
    fn closed(&self) -> Error {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or(Error::Closed { what: "producer" })
    }

    fn take_failure(&self) -> Result<()> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

impl Producer {
    fn start(settings: ProducerBuilder) -> Self {
        let shared = Arc::new(Shared {
            buffer: Room::new(settings.max_buffered_bytes),
            next_slot: AtomicUsize::new(0),
            ahead: Arc::new(Ahead::new(settings.max_buffered_bytes / 4)),
            sessions: AtomicUsize::new(0),
            failure: Mutex::new(None),
            fatal: Mutex::new(None),
        });
        let (commands, received) = mpsc::unbounded_channel();
        let driver = Driver::new(&settings, shared.clone(), received);
        tokio::spawn(driver.run());
        let handle = Handle {
            shared,
            admin: Admin::new(settings.link.clone()),
            settings,
            topics: RwLock::default(),
            lookup: tokio::sync::Mutex::default(),
            commands,
            runtime: runtime::Handle::current(),
        };
        Self { handle: Arc::new(handle) }
    }

    fn command(&self, command: Command) -> Result<()> {
        self.handle.commands.send(command).map_err(|_driver_gone| self.handle.shared.closed())
    }

    /// Sends what is gathered, and waits until every record enqueued before has its answer.
    ///
    /// # Errors
    /// The first failure of any record since the last flush, whether or not its [`Delivery`] told of it.
    pub async fn flush(&self) -> Result<()> {
        let (reply, batches) = oneshot::channel();
        self.command(Command::Flush(reply))?;
        let batches = batches.await.map_err(|_driver_gone| self.handle.shared.closed())?;
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

    /// Who this producer is to the broker; asks for an identity where it has none yet. To be kept, so that the next incarnation can
    /// [`resume`](ProducerBuilder::resume).
    ///
    /// The epoch rises where the producer had to begin anew — the broker forgot it, or records failed —; it stays below
    /// what the next incarnation gets. Only after 63 times, or where the broker gives no more epochs, is it another id, which a `resume` of this one does not
    /// fence: look again from time to time.
    ///
    /// # Errors
    /// [`Error::Config`] where the producer is not idempotent, or resumes an identity that the broker never gave out; [`Error::Refused`]; [`Error::Timeout`]; [`Error::Closed`].
    pub async fn identity(&self) -> Result<ProducerIdentity> {
        let (reply, identity) = oneshot::channel();
        self.command(Command::Identity(reply))?;
        identity.await.map_err(|_driver_gone| self.handle.shared.closed())?
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

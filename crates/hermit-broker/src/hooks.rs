//! What an embedder adds to the broker: a say before records are appended, and news of what happens.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hermit_log::Batch;
use hermit_proto::{PartitionId, TopicId, TopicName};

use crate::events::Event;
use crate::server::{Line, LineGate};

/// Called by the broker, on its own threads: where a connection's request is being served, that is the thread that serves other connections as well, so
/// that each call should take microseconds. Both may call the broker. A panic in one is logged, and ends nothing: in
/// [`Hooks::before_append`] it counts as a refusal.
///
/// ```
/// use hermit_broker::{AppendContext, Hooks, Rejection, log::Batch};
///
/// /// Takes no record larger than a KiB for topics whose names begin with `small.`.
/// #[derive(Debug)]
/// struct Small;
///
/// impl Hooks for Small {
///     fn before_append(&self, context: &AppendContext<'_>, batch: &Batch) -> Result<(), Rejection> {
///         let large = batch.frames().iter().any(|frame| frame.size() > 1024);
///         if large && context.topic.as_str().starts_with("small.") {
///             return Err(Rejection::new("records of this topic have 1 KiB at most"));
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Hooks: fmt::Debug + Send + Sync + 'static {
    /// Whether a batch that a client sent, over either protocol or in process, may be appended: all of it, or nothing. Called once the bytes were
    /// checked, and outside the partition's lock: batches of several producers may come at once. A retry of an idempotent producer comes again.
    ///
    /// # Errors
    /// A version-2 client is answered with status `Rejected` and the message; a version-1 connection is closed, and the message logged.
    fn before_append(&self, context: &AppendContext<'_>, batch: &Batch) -> Result<(), Rejection> {
        let _unused = (context, batch);
        Ok(())
    }

    /// Something has happened. One call at a time, in the order of what happened, soon after it did: failures of a disk, and what happens to groups, within a second. Events that
    /// come while 10,000 wait are dropped, and their number is logged.
    fn on_event(&self, event: &Event) {
        let _unused = event;
    }
}

/// Where a batch is to be appended, and who sent it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AppendContext<'a> {
    /// The topic's name.
    pub topic: &'a TopicName,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// Who sent it; `None`: this process.
    pub client: Option<Client<'a>>,
}

/// Who sent something.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Client<'a> {
    /// What it calls itself; empty where it did not say, as with version 1. Over HTTP, its `User-Agent`.
    pub name: &'a str,
    /// Address and port that it connects from.
    pub address: &'a str,
    /// The user as whom it acts; empty where nobody logs in.
    pub user: &'a str,
}

/// Why a batch is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    message: String,
}

impl Rejection {
    /// A refusal with a message for whoever reads the client's log. What is beyond 4 KiB is cut.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// As [`Hooks::before_append`]; a panic is a refusal.
pub(crate) fn before_append(
    hooks: &dyn Hooks,
    gate: &LineGate,
    context: &AppendContext<'_>,
    batch: &Batch,
) -> Result<(), Rejection> {
    // Nothing of the broker's is changed half-way by a hook that panics: it gets shared references, and holds no lock of the broker.
    catch_unwind(AssertUnwindSafe(|| hooks.before_append(context, batch))).unwrap_or_else(|_panic| {
        if let Line::Write { left_out } = gate.line() {
            tracing::error!(topic = %context.topic, left_out, "the hook before appends panicked: the records are refused");
        }
        Err(Rejection::new("a rule of this broker failed; its log says more"))
    })
}

/// As [`Hooks::on_event`], with nothing to fear.
pub(crate) fn on_event(hooks: &dyn Hooks, gate: &LineGate, event: &Event) {
    if catch_unwind(AssertUnwindSafe(|| hooks.on_event(event))).is_err()
        && let Line::Write { left_out } = gate.line()
    {
        tracing::error!(?event, left_out, "the hook for events panicked");
    }
}

//! Several handlers at a time, with the order of each key kept.

mod run;
mod schedule;

use std::fmt;

use super::{AutoCommit, Consumer, Record};
use crate::backoff::BackoffConfig;
use crate::error::{Error, Result};

use self::run::{Bound, Run};

/// What a handler returns when it fails: anything that is, or can be made, an error.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// Called with a record and why its handler failed.
type Skipped = Box<dyn FnMut(&Record, &HandlerError) + Send>;

/// What becomes of a record whose handler failed.
enum OnError {
    Stop,
    Retry { backoff: BackoffConfig, attempts: u32 },
    Skip(Skipped),
}

/// How [`Consumer::process_parallel`] works.
pub struct Parallel {
    workers: usize,
    max_buffered: usize,
    max_buffered_bytes: usize,
    max_ahead: usize,
    keyless_in_order: bool,
    on_error: OnError,
}

impl fmt::Debug for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, max_buffered, max_buffered_bytes, max_ahead, keyless_in_order, on_error: _ } = self;
        f.debug_struct("Parallel")
            .field("workers", workers)
            .field("max_buffered", max_buffered)
            .field("max_buffered_bytes", max_buffered_bytes)
            .field("max_ahead", max_ahead)
            .field("keyless_in_order", keyless_in_order)
            .finish_non_exhaustive()
    }
}

impl Parallel {
    /// With so many handlers at a time, at least 1.
    #[must_use]
    pub const fn new(workers: usize) -> Self {
        Self {
            workers,
            max_buffered: if workers > 256 { workers * 4 } else { 1024 },
            max_buffered_bytes: 64 << 20,
            max_ahead: 1 << 20,
            keyless_in_order: false,
            on_error: OnError::Stop,
        }
    }

    /// Records that may be taken and not be processed, those in handlers included. Default 1024, or four for each worker. More lets handlers
    /// work on while many records of one key wait for each other.
    #[must_use]
    pub const fn max_buffered(mut self, records: usize) -> Self {
        self.max_buffered = records;
        self
    }

    /// Bytes of keys and values of these. Default 64 MiB; one record more is taken.
    #[must_use]
    pub const fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.max_buffered_bytes = bytes;
        self
    }

    /// Records of one partition that may be taken from the first one on that is not processed; no others are taken until it is. Each takes about 40
    /// bytes, and all of them come again after a crash. Default 1,048,576; up to 1024 more can be taken. Of use for consumers with a group.
    #[must_use]
    pub const fn max_ahead(mut self, records: usize) -> Self {
        self.max_ahead = records;
        self
    }

    /// Keeps records without a key in order too, as if all of a partition had one. Default `false`: they have no order among themselves.
    #[must_use]
    pub const fn keyless_in_order(mut self, keep: bool) -> Self {
        self.keyless_in_order = keep;
        self
    }

    /// When a handler fails, the others are let finish, and [`Error::Handler`] is returned. The default.
    #[must_use]
    pub fn stop_on_error(mut self) -> Self {
        self.on_error = OnError::Stop;
        self
    }

    /// When a handler fails, it is called again with the same record after a wait, `attempts` times at most before it is as
    /// with [`Parallel::stop_on_error`]. Records of the same key wait; others go on.
    #[must_use]
    pub fn retry_on_error(mut self, attempts: u32, backoff: BackoffConfig) -> Self {
        self.on_error = OnError::Retry { backoff, attempts };
        self
    }

    /// When a handler fails, the record is told to `skipped` and counts as processed.
    #[must_use]
    pub fn skip_on_error(mut self, skipped: impl FnMut(&Record, &HandlerError) + Send + 'static) -> Self {
        self.on_error = OnError::Skip(Box::new(skipped));
        self
    }

    fn check(&self) -> Result<()> {
        let above = [
            ("workers", self.workers),
            ("max_buffered", self.max_buffered),
            ("max_buffered_bytes", self.max_buffered_bytes),
            ("max_ahead", self.max_ahead),
        ];
        match above.into_iter().find(|(_, value)| *value == 0) {
            Some((setting, _)) => Err(Error::Config { setting, problem: "must be above 0".to_owned() }),
            None => Ok(()),
        }
    }
}

impl Consumer {
    /// Processes records with several handlers at a time, until `shutdown` is ready or nothing more can come.
    ///
    /// Records of one key of one partition are processed one after the other, in their order; an empty key is a key. Records without a key have no
    /// order, unless [`Parallel::keyless_in_order`] says so. Committed, for a consumer with a group, is the longest run of records of each
    /// partition that all are processed: from here on the consumer works as with [`AutoCommit::Acknowledged`].
    ///
    /// Handlers run as tasks of the runtime. When a partition is revoked no handler begins on it any more; those that run are waited for, and what
    /// they did is committed, before another member gets it. [`Error::Fenced`], [`Error::ProcessingTimeout`] and what time cures
    /// are logged, not returned: processing goes on.
    ///
    /// At the end the handlers that run are waited for, and what is processed is committed. The consumer then stands before the first
    /// record that was not processed, and can go on by any means. Cancelled, which `shutdown` makes needless, it cuts the handlers short instead of
    /// waiting for them; what they did not finish comes again.
    ///
    /// ```no_run
    /// use hermit_client::{Client, Parallel};
    ///
    /// # async fn example() -> hermit_client::Result<()> {
    /// let client = Client::connect("127.0.0.1:9092").await?;
    /// let mut consumer = client.consumer().group("billing").build()?;
    /// consumer.subscribe("orders").await?;
    /// let shutdown = async { drop(tokio::signal::ctrl_c().await) };
    /// let handler = |record: hermit_client::Record| async move {
    ///     println!("{:?}", record.value);
    ///     Ok::<_, std::io::Error>(())
    /// };
    /// consumer.process_parallel(Parallel::new(16), handler, shutdown).await?;
    /// consumer.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`]; [`Error::Handler`], also for a handler that panicked; those of [`Consumer::recv`] that concern one partition; those of
    /// [`Consumer::commit_positions`] for the last commit.
    pub async fn process_parallel<H, F, E>(
        &mut self,
        config: Parallel,
        handler: H,
        shutdown: impl Future<Output = ()>,
    ) -> Result<()>
    where
        H: Fn(Record) -> F,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        config.check()?;
        // What was handed out before is processed: the application is back.
        let _call = self.enter();
        self.count_acknowledged().await?;
        let mut bound = Bound { run: Run::new(config, self.acker().ok()), consumer: self };
        let outcome = bound.run.turns(bound.consumer, &handler, shutdown).await;
        let drained = bound.run.drain().await;
        let committed = bound.consumer.commit_acknowledged().await;
        outcome.and(drained).and(committed)
    }

    async fn count_acknowledged(&mut self) -> Result<()> {
        let Some(shared) = self.group.clone() else { return Ok(()) };
        // In the old way what was processed before may still be owed.
        self.commit_acknowledged().await?;
        shared.with(|state| state.count_as(AutoCommit::Acknowledged));
        self.tracks = true;
        shared.start(&self.link);
        Ok(())
    }

    async fn commit_acknowledged(&self) -> Result<()> {
        let Some(shared) = &self.group else { return Ok(()) };
        match shared.tell(|state| state.commit_owed(tokio::time::Instant::now())) {
            None => Ok(()),
            // Another member does them again.
            Some(wait) => match wait.await {
                Err(error) if goes_on(&error) => {
                    tracing::warn!(%error, "what was processed last is not committed");
                    Ok(())
                }
                outcome => outcome,
            },
        }
    }
}

/// Whether an error of the consumer concerns nobody who processes in parallel.
fn goes_on(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. } | Error::ProcessingTimeout { .. }) || error.is_retryable()
}

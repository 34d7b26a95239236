//! A member of the group, as a process of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Assigned, AutoCommit, Client, HandlerError, Parallel, RebalanceListener, Record, Revoked, TopicPartition};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::journal::Writer;
use super::{GROUP, TOPIC};
use crate::check::{Event, fingerprint};

/// What a member needs to know; it travels in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSetup {
    /// The broker's address.
    pub server: String,
    /// Where to keep the journal.
    pub journal: PathBuf,
    /// The member's session timeout.
    pub session_timeout: Duration,
    /// Handlers that run at once.
    pub workers: usize,
    /// What a handler takes for a record, at most.
    pub work: Duration,
}

/// What a member was asked to give up it gives up well within this.
const PROCESSING: Duration = Duration::from_secs(20);
/// Often, so that there are many.
const COMMIT_EVERY: Duration = Duration::from_millis(50);

const SERVER: &str = "HERMIT_MEMBER_SERVER";
const JOURNAL: &str = "HERMIT_MEMBER_JOURNAL";
const SESSION_MS: &str = "HERMIT_MEMBER_SESSION_MS";
const WORKERS: &str = "HERMIT_MEMBER_WORKERS";
const WORK_US: &str = "HERMIT_MEMBER_WORK_US";

impl MemberSetup {
    pub(super) fn to_env(&self) -> [(&'static str, OsString); 5] {
        [
            (SERVER, self.server.clone().into()),
            (JOURNAL, self.journal.clone().into()),
            (SESSION_MS, self.session_timeout.as_millis().to_string().into()),
            (WORKERS, self.workers.to_string().into()),
            (WORK_US, self.work.as_micros().to_string().into()),
        ]
    }

    /// What this process was given; `None` if it is to be no member.
    ///
    /// # Errors
    ///
    /// When a part is missing or makes no sense.
    pub fn from_env() -> Result<Option<Self>> {
        let text = |name| std::env::var(name).with_context(|| format!("{name} is missing"));
        let number = |name| text(name)?.parse::<u64>().with_context(|| format!("{name} is no number"));
        if std::env::var_os(SERVER).is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            server: text(SERVER)?,
            journal: text(JOURNAL)?.into(),
            session_timeout: Duration::from_millis(number(SESSION_MS)?),
            workers: usize::try_from(number(WORKERS)?).context("too many workers")?,
            work: Duration::from_micros(number(WORK_US)?),
        }))
    }
}

/// What the group gives and takes goes into the journal.
struct Listener(Arc<Writer>);

impl Listener {
    /// A member without its journal must not go on.
    fn note(&self, event: Event) {
        if let Err(error) = self.0.note(event) {
            tracing::error!(%error, "the journal is lost");
            std::process::abort();
        }
    }
}

impl RebalanceListener for Listener {
    fn on_assigned(&mut self, assigned: &mut Assigned) {
        assigned.positions().iter().for_each(|position| self.note(Event::Assigned { partition: position.partition.0 }));
    }

    fn on_revoked(&mut self, revoked: &mut Revoked) {
        let partitions = revoked.generations();
        partitions.for_each(|(place, generation)| {
            self.note(Event::Released { partition: place.partition.0, generation: generation.0 });
        });
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) {
        lost.iter().for_each(|lost| self.note(Event::Lost { partition: lost.partition.0 }));
    }
}

/// Processes the stream in parallel, as a member of the group, until the process is told to stop.
///
/// # Errors
///
/// When the member cannot go on: everything that time cures it goes through by itself.
pub async fn run(setup: MemberSetup) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).context("no signals")?;
    // From here on the member can be told to leave: that is what the journal's being there says.
    let journal = Arc::new(Writer::create(&setup.journal)?);
    // The broker may be away just now.
    let client = Client::builder().server(&setup.server).start()?;
    let mut consumer = client
        .consumer()
        .group(GROUP)
        .session_timeout(setup.session_timeout)
        .processing_timeout(PROCESSING)
        .auto_commit(AutoCommit::Acknowledged)
        .auto_commit_interval(COMMIT_EVERY)
        .build()?;
    consumer.set_rebalance_listener(Listener(journal.clone()));
    consumer.subscribe(TOPIC).await?;
    let config = Parallel::new(setup.workers);
    let most = u64::try_from(setup.work.as_nanos()).unwrap_or(u64::MAX);
    let handler = move |record: Record| handle(journal.clone(), record, most);
    let shutdown = async {
        terminated.recv().await;
    };
    consumer.process_parallel(config, handler, shutdown).await?;
    consumer.close().await?;
    client.close().await;
    Ok(())
}

async fn handle(journal: Arc<Writer>, record: Record, most_ns: u64) -> std::result::Result<(), HandlerError> {
    let (partition, offset, generation) = (record.partition.0, record.offset.0, record.generation().0);
    let fingerprint = fingerprint(&record.key.unwrap_or_default(), &record.value.unwrap_or_default());
    journal.note(Event::Began { partition, offset, generation, fingerprint })?;
    // Some take long, and most take none at all: neighbours overtake each other.
    match fingerprint % 8 {
        0 => sleep(Duration::from_nanos(fingerprint % most_ns.max(1))).await,
        1 | 2 => tokio::task::yield_now().await,
        _ => {}
    }
    journal.note(Event::Ended { partition, offset })?;
    Ok(())
}

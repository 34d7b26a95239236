//! Clients of all kinds, and what they saw: producers, consumers and groups of both protocol versions, on topics of every kind, for as long as
//! they are told. They note the complete history of their run, for [`check::history`](crate::check::history).

mod final_log;
mod member;
mod payload;
mod place;
mod read_sdk;
mod read_v1;
mod recorder;
mod send_sdk;
mod send_v1;
mod side;
mod target;
mod topics;
mod watcher;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

pub use place::Pace;
pub use recorder::{Counts, Recorder};
pub use target::{Login, Target};

use self::topics::Places;
use crate::logins::Guests;

/// Between two looks whether readers have come to the end.
const PAUSE: Duration = Duration::from_millis(50);
/// Producers have answers to wait for, and a broker that may just have been restarted.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// What the workload is to be.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Messages a second, of all producers together.
    pub rate: f64,
    /// Whether all topics lose their oldest, so that the disk's use stays flat.
    pub bounded: bool,
    /// Whether topics are made and deleted on the side.
    pub churn: bool,
    /// The session timeout of members.
    pub session_timeout: Duration,
    /// Most bytes of a message.
    pub max_bytes: usize,
    /// What is sent when is drawn from this.
    pub seed: u64,
}

/// What every client task has.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) target: Target,
    pub(crate) recorder: Recorder,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) random: fastrand::Rng,
}

/// All clients, at work.
#[derive(Debug)]
pub struct Workload {
    target: Target,
    recorder: Recorder,
    places: Places,
    producers: JoinSet<Result<()>>,
    readers: JoinSet<Result<()>>,
    stop_producers: watch::Sender<bool>,
    stop_readers: watch::Sender<bool>,
}

impl Workload {
    /// Creates the topics and starts all clients.
    ///
    /// # Errors
    ///
    /// When the topics cannot be created.
    pub async fn start(target: Target, recorder: Recorder, plan: &Plan) -> Result<Self> {
        let places = Places::create(&target, &recorder, plan).await?;
        let (stop_producers, producers_stop) = watch::channel(false);
        let (stop_readers, readers_stop) = watch::channel(false);
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let mut context = |stop: &watch::Receiver<bool>| Task {
            target: target.clone(),
            recorder: recorder.clone(),
            stop: stop.clone(),
            random: random.fork(),
        };
        let (mut producers, mut readers) = (JoinSet::new(), JoinSet::new());
        places.spawn_producers(plan, &mut producers, || context(&producers_stop));
        if plan.churn {
            producers.spawn(side::run(context(&producers_stop)));
        }
        places.spawn_readers(plan, &mut readers, || context(&readers_stop));
        readers.spawn(watcher::run(context(&readers_stop), places.clone()));
        Ok(Self { target, recorder, places, producers, readers, stop_producers, stop_readers })
    }

    /// Has users come and go beside it, until producers are told to stop.
    pub fn spawn_guests(&mut self, guests: Guests) {
        self.producers.spawn(guests.run(self.stop_producers.subscribe()));
    }

    /// Whether a client has given up, and why.
    ///
    /// # Errors
    ///
    /// That of the first client that has ended.
    pub fn look(&mut self) -> Result<()> {
        for tasks in [&mut self.producers, &mut self.readers] {
            if let Some(ended) = tasks.try_join_next() {
                ended.context("a client panicked")?.context("a client gave up")?;
                bail!("a client ended before it was told to");
            }
        }
        Ok(())
    }

    /// Lets producers come to their end and readers to the end of everything; then ends those too. The broker must serve.
    ///
    /// # Errors
    ///
    /// When a client gave up, or does not come to its end.
    pub async fn finish(mut self) -> Result<()> {
        self.stop_producers.send_replace(true);
        end(&mut self.producers).await.context("producers")?;
        self.catch_up().await?;
        self.stop_readers.send_replace(true);
        end(&mut self.readers).await.context("readers")
    }

    /// Waits until every reader and every group has read all that there is.
    async fn catch_up(&mut self) -> Result<()> {
        let ends = self.places.ends(&self.target).await?;
        let begun = Instant::now();
        loop {
            let behind = self.recorder.behind(&ends);
            let Some(first) = behind.first() else { return Ok(()) };
            if begun.elapsed() > ENDS_WITHIN {
                for late in &behind {
                    self.recorder.stalled(late);
                }
                tracing::error!(%first, "readers do not come to the end");
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }
}

async fn end(tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended.context("a client panicked")?.context("a client gave up")?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(ENDS_WITHIN, all).await.context("a client does not come to its end")?
}

pub use final_log::read as read_final_log;

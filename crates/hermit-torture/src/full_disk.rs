//! A broker whose disk runs full, again and again, on a small file system of its own: it refuses what it cannot take, goes on with everything
//! else, also through a restart or a SIGKILL meanwhile, and takes more once there is space.

mod mount;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hermit_client::{Error, OffsetQuery, Start, TopicConfig};
use tokio::time::{Instant, sleep, timeout};

pub use mount::{Mount, Unable};

use crate::check::history::Deed;
use crate::kill::{self, Recovery, Report};
use crate::server::{Hermitd, Setup};
use crate::workload::{self, Recorder, Target, Workload};

/// The file system's size: large enough for the load, small enough to be filled in no time.
pub const DISK_BYTES: u64 = 256 << 20;
/// What is left free for the broker to run into.
const LEFT_BYTES: std::ops::Range<u64> = 256 << 10..3 << 20;
/// Below this the broker is to refuse, in every other round; in the others only a full disk itself tells it.
const LOW_BYTES: &str = "8388608";
/// What the load takes to run the disk full, or to have more taken again.
const TURNS_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// Records that are read at most while the disk is full.
const READ: usize = 100;
/// How long a commit is tried that may be refused.
const IMPATIENT: Duration = Duration::from_secs(3);
/// A topic that is deleted while the disk is full.
const SPARE: &str = "spare";
/// A group that commits then.
const GROUP: &str = "meanwhile";

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often the disk runs full.
    pub rounds: usize,
    /// The load.
    pub load: workload::Plan,
    /// What is done when is drawn from this.
    pub seed: u64,
}

impl Plan {
    /// The plan for so many full disks.
    #[must_use]
    pub fn new(rounds: usize, seed: u64) -> Self {
        let load = workload::Plan {
            rate: 800.0,
            bounded: true,
            churn: false,
            session_timeout: Duration::from_secs(2),
            max_bytes: 128 << 10,
            seed,
        };
        Self { rounds, load, seed }
    }
}

/// Runs the plan on a mounted file system; the setup's data go there. A broken promise is no error here: the report holds it.
///
/// # Errors
///
/// When something does not go on while the disk is full, or does not go on again when it is not.
pub async fn run(mut setup: Setup, mount: &Mount, plan: &Plan, mut said: impl FnMut(usize, Deed, &Recovery)) -> Result<Report> {
    setup.data = mount.path().join("data");
    let begun = Instant::now();
    let mut random = fastrand::Rng::with_seed(plan.seed);
    setup.args.extend(kill::arguments());
    let plain = setup.args.clone();
    let mut broker = Hermitd::start_at(setup, kill::free_address()?).await?;
    let (target, recorder) = (Target::open(broker.address()), Recorder::default());
    let workload = Workload::start(target.clone(), recorder.clone(), &plan.load).await?;
    let mut run = Run { target: target.clone(), recorder: recorder.clone(), workload };
    let mut recoveries = Vec::new();
    for number in 1..=plan.rounds {
        let low = if number % 2 == 0 { "0" } else { LOW_BYTES };
        broker.set_args([&plain[..], &["--disk-low-bytes".into(), low.into()]].concat());
        broker.halt().await?;
        broker.restart().await?;
        run.prepare().await.context("before the disk is full")?;
        run.until_stored().await.context("before the disk is full")?;
        let left = random.u64(LEFT_BYTES);
        mount.fill(left)?;
        run.until_refused(mount).await?;
        recorder.befell(Deed::DiskFull);
        run.goes_on().await.context("while the disk is full")?;
        let (deed, kills) = if random.bool() { (Deed::KilledWhileFull, 1) } else { (Deed::Stopped, 0) };
        recorder.befell(deed);
        match deed {
            // Where logs find no space to be closed, the stop is no clean one, and says so.
            Deed::Stopped => {
                if let Err(error) = broker.halt().await {
                    tracing::warn!("{error:#}");
                }
            }
            _ => broker.kill().await?,
        }
        let down = Instant::now();
        broker.restart().await.context("it does not start on a full disk")?;
        let recovery = Recovery { deed, kills, ready_after: down.elapsed() };
        recorder.befell(Deed::Serves);
        run.goes_on().await.context("after a start on the full disk")?;
        run.delete_spare().await.context("while the disk is full")?;
        mount.free()?;
        recorder.befell(Deed::DiskFreed);
        run.until_stored().await?;
        run.commit(true).await.context("though the disk has space")?;
        said(number, deed, &recovery);
        recoveries.push(recovery);
    }
    run.workload.finish().await?;
    kill::conclude(broker, &target, &recorder, None, begun, recoveries).await
}

struct Run {
    target: Target,
    recorder: Recorder,
    workload: Workload,
}

impl Run {
    /// Makes a topic to be deleted later.
    async fn prepare(&self) -> Result<()> {
        let client = self.target.client()?;
        match client.admin().create_topic(SPARE, 1, TopicConfig::default()).await {
            Ok(_) => {}
            Err(error) => bail!("{SPARE} cannot be created: {error}"),
        }
        client.close().await;
        Ok(())
    }

    /// Waits until producers are refused. What retention gives back meanwhile is taken, too: else the load could go on for ever.
    async fn until_refused(&mut self, mount: &Mount) -> Result<()> {
        let before = self.recorder.counts().refused;
        let refused = self.until(|recorder| Ok(recorder.counts().refused > before || mount.fill(0).map(|()| false)?));
        refused.await.context("nobody is refused, though the disk is full")
    }

    async fn until_stored(&mut self) -> Result<()> {
        let before = self.recorder.counts().stored;
        self.until(|recorder| Ok(recorder.counts().stored > before + 100))
            .await
            .context("nothing is taken, though the disk has space")
    }

    async fn until(&mut self, reached: impl Fn(&Recorder) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !reached(&self.recorder)? {
            self.workload.look()?;
            ensure!(begun.elapsed() < TURNS_WITHIN, "{} s have passed", TURNS_WITHIN.as_secs());
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Reads, and commits, or is told to come later.
    async fn goes_on(&self) -> Result<()> {
        timeout(TURNS_WITHIN, self.read_and_commit()).await.context("reading and committing stalls")?
    }

    async fn read_and_commit(&self) -> Result<()> {
        let client = self.target.client()?;
        let mut consumer = client.consumer().build()?;
        consumer.assign("orders", 0, Start::Earliest).await?;
        consumer.stop_at_present_end().await?;
        let records = consumer.recv_batch(READ).await.context("nothing can be read")?;
        ensure!(!records.is_empty(), "nothing is there to be read");
        client.close().await;
        self.commit(false).await
    }

    /// A commit needs space, too: below the low threshold it is refused, for now, as what producers send is.
    async fn commit(&self, must: bool) -> Result<()> {
        let offsets = {
            let client = self.target.client()?;
            let offsets = client.admin().list_offsets("orders", 0, OffsetQuery::Latest).await?;
            client.close().await;
            offsets
        };
        let client = if must { self.target.client()? } else { self.target.impatient_client(IMPATIENT)? };
        match client.admin().commit_group(GROUP, &[("orders", 0.into(), offsets.offset)]).await {
            Ok(()) => {}
            Err(error) if error.is_retryable() && !must => {}
            Err(error) => return Err(error).context("a commit is refused"),
        }
        client.close().await;
        Ok(())
    }

    async fn delete_spare(&self) -> Result<()> {
        let client = self.target.client()?;
        match client.admin().delete_topic(SPARE).await {
            Ok(()) | Err(Error::UnknownTopic { .. }) => {}
            Err(error) => return Err(error).context("a topic cannot be deleted"),
        }
        client.close().await;
        Ok(())
    }
}

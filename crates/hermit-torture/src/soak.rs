//! A long run at a moderate pace: nothing that a broker holds may grow with time. Retention, compaction, rebalances, restarts, topics and
//! connections that come and go are all part of it.

mod report;
mod sample;
mod slope;
mod visitors;

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, sleep_until};

pub use report::Report;
pub use sample::{Incarnation, Sample};
pub use slope::{Measure, Verdict, theil_sen};

use crate::check::history::Deed;
use crate::kill::{self, Recovery};
use crate::server::{Hermitd, Setup};
use crate::workload::{self, Recorder, Target, Workload};

/// Restarts in a run of an hour; shorter ones have fewer.
const RESTART_EVERY: Duration = Duration::from_secs(300);
/// In a short run too there are several incarnations to compare.
const FEWEST_INCARNATIONS: u32 = 3;
/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How long clients are at work.
    pub time: Duration,
    /// The load.
    pub load: workload::Plan,
    /// Connections a second that come, ask something, and go.
    pub visits: f64,
}

impl Plan {
    /// The plan for a run of so long, which takes about half a core.
    #[must_use]
    pub fn new(time: Duration, seed: u64) -> Self {
        let load = workload::Plan {
            rate: 250.0,
            bounded: true,
            churn: true,
            session_timeout: Duration::from_secs(2),
            max_bytes: 128 << 10,
            seed,
        };
        Self { time, load, visits: 5.0 }
    }

    fn incarnation(&self) -> Duration {
        RESTART_EVERY.min(self.time / FEWEST_INCARNATIONS)
    }
}

/// Runs the plan. Growth, or a broken promise, is no error here: the report holds it. `said` is given a line for each incarnation of the broker.
///
/// # Errors
///
/// When something does not run.
pub async fn run(mut setup: Setup, plan: &Plan, mut said: impl FnMut(&Incarnation)) -> Result<Report> {
    setup.args.extend(kill::arguments());
    let begun = Instant::now();
    let mut broker = Hermitd::start_at(setup, kill::free_address()?).await?;
    let (target, recorder) = (Target::open(broker.address()), Recorder::default());
    let mut workload = Workload::start(target.clone(), recorder.clone(), &plan.load).await?;
    let visitors = visitors::Visitors::start(broker.address(), plan.visits);
    let (mut incarnations, mut recoveries) = (Vec::new(), Vec::new());
    loop {
        let incarnation = watch(&broker, plan.incarnation(), &mut workload).await?;
        said(&incarnation);
        incarnations.push(incarnation);
        if begun.elapsed() >= plan.time {
            break;
        }
        let deed = if incarnations.len() % 2 == 0 { Deed::Stopped } else { Deed::Killed };
        recorder.befell(deed);
        match deed {
            Deed::Stopped => broker.halt().await?,
            _ => broker.kill().await?,
        }
        let down = Instant::now();
        broker.restart().await.with_context(|| format!("after it was {deed}"))?;
        recorder.befell(Deed::Serves);
        recoveries.push(Recovery { deed, kills: usize::from(deed == Deed::Killed), ready_after: down.elapsed() });
    }
    let visits = visitors.stop().await?;
    workload.finish().await?;
    let history = kill::conclude(broker, &target, &recorder, None, begun, recoveries).await?;
    Ok(Report { verdicts: slope::judge(&incarnations), incarnations, visits, history })
}

/// Takes samples of one incarnation.
async fn watch(broker: &Hermitd, time: Duration, workload: &mut Workload) -> Result<Incarnation> {
    let (pid, data) = (broker.pid()?, broker.setup().data_dir());
    let begun = Instant::now();
    let mut incarnation = Incarnation { time, samples: Vec::new() };
    let mut next = begun;
    while begun.elapsed() < time {
        next += SAMPLE_EVERY;
        sleep_until(next).await;
        workload.look()?;
        let at = begun.elapsed();
        let data = data.clone();
        let sample = tokio::task::spawn_blocking(move || Sample::take(pid, &data, at)).await??;
        incarnation.samples.push(sample);
    }
    sleep(Duration::ZERO).await;
    Ok(incarnation)
}

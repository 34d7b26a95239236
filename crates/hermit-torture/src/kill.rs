//! A real broker under a real load that is killed, paused and stopped at random, again and again, and the complete history of what all clients
//! saw, checked.

mod deeds;
mod report;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep, timeout};

pub use report::{Recovery, Report};

use self::deeds::Fate;
use crate::check::history::Deed;
use crate::logins::{self, Guests, Users};
use crate::server::{Hermitd, Setup};
use crate::workload::{self, Recorder, Target, Workload, read_final_log};

/// Reading everything back takes well below that.
const READS_WITHIN: Duration = Duration::from_secs(600);
/// Clients that connect to a port of the range that their own ports come from may find themselves there while the broker is away.
const PORTS: std::ops::Range<u16> = 12_000..30_000;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often something is done to the broker.
    pub deeds: usize,
    /// The load.
    pub load: workload::Plan,
    /// Whether everybody has to log in, and users come and go as well.
    pub logins: bool,
    /// Between two deeds, at most.
    pub calm: Duration,
    /// What befalls the broker when is drawn from this.
    pub seed: u64,
}

impl Plan {
    /// The plan for so many kills.
    #[must_use]
    pub fn new(deeds: usize, seed: u64) -> Self {
        let load = workload::Plan {
            rate: 800.0,
            bounded: false,
            churn: true,
            session_timeout: Duration::from_secs(1),
            max_bytes: 1 << 20,
            seed,
        };
        Self { deeds, load, logins: false, calm: Duration::from_secs(5), seed }
    }
}

/// Arguments of the broker: maintenance all the time, and groups that come back soon.
#[must_use]
pub fn arguments() -> Vec<std::ffi::OsString> {
    let args = ["--maintenance-interval", "1s", "--group-return-delay", "500ms", "--max-open-files", "64"];
    args.map(Into::into).to_vec()
}

/// Runs the plan. A broken promise is no error here: the report holds it. `said` is told what was done, as it is done.
///
/// # Errors
///
/// When something does not run: the broker does not come up again, or does not stop; a client gives up.
pub async fn run(mut setup: Setup, plan: &Plan, mut said: impl FnMut(usize, Deed, &Recovery)) -> Result<Report> {
    setup.args.extend(arguments());
    if plan.logins {
        setup.args.extend(logins::arguments());
    }
    let begun = Instant::now();
    let mut broker = Hermitd::start_at(setup, free_address()?).await?;
    let (mut random, recorder) = (fastrand::Rng::with_seed(plan.seed), Recorder::default());
    let (mut target, mut guests) = (Target::open(broker.address()), None);
    if plan.logins {
        let mut random = random.fork();
        let Users { worker, admin } = logins::prepare(&broker, &mut random).await.context("the first users")?;
        (target, guests) = (worker, Some(Guests::new(admin, recorder.clone(), random)));
    }
    let mut workload = Workload::start(target.clone(), recorder.clone(), &plan.load).await?;
    if let Some(guests) = &guests {
        workload.spawn_guests(guests.clone());
    }
    let mut recoveries = Vec::new();
    for number in 1..=plan.deeds {
        sleep(plan.calm.mul_f64(random.f64())).await;
        workload.look()?;
        let fate = Fate::draw(&mut random, plan.load.session_timeout);
        let recovery = fate.befall(&mut broker, &recorder, &mut random).await.with_context(|| format!("{}", fate.deed))?;
        said(number, fate.deed, &recovery);
        recoveries.push(recovery);
    }
    // What is read in the end is what a broker finds that was killed last.
    sleep(plan.calm.mul_f64(0.2)).await;
    workload.finish().await?;
    conclude(broker, &target, &recorder, guests.as_ref(), begun, recoveries).await
}

/// Restarts the broker, reads everything that it holds, and checks.
pub(crate) async fn conclude(
    mut broker: Hermitd,
    target: &Target,
    recorder: &Recorder,
    guests: Option<&Guests>,
    begun: Instant,
    recoveries: Vec<Recovery>,
) -> Result<Report> {
    let worked_for = begun.elapsed();
    broker.kill().await?;
    broker.restart().await?;
    let reading = read_final_log(target, recorder);
    let held = timeout(READS_WITHIN, reading).await.context("reading everything stalls")??;
    if let Some(guests) = guests {
        timeout(READS_WITHIN, guests.conclude()).await.context("looking at all users stalls")??;
    }
    broker.stop().await?;
    let mut history = recorder.take();
    history.held = held;
    let events = history.events.len();
    let (totals, violations) = tokio::task::spawn_blocking(move || history.check()).await?;
    let logins = guests.map(Guests::counts);
    Ok(Report { totals, logins, events, recoveries, worked_for, took: begun.elapsed(), violations })
}

/// An address for the whole run.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let mut ports: Vec<_> = PORTS.collect();
    fastrand::shuffle(&mut ports);
    let free = ports.into_iter().find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    Ok((Ipv4Addr::LOCALHOST, free.context("no port is free")?).into())
}

//! A real event stream through a consumer group whose members come, go, freeze and die while the broker is killed. Each member is a process of
//! its own that keeps a journal; afterwards the journals, the log and the committed positions are checked against each other.

mod chaos;
mod journal;
mod member;
mod report;
mod watch;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_client::{Client, TopicConfig};
use tokio::sync::watch as channel;
use tokio::time::{Instant, timeout};

pub use chaos::Deeds;
pub use member::{MemberSetup, run as run_member};
pub use report::Report;

use self::chaos::Members;
use self::watch::Onlooker;
use crate::check::{LogCheck, check_group};
use crate::real;
use crate::server::{Hermitd, Setup};
use crate::stream::Line;

/// The topic that the stream goes through.
const TOPIC: &str = real::TOPIC;
/// The group that follows it.
const GROUP: &str = "carriers";
/// Longer than any part of a run takes, so that a hang is reported as one.
const STALLED: Duration = Duration::from_secs(300);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is sent, in this order.
    pub lines: Arc<[Line]>,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Members of the group.
    pub members: usize,
    /// Over what time the lines are sent, evenly.
    pub sent_over: Duration,
    /// How often the broker is killed, spread evenly over the lines.
    pub kills: usize,
    /// After so long without a heartbeat a member is fenced.
    pub session_timeout: Duration,
    /// Handlers that each member runs at once.
    pub workers: usize,
    /// What a handler takes for a record, at most.
    pub work: Duration,
    /// What happens when is drawn from this.
    pub seed: u64,
}

impl Plan {
    /// The plan for a long stream.
    #[must_use]
    pub fn new(lines: Vec<Line>, sent_over: Duration, kills: usize, seed: u64) -> Self {
        Self {
            lines: lines.into(),
            partitions: 8,
            members: 3,
            sent_over,
            kills,
            session_timeout: Duration::from_secs(1),
            workers: 8,
            work: Duration::from_micros(200),
            seed,
        }
    }
}

/// Runs the plan; `member` is the program, with its arguments, that calls [`run_member`] with what [`MemberSetup::from_env`] gives. A broken promise
/// is no error here: the report holds it.
///
/// # Errors
///
/// When something does not run: the broker does not come up again, a member does not leave when told to, the stream stalls.
pub async fn run(setup: Setup, member: Vec<OsString>, plan: &Plan) -> Result<Report> {
    let mut broker = Hermitd::start(setup.clone()).await?;
    let client = connect(&broker).await?;
    client.admin().create_topic(TOPIC, plan.partitions, TopicConfig::default()).await?;

    let begun = Instant::now();
    let (answered, mut progress) = channel::channel(0);
    let sending = real::Plan { batch_bytes: 4 << 10, ..real::Plan::new(plan.lines.to_vec(), 0) };
    let producing = tokio::spawn(real::send_over(client.clone(), sending, plan.sent_over, answered));
    let onlooker = Onlooker::start(connect(&broker).await?);
    let mut members = Members::start(member, broker.address(), &setup.dir, plan)?;
    for at in real::spread(plan.kills, plan.lines.len()) {
        members.torment_until(async { progress.wait_for(|answered| *answered >= at).await.is_ok() }).await?;
        broker.kill().await?;
        // Members go on coming and going while it is away.
        let (restarted, tormented) = tokio::join!(broker.restart(), members.torment_for(plan.session_timeout));
        restarted?;
        tormented?;
    }
    let all = plan.lines.len();
    let sent = members.torment_until(async { progress.wait_for(|answered| *answered >= all).await.is_ok() });
    timeout(STALLED.max(plan.sent_over * 3), sent).await.context("the producer stalls")??;
    let answers = timeout(STALLED, producing).await.context("the producer stalls")???;
    let produced_in = begun.elapsed();

    members.calm().await?;
    timeout(STALLED, watch::until_done(&client, plan.partitions)).await.context("the group does not come to its end")??;
    let consumed_in = begun.elapsed();
    members.end().await?;
    let positions = timeout(STALLED, watch::final_positions(&client)).await.context("the group is not left")??;
    let seen = onlooker.stop().await?;
    drop(client);
    broker.stop().await?;

    // What is read now is what is on disk.
    let broker = Hermitd::start(setup).await?;
    let client = connect(&broker).await?;
    let mut log = LogCheck::new(&plan.lines);
    timeout(STALLED, real::read_log(&client, &mut log)).await.context("reading the log stalls")??;
    let again = watch::final_positions(&client).await?;
    ensure!(again == positions, "the positions were {positions:?} and are {again:?} after a restart");
    drop(client);
    broker.stop().await?;

    let (log, mut violations) = log.finish();
    violations.merge(log.check_answers(&plan.lines, answers.iter().copied()));
    let (deeds, mut journals) = members.into_journals()?;
    journals.push(seen);
    let (facts, broken) = check_group(&journals, &log);
    violations.merge(broken);
    let committed = positions.values().sum();
    Ok(Report { sent: plan.lines.len(), facts, deeds, committed, produced_in, consumed_in, violations })
}

async fn connect(broker: &Hermitd) -> Result<Client> {
    Ok(Client::connect(&broker.address().to_string()).await?)
}

//! A real event stream through crashes: an idempotent producer sends a file's lines while a consumer group follows and commits, and the
//! broker is killed and restarted on the way. Then the log, the answers, the reads and the commits are checked against each other.

mod consuming;
mod producing;
mod report;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, TopicConfig};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

pub(crate) use consuming::read_log;
pub(crate) use producing::send as send_over;
pub use report::{Kill, Report};

use self::consuming::Follower;
use crate::check::{ConsumerCheck, LogCheck};
use crate::server::{Hermitd, Setup};
use crate::stream::Line;

/// The topic that the stream goes through.
pub(crate) const TOPIC: &str = "flights";
/// The consumer group that follows it.
const GROUP: &str = "real";
/// Longer than any part of a run takes, so that a hang is reported as one.
const STALLED: Duration = Duration::from_secs(300);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is sent, in this order.
    pub lines: Arc<[Line]>,
    /// Partitions of the topic.
    pub partitions: u32,
    /// The broker is killed when so many lines are answered: one number for each kill, rising.
    pub kill_at: Vec<usize>,
    /// Bytes at which the producer sends a batch.
    pub batch_bytes: usize,
    /// Bytes that the producer has under way at most.
    pub buffered_bytes: usize,
    /// Records that the consumer takes at a time; it commits after each of these batches.
    pub commit_every: usize,
}

impl Plan {
    /// The plan for a long stream, with so many kills spread evenly over it.
    #[must_use]
    pub fn new(lines: Vec<Line>, kills: usize) -> Self {
        let kill_at = spread(kills, lines.len()).collect();
        let lines = lines.into();
        Self { lines, partitions: 8, kill_at, batch_bytes: 16 << 10, buffered_bytes: 1 << 20, commit_every: 1000 }
    }

    /// The plan for some hundred lines: batches and commits are so small that every kill finds some under way.
    #[must_use]
    pub fn short(lines: Vec<Line>, kills: usize) -> Self {
        Self { batch_bytes: 512, buffered_bytes: 4096, commit_every: 10, ..Self::new(lines, kills) }
    }
}

/// Where so many kills fall, spread evenly over so many lines.
pub(crate) fn spread(kills: usize, lines: usize) -> impl Iterator<Item = usize> {
    (1..=kills).map(move |kill| lines * kill / (kills + 1))
}

/// Runs the plan. A broken promise is no error here: the report holds it.
///
/// # Errors
///
/// When something does not run: the broker does not come up again, a line is refused, the stream stalls.
pub async fn run(setup: Setup, plan: &Plan) -> Result<Report> {
    let mut broker = Hermitd::start(setup.clone()).await?;
    let client = connect(&broker).await?;
    client.admin().create_topic(TOPIC, plan.partitions, TopicConfig::default()).await?;

    let begun = Instant::now();
    let (answered, progress) = watch::channel(0);
    let follower = Follower::start(connect(&broker).await?, plan, ConsumerCheck::default()).await?;
    let producing = tokio::spawn(producing::send(client.clone(), plan.clone(), Duration::ZERO, answered));
    let (follower, kills) = crash(&mut broker, plan, follower, progress).await?;
    let answers = timeout(STALLED, producing).await.context("the producer stalls")???;
    let produced_in = begun.elapsed();
    let mut check = timeout(STALLED, follower.finish()).await.context("the consumer stalls")??;
    let consumed_in = begun.elapsed();
    drop(client);
    broker.stop().await?;

    // Both readings are those of a broker that knows nothing but what is on disk.
    let broker = Hermitd::start(setup).await?;
    let client = connect(&broker).await?;
    timeout(STALLED, consuming::resume(&client, &mut check)).await.context("the consumer stalls")??;
    let mut log = LogCheck::new(&plan.lines);
    timeout(STALLED, consuming::read_log(&client, &mut log)).await.context("reading the log stalls")??;
    drop(client);
    broker.stop().await?;

    let (log, mut violations) = log.finish();
    violations.merge(log.check_answers(&plan.lines, answers.iter().copied()));
    let mut report = Report::new(plan, &log, &check, kills);
    violations.merge(check.finish(&log));
    report.answers = answers.len();
    report.produced_in = produced_in;
    report.consumed_in = consumed_in;
    report.violations = violations;
    Ok(report)
}

/// Kills the broker whenever the stream has come so far, and starts it again.
async fn crash(
    broker: &mut Hermitd,
    plan: &Plan,
    mut follower: Follower,
    mut progress: watch::Receiver<usize>,
) -> Result<(Follower, Vec<Kill>)> {
    let mut kills = Vec::new();
    for (number, at) in plan.kill_at.iter().enumerate() {
        let reached = progress.wait_for(|answered| answered >= at);
        // A producer that has ended before, well or not, tells by its result.
        if timeout(STALLED, reached).await.context("the producer stalls")?.is_err() {
            break;
        }
        let answered = *progress.borrow();
        broker.kill().await?;
        let down = Instant::now();
        // Every other time the consumer dies with it, and begins anew at what it has committed. Else it has to find back by itself.
        let with_consumer = number % 2 == 0;
        if with_consumer {
            let check = follower.abandon().await?;
            broker.restart().await?;
            kills.push(Kill { answered, with_consumer, ready_after: down.elapsed() });
            follower = Follower::start(connect(broker).await?, plan, check).await?;
        } else {
            broker.restart().await?;
            kills.push(Kill { answered, with_consumer, ready_after: down.elapsed() });
        }
    }
    Ok((follower, kills))
}

async fn connect(broker: &Hermitd) -> Result<Client> {
    Ok(Client::connect(&broker.address().to_string()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_spread_over_the_stream() {
        let line = Line { key: "k".into(), text: "t".into() };
        assert_eq!(Plan::new(vec![line.clone(); 100], 3).kill_at, [25, 50, 75]);
        assert_eq!(Plan::new(vec![line; 100], 0).kill_at, <[usize; 0]>::default());
    }
}

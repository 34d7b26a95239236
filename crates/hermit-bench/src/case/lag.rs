//! How long a message takes from its producer to a consumer at the end of the log.

use anyhow::{Context, Result, ensure};
use hermit_proto::TopicId;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell, consume};
use crate::broker::Broker;
use crate::clock::now;
use crate::drive::end_to_end::EndToEnd;
use crate::drive::raw::{Drain, SendFile};
use crate::drive::relay::Relay;
use crate::drive::v1_consume::Check;
use crate::drive::{Job, Until};
use crate::finding::{Sample, Series, Unit};
use crate::lab::Lab;
use crate::latency::Latency;
use crate::limits;
use crate::material::{Protocol, Shape};
use crate::site::Site;

/// Bytes of a message.
const PAYLOAD_BYTES: usize = 100;
/// Messages a second while another consumer catches up.
const TAIL_RATE: f64 = 2000.0;

/// End to end, at shares of the rate that goes through at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// In percent.
    pub shares: Vec<u32>,
    /// Of the topic.
    pub safety: Safety,
}

/// The maximum, and for each share the 50th percentile beside that of a bare round trip, and the 99th beside that of round trips that were made in the same
/// seconds. Then both where a relay that stores nothing, and takes as much processor time, is in the broker's place.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Series>> {
    let site = lab.site("lag")?;
    let mut all = vec![Series::new("maximum", Unit::FramesPerSecond, "")];
    for share in &plan.shares {
        all.push(Series::new(&format!("{share}% p50"), Unit::Micros, "round trip"));
        all.push(Series::new(&format!("{share}% p99"), Unit::Micros, "round trips beside"));
        all.push(Series::new(&format!("{share}% relay p50"), Unit::Micros, "round trip"));
        all.push(Series::new(&format!("{share}% relay p99"), Unit::Micros, "round trips beside"));
    }
    for _ in 0..effort.repeat {
        let mut left = Vec::new();
        let fastest = once(lab, &site, plan.safety, None, effort.seconds.min(1.0), &mut left)?;
        let maximum = fastest.value;
        all[0].push(fastest, tell);
        for (at, share) in plan.shares.iter().enumerate() {
            let rate = maximum * f64::from(*share) / 100.0;
            let alone = limits::ping(lab, effort.seconds / 2.0, None)?;
            let brokered =
                limits::ping_beside(lab, effort.seconds, || once(lab, &site, plan.safety, Some(rate), effort.seconds, &mut left))?;
            let cpu_ns = brokered.0.cpu_ns.unwrap_or(0.0);
            let relayed = limits::ping_beside(lab, effort.seconds, || relayed(lab, rate, cpu_ns, effort.seconds))?;
            for (series, (sample, beside)) in all[4 * at + 1..].chunks_exact_mut(2).zip([brokered, relayed]) {
                let latency = sample.latency.context("no times")?;
                series[0].push(Sample { value: latency.p50, limit: Some(alone.p50), ..sample.clone() }, tell);
                series[1].push(Sample { value: latency.p99, limit: Some(beside.p99), ..sample }, tell);
            }
        }
        left.iter().try_for_each(|name| site.remove(name))?;
    }
    site.stop()?;
    Ok(all)
}

/// The same frames at the same rate through a relay.
fn relayed(lab: &Lab, rate: f64, cpu_ns: f64, seconds: f64) -> Result<Sample> {
    let topic = "relayed".to_owned();
    let mut relay = lab.worker(&Job::Relay(Relay { topic: topic.clone(), payload_bytes: PAYLOAD_BYTES, cpu_ns }))?;
    let address = relay.address.context("it does not listen")?;
    relay.go()?;
    let job = EndToEnd { address, topic, payload_bytes: PAYLOAD_BYTES, rate: Some(rate), seconds };
    let outcome = lab.run(&Job::EndToEnd(job))?;
    ensure!(relay.finish()?.frames == outcome.frames, "frames were lost on the way");
    Ok(Sample { value: limits::rate(outcome.records, outcome.seconds), latency: outcome.latency, ..Sample::default() })
}

/// One run, on a topic of its own. It is `left` for later: a file system may take seconds to free what it has, and the disk is slow meanwhile.
fn once(lab: &Lab, site: &Site, safety: Safety, rate: Option<f64>, seconds: f64, left: &mut Vec<String>) -> Result<Sample> {
    let (name, topic) = site.topic(1, safety)?;
    let address = site.address();
    let job = Job::EndToEnd(EndToEnd { address, topic: name.clone(), payload_bytes: PAYLOAD_BYTES, rate, seconds });
    let sample = site.measure(lab, &job)?;
    site.check_ends(topic, &[sample.outcome.as_ref().map_or(0, |outcome| outcome.frames)])?;
    left.push(name);
    Ok(sample)
}

/// Messages at the end of one log, while another log is read that is on disk only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatchUp {
    /// Who catches up.
    pub reader: Protocol,
}

/// The 99th percentile at the tail, beside that without anybody catching up; how fast that goes; and the 99th percentile while the same log is read as cold and as
/// fast by a bare `sendfile`, in which the broker has no part.
pub(super) fn catch_up(plan: &CatchUp, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Series>> {
    let site = lab.site("catch-up")?;
    let Site::Own(broker) = &site else { anyhow::bail!("the log of another server is out of reach") };
    let shape = Shape { protocol: plan.reader, ..Shape::v2(1024, 1) };
    let cold = consume::Plan { shape, reader: plan.reader, check: Check::Heads, partitions: 1 };
    let filled = consume::fill(&cold, lab, &site, effort.log_bytes)?;
    let mut tail = Series::new("tail p99", Unit::Micros, "alone");
    let mut speed = Series::new("catching up", Unit::BytesPerSecond, "");
    let mut bare = Series::new("tail p99 beside a bare cold read", Unit::Micros, "alone");
    for _ in 0..effort.repeat {
        let alone = at_tail(lab, &site, effort.seconds, || Ok(()))?;
        let (mut bytes, mut seconds) = (0, 0.0);
        let beside = at_tail(lab, &site, effort.seconds, || {
            let read = || disk_reads(broker);
            drop_cache(lab, filled.topic)?;
            let before = read()?;
            let outcome = lab.run(&consume::job(&cold, &site, &filled, Check::Heads, Until::Count(1)))?;
            ensure!(read()? - before >= outcome.bytes / 2, "the log was not read from the disk");
            bytes += outcome.bytes;
            seconds += outcome.seconds;
            Ok(())
        })?;
        let rate = limits::rate(bytes, seconds);
        let beside_bare = at_tail(lab, &site, effort.seconds, || {
            drop_cache(lab, filled.topic)?;
            bare_read(lab, bytes, rate)
        })?;
        bare.push(Sample { value: beside_bare.p99, limit: Some(alone.p99), latency: Some(beside_bare), ..Sample::default() }, tell);
        speed.push(Sample::new(rate, None), tell);
        tail.push(Sample { value: beside.p99, limit: Some(alone.p99), latency: Some(beside), ..Sample::default() }, tell);
    }
    site.stop()?;
    Ok(vec![tail, speed, bare])
}

/// Reads the log by `sendfile`, at a rate.
fn bare_read(lab: &Lab, bytes: u64, rate: f64) -> Result<()> {
    let file = lab.largest_log("catch-up")?;
    let bytes = bytes.min(file.metadata()?.len());
    let mut source = lab.worker(&Job::SendFile(SendFile { file, call_bytes: 1 << 20, polls: true }))?;
    let address = source.address.context("it does not listen")?;
    source.go()?;
    lab.run(&Job::Drain(Drain { address, bytes, rate: Some(rate) }))?;
    source.finish()?;
    Ok(())
}

/// Times at the tail, while something else is done again and again.
fn at_tail(lab: &Lab, site: &Site, seconds: f64, mut meanwhile: impl FnMut() -> Result<()>) -> Result<Latency> {
    let (name, _topic) = site.topic(1, Safety::Os)?;
    let (address, rate) = (site.address(), Some(TAIL_RATE));
    let mut worker =
        lab.worker(&Job::EndToEnd(EndToEnd { address, topic: name.clone(), payload_bytes: PAYLOAD_BYTES, rate, seconds }))?;
    worker.go()?;
    let begun = now();
    loop {
        let turn = now();
        meanwhile()?;
        // What is done at once is done once.
        if begun.elapsed().as_secs_f64() >= seconds || turn.elapsed().as_secs_f64() < 0.001 {
            break;
        }
    }
    let latency = worker.finish()?.latency.context("no times")?;
    site.remove(&name)?;
    Ok(latency)
}

/// Takes the log of a topic's only partition out of the page cache, once it is on disk. No other log is touched.
fn drop_cache(lab: &Lab, topic: TopicId) -> Result<()> {
    let partition = lab.setup("catch-up", &[]).data_dir().join("partitions").join(format!("{topic}-0"));
    for entry in std::fs::read_dir(&partition).with_context(|| format!("{} cannot be read", partition.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            let file = std::fs::File::open(&path)?;
            rustix::fs::fdatasync(&file)?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Bytes that the broker had read from the disk so far.
fn disk_reads(broker: &Broker) -> Result<u64> {
    let path = format!("/proc/{}/io", broker.pid()?);
    let io = std::fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok());
    bytes.with_context(|| format!("{path} is not understood"))
}

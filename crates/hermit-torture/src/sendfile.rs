//! Shows that the log's bytes leave by `sendfile` alone: the broker runs under `strace` while a version-2 consumer reads a
//! topic, and every byte that moved is accounted for.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_proto::PartitionId;
use hermit_proto::session::{Durability, TopicConfig};
use tokio::time::{Instant, sleep};

use crate::server::{Hermitd, Setup};
use crate::strace::{self, Flow, Flows};
use crate::wire::{Session, fill};

/// More credit than any run needs: the broker is never to wait for it.
const CREDIT_BYTES: u64 = 1 << 40;
/// What the broker may read of the log, of what it sends: one byte in so many. It looks at the headers where ranges end, and asks for
/// single bytes to learn whether their pages are cached.
const READ_SHARE: u64 = 1000;
/// A range that is not cached is read, and verified, away from the reactor. So is the first one of a subscription, which has to be
/// searched for. The kernel may have dropped a page that was warm a moment ago; it tells so, and the trace shows it.
const COLD_RANGE_BYTES: u64 = (1 << 20) + (64 << 10);
/// A tracer has written its last line soon after the traced process ended.
const TRACE_WITHIN: Duration = Duration::from_secs(60);

/// What to send.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Bytes of frames, at least.
    pub total_bytes: u64,
    /// Bytes of each message.
    pub payload_bytes: usize,
}

/// What was seen.
#[derive(Debug)]
pub struct Proof {
    /// All that moved, by descriptor and call.
    pub flows: Flows,
    /// Bytes of frames that the consumer got; their checksums were right.
    pub frame_bytes: u64,
    /// All other bytes that the consumer got: heads of deliveries and answers.
    pub other_bytes: u64,
    /// Deliveries that the consumer got.
    pub deliveries: u64,
    /// Calls of `sendfile` from a log to the consumer's socket, and their bytes.
    pub sent: (u64, u64),
    /// Calls that wrote the process's memory to the consumer's socket, and their bytes.
    pub written: (u64, u64),
    /// Calls that brought bytes of a log anywhere but to the consumer's socket by `sendfile`, and those bytes.
    pub read: (u64, u64),
    /// How often the kernel said that a part of a log was not cached.
    pub cold: u64,
}

impl Proof {
    /// What contradicts the claim.
    #[must_use]
    pub fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.sent.1 != self.frame_bytes {
            found.push(format!("the consumer got {} bytes of frames, but sendfile moved {}", self.frame_bytes, self.sent.1));
        }
        if self.written.1 != self.other_bytes {
            let (other, written) = (self.other_bytes, self.written.1);
            found.push(format!("heads and answers have {other} bytes, but {written} were written from memory"));
        }
        if self.read.1 > (1 + self.cold) * COLD_RANGE_BYTES + self.frame_bytes / READ_SHARE {
            found.push(format!("{} bytes of the log were read into memory", self.read.1));
        }
        found
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.flows)?;
        writeln!(f)?;
        writeln!(f, "consumer got      {:>14} bytes of frames in {} deliveries", self.frame_bytes, self.deliveries)?;
        writeln!(f, "                  {:>14} bytes of heads and answers", self.other_bytes)?;
        writeln!(f, "sendfile          {:>14} bytes from the log to its socket, {} calls", self.sent.1, self.sent.0)?;
        writeln!(f, "write and send    {:>14} bytes from memory to its socket, {} calls", self.written.1, self.written.0)?;
        writeln!(f, "read of the log   {:>14} bytes, {} calls; not cached {} times", self.read.1, self.read.0, self.cold)
    }
}

/// Whether `strace` can be started here.
#[must_use]
pub fn has_strace() -> bool {
    std::process::Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success())
}

/// Fills a topic, warms the page cache, starts the broker again under `strace`, reads the topic and counts.
///
/// # Errors
///
/// When something does not run, or the trace is not understood. A contradiction is no error here.
pub async fn prove(setup: Setup, load: Load) -> Result<Proof> {
    ensure!(has_strace(), "strace cannot be started: install it");

    let broker = Hermitd::start(setup.clone()).await?;
    let mut session = Session::open(broker.address()).await?;
    let config = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    let topic = session.create_topic("proof", 1, config).await?;
    let filled = fill(&mut session, topic, load.total_bytes, load.payload_bytes).await?;
    drop(session);
    broker.stop().await?;
    warm(&setup.data_dir())?;

    let trace = setup.dir.join("trace");
    // With -D the traced broker stays our own child, so that it can be stopped and is ended with us.
    let words = ["strace", "-D", "-f", "-yy", "-s", "0", "-q", "-e", "signal=none", "-e"].map(Into::into);
    let under = words.into_iter().chain([format!("trace={}", strace::CALLS).into(), "-o".into(), trace.clone().into()]);
    let broker = Hermitd::start(Setup { under: under.collect(), ..setup }).await?;
    let pid = broker.pid()?;
    let mut session = Session::open(broker.address()).await?;
    let socket = format!("TCP:[{}->{}]", broker.address(), session.local_address()?);
    let mut reading = session.subscribe(topic, PartitionId(0), CREDIT_BYTES).await?;
    session.read_to(&mut reading, filled.end).await?;
    ensure!(reading.frame_bytes == filled.frame_bytes, "{} bytes of frames instead of {}", reading.frame_bytes, filled.frame_bytes);
    let other_bytes = session.received_bytes() - reading.frame_bytes;
    drop(session);
    broker.stop().await?;
    wait_for_tracer(pid, &trace).await?;

    let flows = read_trace(&trace)?;
    let to_consumer = |flow: &Flow| flow.to.as_deref() == Some(&socket);
    let from_log = |flow: &Flow| flow.from.as_deref().is_some_and(|path| path.trim_end_matches(" (deleted)").ends_with(".wal"));
    let sendfile = |flow: &Flow| flow.name == "sendfile" && from_log(flow) && to_consumer(flow);
    Ok(Proof {
        frame_bytes: reading.frame_bytes,
        other_bytes,
        deliveries: reading.deliveries,
        sent: flows.sum(sendfile),
        written: flows.sum(|flow| to_consumer(flow) && !sendfile(flow)),
        read: flows.sum(|flow| from_log(flow) && !sendfile(flow)),
        cold: flows.sum(|flow| from_log(flow) && flow.name == strace::NOT_CACHED).0,
        flows,
    })
}

/// Reads every log once, so that all of it is in the page cache.
fn warm(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            warm(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "wal") {
            let mut file = File::open(&path)?;
            let mut buffer = vec![0; 1 << 20];
            while file.read(&mut buffer)? > 0 {}
        }
    }
    Ok(())
}

/// The tracer is no child of ours: it is done when nothing more is written, which it says by the line of the broker's end.
async fn wait_for_tracer(pid: u32, trace: &Path) -> Result<()> {
    let deadline = Instant::now() + TRACE_WITHIN;
    let pid = pid.to_string();
    // The tracer pads short process ids.
    let end = [pid.as_str(), "+++", "exited", "with", "0", "+++"];
    loop {
        let text = std::fs::read_to_string(trace).with_context(|| format!("{} cannot be read", trace.display()))?;
        if text.lines().next_back().is_some_and(|line| line.split_whitespace().eq(end)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the trace has no end: {:?}", text.lines().next_back());
        sleep(Duration::from_millis(20)).await;
    }
}

fn read_trace(trace: &Path) -> Result<Flows> {
    let mut flows = Flows::default();
    let mut reader = strace::Reader::default();
    for line in BufReader::new(File::open(trace)?).lines() {
        if let Some(call) = reader.line(&line?)? {
            flows.add(call);
        }
    }
    Ok(flows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof() -> Proof {
        let (sent, written, read) = ((2, 64 << 20), (9, 500), (3, COLD_RANGE_BYTES + 60_000));
        Proof { flows: Flows::default(), frame_bytes: 64 << 20, other_bytes: 500, deliveries: 7, sent, written, read, cold: 0 }
    }

    #[test]
    fn what_adds_up_is_a_proof() {
        assert_eq!(proof().contradictions(), <[String; 0]>::default());
    }

    #[test]
    fn what_the_kernel_had_dropped_may_be_read_again() {
        let read = (9, 3 * COLD_RANGE_BYTES);
        assert_eq!(Proof { read, cold: 1, ..proof() }.contradictions().len(), 1);
        assert_eq!(Proof { read, cold: 2, ..proof() }.contradictions(), <[String; 0]>::default());
    }

    #[test]
    fn bytes_that_took_another_way_are_contradictions() {
        let copied = Proof { sent: (1, 62 << 20), written: (10, (2 << 20) + 500), read: (4, 2 << 20), ..proof() };
        assert_eq!(copied.contradictions().len(), 3, "{:?}", copied.contradictions());
        let read_as_well = Proof { read: (4, 64 << 20), ..proof() };
        assert_eq!(read_as_well.contradictions(), ["67108864 bytes of the log were read into memory"]);
    }
}

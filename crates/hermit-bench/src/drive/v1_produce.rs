//! Producers of version 1: frames that were made before, in a window or as fast as the socket takes them.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_proto::v1::{ANSWER_SIZE, Answer, Handshake};
use hermit_proto::{Offset, PartitionId, TopicName};
use serde::{Deserialize, Serialize};

use super::{Until, connect, on_threads, read_some};
use crate::clock::now;
use crate::latency::Latency;
use crate::material::{Material, Shape};
use crate::worker::{Outcome, Ready, Run};

/// Answers are read in pieces of this size.
const ANSWERS_BYTES: usize = 64 << 10;
/// One thread writes frames and reads answers while as many as this are under way: their answers fit a socket's buffer, so that neither end
/// waits for the other one to read.
const MAX_WINDOW: u64 = 6000;

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// The broker.
    pub address: SocketAddr,
    /// The topic.
    pub topic: String,
    /// Connection n writes to partition n modulo this.
    pub partitions: u32,
    /// The frames.
    pub shape: Shape,
    /// How many at once.
    pub connections: u32,
    /// Frames of a connection that are under way at most: 1 is lockstep. As many as the sockets take if not given.
    pub window: Option<u64>,
    /// When it ends.
    pub until: Until,
    /// Whether others write to the same partitions, so that offsets have gaps.
    #[serde(default)]
    pub shared: bool,
}

impl Produce {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        ensure!(self.window.is_none_or(|window| (1..=MAX_WINDOW).contains(&window)), "a window has 1 to {MAX_WINDOW} frames");
        let material = Material::new(self.shape, false)?;
        let connections = (0..self.connections).map(|number| self.open(number)).collect::<Result<Vec<_>>>()?;
        Ok((Ready::default(), Box::new(move || self.run(&material, connections))))
    }

    fn open(&self, number: u32) -> Result<(u32, TcpStream)> {
        let partition = number % self.partitions;
        let mut stream = connect(self.address)?;
        let mut bytes = Vec::new();
        Handshake::Producer { topic: TopicName::new(&self.topic)?, partition: PartitionId(partition) }.encode(&mut bytes);
        stream.write_all(&bytes)?;
        Ok((partition, stream))
    }

    fn run(&self, material: &Material, connections: Vec<(u32, TcpStream)>) -> Result<Outcome> {
        let begun = now();
        let alone = !self.shared && self.connections <= self.partitions;
        let done = on_threads(connections, |(partition, stream)| {
            let answers = Answers { next: None, answered: 0, alone, records: self.shape.records, held: Vec::new() };
            let mut connection = Connection { stream, material, answers, until: self.until, begun, times_ns: Vec::new() };
            match self.window {
                Some(window) => connection.in_window(window)?,
                None => connection.unbounded()?,
            }
            Ok((partition, connection.answers.answered, connection.times_ns))
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let mut outcome = Outcome { seconds, written: vec![0; self.partitions as usize], ..Outcome::default() };
        let mut times_ns = Vec::new();
        for (partition, frames, times) in done {
            outcome.frames += frames;
            outcome.bytes += material.sent_bytes(frames);
            outcome.written[partition as usize] += frames;
            outcome.of_writers.push(frames);
            times_ns.extend(times);
        }
        outcome.records = outcome.frames * u64::from(self.shape.records);
        outcome.latency = (!times_ns.is_empty()).then(|| Latency::of(times_ns));
        Ok(outcome)
    }
}

/// One connection at work.
struct Connection<'a> {
    stream: TcpStream,
    material: &'a Material,
    answers: Answers,
    until: Until,
    begun: Instant,
    times_ns: Vec<u64>,
}

impl Connection<'_> {
    fn is_over(&self, sent: u64) -> bool {
        self.until.is_over(self.begun, sent)
    }

    /// Writes and reads by turns: as many frames as were answered follow.
    fn in_window(&mut self, window: u64) -> Result<()> {
        let mut buffer = vec![0; ANSWERS_BYTES];
        let mut sent = 0;
        loop {
            let more = if self.is_over(sent) { 0 } else { (window - (sent - self.answers.answered)).min(self.left(sent)) };
            let wrote = now();
            self.write(sent, more)?;
            sent += more;
            if sent == self.answers.answered {
                return Ok(());
            }
            let read = read_some(&mut self.stream, &mut buffer)?;
            self.answers.take(&buffer[..read])?;
            if window == 1 && self.answers.answered == sent {
                self.times_ns.push(nanos(wrote.elapsed()));
            }
        }
    }

    fn left(&self, sent: u64) -> u64 {
        match self.until {
            Until::Seconds(_) => u64::MAX,
            Until::Count(count) => count - sent,
        }
    }

    /// Writes frames that lie beside each other in one call.
    fn write(&mut self, sent: u64, count: u64) -> Result<()> {
        let (mut number, end) = (sent, sent + count);
        let cycle = self.material.frames.len() as u64;
        while number < end {
            let run_end = end.min((number / cycle + 1) * cycle);
            let start = self.material.frames[index(number, cycle)].start;
            let stop = self.material.frames[index(run_end - 1, cycle)].end;
            self.stream.write_all(&self.material.bytes[start..stop]).context("the broker takes nothing")?;
            number = run_end;
        }
        Ok(())
    }

    /// One thread writes, another one reads the answers.
    fn unbounded(&mut self) -> Result<()> {
        let total = AtomicU64::new(u64::MAX);
        let mut writer = self.stream.try_clone()?;
        let (material, until, begun) = (self.material, self.until, self.begun);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| write_all(&mut writer, material, until, begun, &total));
            let mut buffer = vec![0; ANSWERS_BYTES];
            while self.answers.answered < total.load(Ordering::Acquire) {
                let read = read_some(&mut self.stream, &mut buffer)?;
                self.answers.take(&buffer[..read])?;
            }
            writing.join().map_err(|_panic| anyhow::anyhow!("the writer panicked"))?
        })
    }
}

/// Writes whole chunks. The total is told before the last one is written, so that whoever reads its answers knows that they are the last.
fn write_all(stream: &mut TcpStream, material: &Material, until: Until, begun: Instant, total: &AtomicU64) -> Result<()> {
    let (mut sent, cycle) = (0, material.frames.len() as u64);
    loop {
        let count = match until {
            Until::Seconds(_) => cycle,
            Until::Count(count) => cycle.min(count - sent),
        };
        let is_last = until.is_over(begun, sent + count);
        sent += count;
        if is_last {
            total.store(sent, Ordering::Release);
        }
        let end = count.checked_sub(1).map_or(0, |last| material.frames[index(last, cycle)].end);
        stream.write_all(&material.bytes[..end]).context("the broker takes nothing")?;
        if is_last {
            return Ok(());
        }
    }
}

fn index(number: u64, cycle: u64) -> usize {
    usize::try_from(number % cycle).unwrap_or(0)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Answers as they come in, in pieces.
struct Answers {
    next: Option<u64>,
    answered: u64,
    /// Whether nobody else writes to the partition, so that offsets follow each other.
    alone: bool,
    records: u32,
    held: Vec<u8>,
}

impl Answers {
    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.held.is_empty() {
            let missing = (ANSWER_SIZE - self.held.len()).min(bytes.len());
            self.held.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            let Some(answer) = self.held.first_chunk().copied() else { return Ok(()) };
            self.one(&answer)?;
            self.held.clear();
        }
        while let Some((answer, rest)) = bytes.split_first_chunk() {
            self.one(answer)?;
            bytes = rest;
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn one(&mut self, answer: &[u8; ANSWER_SIZE]) -> Result<()> {
        let Answer::Stored(Offset(offset)) = Answer::decode(answer)? else {
            anyhow::bail!("the broker refuses, after {} frames", self.answered);
        };
        if let Some(next) = self.next {
            let fits = if self.alone { offset == next } else { offset >= next };
            ensure!(fits, "a frame was stored at offset {offset} where {next} follows");
        }
        self.next = Some(offset + u64::from(self.records));
        self.answered += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(alone: bool) -> Answers {
        Answers { next: None, answered: 0, alone, records: 10, held: Vec::new() }
    }

    fn bytes(offsets: &[u64]) -> Vec<u8> {
        offsets.iter().flat_map(|offset| Answer::Stored(Offset(*offset)).encode()).collect()
    }

    #[test]
    fn answers_come_in_any_pieces() {
        let all = bytes(&[50, 60, 70]);
        for cut in 0..all.len() {
            let mut answers = answers(true);
            answers.take(&all[..cut]).unwrap();
            answers.take(&all[cut..]).unwrap();
            assert_eq!(answers.answered, 3, "cut at {cut}");
        }
    }

    #[test]
    fn a_gap_a_refusal_and_a_step_back_are_errors() {
        answers(true).take(&bytes(&[0, 20])).unwrap_err();
        answers(false).take(&bytes(&[0, 20])).unwrap();
        answers(false).take(&bytes(&[20, 20])).unwrap_err();
        answers(false).take(&Answer::Refused.encode()).unwrap_err();
    }
}

//! Producers of version 2: frames that were made before, several requests under way.

use std::collections::HashMap;
use std::io::{BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hermit_proto::session::{Acks, ProduceResponse, ProduceTarget, Response};
use hermit_proto::{CorrelationId, HEADER_SIZE, Header, PartitionId, TopicId, magic};
use serde::{Deserialize, Serialize};

use super::{Until, on_threads, session};
use crate::clock::now;
use crate::latency::Latency;
use crate::material::{Material, Shape};
use crate::worker::{Outcome, Ready, Run};

/// Requests smaller than this are gathered, up to as many bytes as one call takes.
const SMALL_BYTES: usize = 16 << 10;
const CALL_BYTES: usize = 64 << 10;
/// Bytes of an answer.
const ANSWER_BYTES: usize = HEADER_SIZE + 25;

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// The broker.
    pub address: SocketAddr,
    /// The topic's id.
    pub topic: String,
    /// Each connection writes to the partitions from its number on, in steps of the number of connections, by turns.
    pub partitions: u32,
    /// The frames.
    pub shape: Shape,
    /// Frames of a request.
    pub frames: u64,
    /// How many at once.
    pub connections: u32,
    /// Requests of a connection that are under way at most: 1 is lockstep.
    pub window: u64,
    /// When it ends; `Count` is requests.
    pub until: Until,
}

impl Produce {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        ensure!(self.frames > 0 && (1..=1000).contains(&self.window), "nothing under way, or too much");
        let material = Material::new(self.shape, false)?;
        let connections =
            (0..self.connections).map(|number| Ok((number, session::open(self.address)?))).collect::<Result<Vec<_>>>()?;
        Ok((Ready::default(), Box::new(move || self.run(&material, connections))))
    }

    fn run(&self, material: &Material, connections: Vec<(u32, TcpStream)>) -> Result<Outcome> {
        let topic: TopicId = self.topic.parse()?;
        let begun = now();
        let done = on_threads(connections, |(number, stream)| {
            let own: Vec<_> = (0..self.partitions).skip(number as usize).step_by(self.connections as usize).collect();
            // More connections than partitions: they share.
            let own = if own.is_empty() { vec![number % self.partitions] } else { own };
            let mut connection = Connection {
                stream: BufReader::with_capacity(CALL_BYTES, stream),
                load: self,
                topic,
                material,
                sent: vec![0; own.len()],
                own,
                begun,
                gathered: Vec::with_capacity(CALL_BYTES + SMALL_BYTES),
                under_way: HashMap::new(),
                times_ns: Vec::new(),
                body: Vec::new(),
            };
            connection.run()?;
            Ok((connection.own, connection.sent, connection.times_ns))
        })?;
        let mut outcome = Outcome { seconds: begun.elapsed().as_secs_f64(), ..Outcome::default() };
        outcome.written = vec![0; self.partitions as usize];
        let mut times_ns = Vec::new();
        for (own, sent, times) in done {
            for (partition, frames) in own.into_iter().zip(sent) {
                outcome.written[partition as usize] += frames;
                outcome.of_writers.push(frames);
                outcome.frames += frames;
                outcome.bytes += material.sent_bytes(frames);
            }
            times_ns.extend(times);
        }
        outcome.records = outcome.frames * u64::from(self.shape.records);
        outcome.latency = (!times_ns.is_empty()).then(|| Latency::of(times_ns));
        Ok(outcome)
    }
}

/// One connection at work.
struct Connection<'a> {
    stream: BufReader<TcpStream>,
    load: &'a Produce,
    topic: TopicId,
    material: &'a Material,
    /// Its partitions, and frames sent to each.
    own: Vec<u32>,
    sent: Vec<u64>,
    begun: Instant,
    /// Small requests that are not written yet.
    gathered: Vec<u8>,
    /// When the requests under way were made. Those to different partitions may be answered in another order.
    under_way: HashMap<u64, Instant>,
    times_ns: Vec<u64>,
    body: Vec<u8>,
}

impl Connection<'_> {
    fn run(&mut self) -> Result<()> {
        let mut requests = 0;
        loop {
            while (self.under_way.len() as u64) < self.load.window && !self.is_over(requests) {
                self.request(requests)?;
                requests += 1;
            }
            self.flush()?;
            if self.under_way.is_empty() {
                return Ok(());
            }
            self.answer()?;
            while self.stream.buffer().len() >= ANSWER_BYTES {
                self.answer()?;
            }
        }
    }

    fn is_over(&self, requests: u64) -> bool {
        self.load.until.is_over(self.begun, requests)
    }

    /// Sends the next frames to the partition whose turn it is. Correlation ids go on from the hello's.
    fn request(&mut self, number: u64) -> Result<()> {
        let turn = usize::try_from(number % self.own.len() as u64)?;
        let (partition, first) = (PartitionId(self.own[turn]), self.sent[turn]);
        let cycle = self.material.frames.len() as u64;
        // Frames of a request lie side by side: where the material ends within it, it is shorter.
        let count = self.load.frames.min(cycle - first % cycle);
        let start = self.material.frames[usize::try_from(first % cycle)?].start;
        let end = self.material.frames[usize::try_from((first + count - 1) % cycle)?].end;
        let frames = &self.material.bytes[start..end];
        let target = ProduceTarget { topic: self.topic, partition, acks: Acks::Committed };
        let head = target.encode_head(CorrelationId(number + 2), frames.len())?;
        self.under_way.insert(number + 2, now());
        self.sent[turn] += count;
        if frames.len() < SMALL_BYTES {
            self.gathered.extend_from_slice(&head);
            self.gathered.extend_from_slice(frames);
            return if self.gathered.len() < CALL_BYTES { Ok(()) } else { self.flush() };
        }
        self.flush()?;
        write_both(self.stream.get_mut(), &head, frames).context("the broker takes nothing")
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.get_mut().write_all(&self.gathered).context("the broker takes nothing")?;
        self.gathered.clear();
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).context("the broker does not answer")?;
        let header = Header::decode(&header);
        self.body.resize(usize::try_from(header.body_bytes())?, 0);
        self.stream.read_exact(&mut self.body)?;
        let sent = self.under_way.remove(&header.offset).filter(|_sent| header.magic == magic::RESPONSE);
        let sent = sent.with_context(|| format!("no answer: {header:?}"))?;
        let stored = ProduceResponse::decode_response(&header, &[], &self.body)?;
        ensure!(stored.end_offset > stored.base_offset && !stored.duplicate, "nothing was stored: {stored:?}");
        self.times_ns.push(u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }
}

/// Both in as few calls as the socket takes.
fn write_both(stream: &mut TcpStream, head: &[u8], body: &[u8]) -> std::io::Result<()> {
    let written = stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
    match written.checked_sub(head.len()) {
        Some(of_body) => stream.write_all(&body[of_body..]),
        None => {
            stream.write_all(&head[written..])?;
            stream.write_all(body)
        }
    }
}

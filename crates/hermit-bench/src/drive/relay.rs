//! In the broker's place between a producer and a consumer of version 1: what the machine makes of the same threads, wake-ups and processor time where nothing
//! is stored.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result, ensure};
use hermit_proto::v1::{ANSWER_SIZE, Handshake};
use hermit_proto::{GroupName, HEADER_SIZE, PartitionId, TopicName};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::end_to_end::GROUP;
use crate::worker::{Outcome, Ready, Run};

/// As much as the broker reads at a time.
const READ_BYTES: usize = 128 << 10;
/// Where the offset is within a frame.
const OFFSET_AT: usize = 9;

/// Answers each frame of the producer, and hands it on to the consumer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// The topic that both name.
    pub topic: String,
    /// Bytes of a payload.
    pub payload_bytes: usize,
    /// Processor time that each frame is to cost, in ns: what it costs a broker.
    pub cpu_ns: f64,
}

impl Relay {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let ready = Ready { address: Some(listener.local_addr()?) };
        Ok((ready, Box::new(move || self.run(&listener))))
    }

    fn run(&self, listener: &TcpListener) -> Result<Outcome> {
        let (topic, partition) = (TopicName::new(&self.topic)?, PartitionId(0));
        let consumer = Handshake::Consumer { group: GroupName::new(GROUP)?, topic: topic.clone(), partition };
        let mut consumer = accept(listener, &consumer)?;
        let mut producer = accept(listener, &Handshake::Producer { topic, partition })?;
        let size = HEADER_SIZE + self.payload_bytes;
        let (mut buffer, mut held, mut frames) = (vec![0; READ_BYTES], 0, 0_u64);
        let (answers, begun) = (vec![0; READ_BYTES / size * ANSWER_SIZE], thread_ns());
        loop {
            let read = producer.read(&mut buffer[held..])?;
            if read == 0 {
                return Ok(Outcome { frames, ..Outcome::default() });
            }
            held += read;
            let whole = held / size * size;
            for frame in buffer[..whole].chunks_exact_mut(size) {
                frame[OFFSET_AT..OFFSET_AT + 8].copy_from_slice(&frames.to_be_bytes());
                frames += 1;
            }
            self.spend(begun, frames);
            producer.write_all(&answers[..whole / size * ANSWER_SIZE])?;
            consumer.write_all(&buffer[..whole])?;
            buffer.copy_within(whole..held, 0);
            held -= whole;
        }
    }

    /// Computes until as much time was spent as so many frames are to cost.
    #[expect(clippy::cast_precision_loss, reason = "some seconds in ns")]
    fn spend(&self, begun: u64, frames: u64) {
        while ((thread_ns() - begun) as f64) < self.cpu_ns * frames as f64 {
            for _ in 0..100 {
                std::hint::spin_loop();
            }
        }
    }
}

/// Processor time of this thread.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn accept(listener: &TcpListener, handshake: &Handshake) -> Result<TcpStream> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut expected = Vec::new();
    handshake.encode(&mut expected);
    let mut said = vec![0; expected.len()];
    stream.read_exact(&mut said).context("no handshake")?;
    ensure!(said == expected, "not the handshake that was expected");
    Ok(stream)
}

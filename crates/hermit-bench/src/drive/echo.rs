//! What a round trip costs without any broker, alone and beside a busy processor.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::connect;
use super::raw::{fill, listen};
use crate::clock::now;
use crate::latency::Latency;
use crate::worker::{Outcome, Ready, Run};

/// Sends back what comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// Bytes at a time.
    pub bytes: usize,
}

impl Echo {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        let mut buffer = vec![0; self.bytes];
        listen(move |mut stream| {
            let mut sent = 0;
            while fill(stream, &mut buffer) && stream.write_all(&buffer).is_ok() {
                sent += buffer.len() as u64;
            }
            sent
        })
    }
}

/// Sends, waits for what comes back, and takes the time of each round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ping {
    /// The echo.
    pub address: SocketAddr,
    /// Bytes at a time.
    pub bytes: usize,
    /// How long.
    pub seconds: f64,
    /// Seconds between one round and the next, so that it is no load itself.
    pub pause: f64,
}

impl Ping {
    pub(super) fn run(&self) -> Result<Outcome> {
        let mut stream = connect(self.address)?;
        let mut buffer = vec![1; self.bytes];
        let mut times_ns = Vec::new();
        let begun = now();
        while begun.elapsed().as_secs_f64() < self.seconds {
            if self.pause > 0.0 {
                std::thread::sleep(Duration::from_secs_f64(self.pause));
            }
            let sent = now();
            stream.write_all(&buffer)?;
            ensure!(fill(&stream, &mut buffer), "the echo has hung up");
            times_ns.push(u64::try_from(sent.elapsed().as_nanos())?);
        }
        let frames = times_ns.len() as u64;
        Ok(Outcome { seconds: begun.elapsed().as_secs_f64(), frames, latency: Some(Latency::of(times_ns)), ..Outcome::default() })
    }
}

/// Keeps a processor busy for a share of each ms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Burn {
    /// From 0 to 1.
    pub share: f64,
    /// How long.
    pub seconds: f64,
}

impl Burn {
    pub(super) fn run(&self) -> Outcome {
        let begun = now();
        let busy = Duration::from_secs_f64(self.share.clamp(0.0, 1.0) / 1000.0);
        while begun.elapsed().as_secs_f64() < self.seconds {
            let turn = now();
            while turn.elapsed() < busy {
                std::hint::spin_loop();
            }
            if let Some(rest) = Duration::from_millis(1).checked_sub(turn.elapsed()) {
                std::thread::sleep(rest);
            }
        }
        Outcome { seconds: begun.elapsed().as_secs_f64(), ..Outcome::default() }
    }
}

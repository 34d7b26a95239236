//! What the machine moves through a loopback connection, without any broker.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{READ_BYTES, connect, read_some};
use crate::clock::now;
use crate::worker::{Outcome, Ready, Run};

/// Reads so many bytes of a connection, and copies them on the way as every reader does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    /// Who serves.
    pub address: SocketAddr,
    /// How much.
    pub bytes: u64,
    /// Bytes a second at most.
    pub rate: Option<f64>,
}

impl Drain {
    pub(super) fn run(&self) -> Result<Outcome> {
        let mut stream = connect(self.address)?;
        let mut buffer = vec![0; READ_BYTES];
        let begun = now();
        let mut left = self.bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            left -= read_some(&mut stream, &mut buffer[..most])? as u64;
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
            let due = self.rate.map(|rate| Duration::from_secs_f64((self.bytes - left) as f64 / rate));
            if let Some(early) = due.and_then(|due| due.checked_sub(begun.elapsed())) {
                std::thread::sleep(early);
            }
        }
        Ok(Outcome { seconds: begun.elapsed().as_secs_f64(), bytes: self.bytes, ..Outcome::default() })
    }
}

/// Sends a file from start to end, again and again, to the first who connects, until that one hangs up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendFile {
    /// The file.
    pub file: PathBuf,
    /// Bytes of a call.
    pub call_bytes: usize,
    /// Whether it waits for room before a call, as brokers do, and not within it.
    pub polls: bool,
}

impl SendFile {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        let file = File::open(&self.file).with_context(|| format!("{} cannot be read", self.file.display()))?;
        let file_bytes = file.metadata()?.len();
        ensure!(file_bytes > 0, "an empty file");
        listen(move |stream| {
            let mut sent = 0;
            if self.polls && stream.set_nonblocking(true).is_err() {
                return sent;
            }
            loop {
                match send(stream, &file, sent % file_bytes, self.call_bytes, file_bytes) {
                    Ok(moved) => sent += moved,
                    Err(Errno::AGAIN) if has_room(stream) => {}
                    Err(_) => return sent,
                }
            }
        })
    }
}

/// Waits until there is room.
fn has_room(stream: &TcpStream) -> bool {
    poll(&mut [PollFd::new(stream, PollFlags::OUT)], None).is_ok()
}

fn send(stream: &TcpStream, file: &File, mut at: u64, call_bytes: usize, file_bytes: u64) -> rustix::io::Result<u64> {
    let most = usize::try_from(file_bytes - at).unwrap_or(usize::MAX).min(call_bytes);
    Ok(rustix::fs::sendfile(stream, file, Some(&mut at), most)? as u64)
}

/// Writes to the first who connects, from one buffer, until that one hangs up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes of a call.
    pub call_bytes: usize,
}

impl Stream {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        let buffer = vec![7; self.call_bytes];
        listen(move |mut stream| {
            let mut sent = 0;
            while let Ok(written) = stream.write(&buffer) {
                sent += written as u64;
            }
            sent
        })
    }
}

/// Listens, and serves the first who connects.
pub(super) fn listen(serve: impl FnOnce(&TcpStream) -> u64 + 'static) -> Result<(Ready, Run)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ready = Ready { address: Some(listener.local_addr()?) };
    let run = move || {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let bytes = serve(&stream);
        Ok(Outcome { bytes, ..Outcome::default() })
    };
    Ok((ready, Box::new(run)))
}

/// Reads exactly so many bytes, or tells that the other end has hung up.
pub(super) fn fill(mut stream: &TcpStream, buffer: &mut [u8]) -> bool {
    stream.read_exact(buffer).is_ok()
}

//! Batches of JSON over HTTP, one request after the other on each connection.

use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Until, connect, on_threads, read_some};
use crate::clock::now;
use crate::worker::{Outcome, Ready, Run};

/// What is sent to where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Produce {
    /// Of HTTP.
    pub address: SocketAddr,
    /// The topic's name.
    pub topic: String,
    /// Connections, each with one request under way.
    pub connections: u32,
    /// Records of a request.
    pub records: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// For so long.
    pub seconds: f64,
}

impl Produce {
    /// Connects, and makes the request.
    ///
    /// # Errors
    ///
    /// When nobody is there.
    pub fn prepare(self) -> Result<(Ready, Run)> {
        let request = self.request();
        let streams = (0..self.connections).map(|_| connect(self.address)).collect::<Result<Vec<_>>>()?;
        let run = move || {
            let begun = now();
            let sent = on_threads(streams, |mut stream| {
                let (mut requests, mut answer) = (0u64, Vec::new());
                while !Until::Seconds(self.seconds).is_over(begun, requests) {
                    stream.write_all(&request).context("a request is not taken")?;
                    read_answer(&mut stream, &mut answer)?;
                    requests += 1;
                }
                Ok(requests)
            })?;
            let requests: u64 = sent.iter().sum();
            let (records, bytes) = (requests * u64::from(self.records), requests * request.len() as u64);
            Ok(Outcome { seconds: begun.elapsed().as_secs_f64(), frames: records, records, bytes, ..Outcome::default() })
        };
        Ok((Ready::default(), Box::new(run)))
    }

    fn request(&self) -> Vec<u8> {
        let value = "x".repeat(self.value_bytes);
        let records: Vec<_> = (0..self.records).map(|_| format!("{{\"value\":\"{value}\"}}")).collect();
        let body = format!("{{\"records\":[{}]}}", records.join(","));
        let head = format!(
            "POST /api/v1/topics/{}/records HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.topic,
            self.address,
            body.len()
        );
        [head, body].concat().into_bytes()
    }
}

/// Reads one answer, which is to be a success.
fn read_answer(stream: &mut std::net::TcpStream, answer: &mut Vec<u8>) -> Result<()> {
    answer.clear();
    let mut chunk = [0; 4096];
    loop {
        let read = read_some(stream, &mut chunk)?;
        answer.extend_from_slice(chunk.get(..read).unwrap_or_default());
        let text = String::from_utf8_lossy(answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        ensure!(head.starts_with("HTTP/1.1 200 "), "the broker refused: {text}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.context("an answer without a length")?.parse()?;
        if body.len() >= length {
            ensure!(body.contains("next_offset"), "no answer to producing: {text}");
            return Ok(());
        }
    }
}

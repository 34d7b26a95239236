//! Clients of protocol version 1.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hermit_proto::v1::{ANSWER_SIZE, Answer, Handshake};
use hermit_proto::{GroupName, HEADER_SIZE, Header, Offset, PartitionId, TopicName, magic};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any frame takes; what is not there by then does not come.
const FRAME_WITHIN: Duration = Duration::from_secs(60);

/// A consumer of one partition.
#[derive(Debug)]
pub struct V1Consumer {
    stream: BufReader<TcpStream>,
    /// The offset that comes next.
    pub next: Offset,
    /// Bytes of frames so far.
    pub frame_bytes: u64,
    body: Vec<u8>,
}

impl V1Consumer {
    /// Connects and asks for the frames of a partition. The group has committed nothing.
    ///
    /// # Errors
    ///
    /// When there is no broker.
    pub async fn open(address: SocketAddr, group: &str, topic: &str) -> Result<Self> {
        let (group, topic, partition) = (GroupName::new(group)?, TopicName::new(topic)?, PartitionId(0));
        let stream = BufReader::new(connect(address, &Handshake::Consumer { group, topic, partition }).await?);
        Ok(Self { stream, next: Offset(0), frame_bytes: 0, body: Vec::new() })
    }

    /// Waits for a frame.
    ///
    /// # Errors
    ///
    /// When the broker is gone, or the frame is not the one that follows.
    pub async fn frame(&mut self) -> Result<()> {
        timeout(FRAME_WITHIN, self.read_frame()).await.context("the broker sends nothing")?
    }

    async fn read_frame(&mut self) -> Result<()> {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).await.context("the broker has closed the connection")?;
        let header = Header::decode(&header);
        ensure!(header.magic == magic::DATA_V1 && header.offset == self.next.0, "not the frame that follows: {header:?}");
        self.body.resize(usize::try_from(header.body_bytes())?, 0);
        self.stream.read_exact(&mut self.body).await.context("the broker has closed the connection within a frame")?;
        self.next = Offset(header.offset + u64::from(header.record_count));
        self.frame_bytes += HEADER_SIZE as u64 + header.body_bytes();
        Ok(())
    }

    /// Key and payload of the last frame.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Waits for frames up to an offset.
    ///
    /// # Errors
    ///
    /// As those of [`frame`](Self::frame).
    pub async fn read_to(&mut self, end: Offset) -> Result<()> {
        while self.next < end {
            self.frame().await?;
        }
        Ok(())
    }
}

/// A producer, which may announce frames and not keep its word.
#[derive(Debug)]
pub struct V1Producer {
    stream: TcpStream,
}

impl V1Producer {
    /// Connects as a producer of a topic's first partition.
    ///
    /// # Errors
    ///
    /// When there is no broker.
    pub async fn open(address: SocketAddr, topic: &str) -> Result<Self> {
        let handshake = Handshake::Producer { topic: TopicName::new(topic)?, partition: PartitionId(0) };
        Ok(Self { stream: connect(address, &handshake).await? })
    }

    /// Announces a frame and sends the beginning of its payload.
    ///
    /// # Errors
    ///
    /// When the broker is gone.
    pub async fn begin_frame(&mut self, payload_size: u32, sent: &[u8]) -> Result<()> {
        let header = Header { magic: magic::DATA_V1, timestamp: 0, offset: 0, key_size: 0, payload_size, record_count: 1 };
        self.stream.write_all(&header.encode()).await?;
        Ok(self.stream.write_all(sent).await?)
    }

    /// Sends more of it.
    ///
    /// # Errors
    ///
    /// When the broker is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Sends a whole frame, and waits for the answer.
    ///
    /// # Errors
    ///
    /// When the broker refuses it, or is gone.
    pub async fn produce(&mut self, payload: &[u8]) -> Result<Offset> {
        self.begin_frame(u32::try_from(payload.len())?, payload).await?;
        let mut answer = [0; ANSWER_SIZE];
        let read = timeout(FRAME_WITHIN, self.stream.read_exact(&mut answer)).await.context("the broker does not answer")?;
        read.context("the broker has closed the connection")?;
        match Answer::decode(&answer)? {
            Answer::Stored(offset) => Ok(offset),
            Answer::Refused => bail!("the broker refuses it for now"),
        }
    }
}

async fn connect(address: SocketAddr, handshake: &Handshake) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    handshake.encode(&mut bytes);
    stream.write_all(&bytes).await?;
    Ok(stream)
}

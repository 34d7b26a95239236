//! A version-2 session that counts every byte that it receives.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::BytesMut;
use hermit_proto::session::{
    Acks, CreateTopicRequest, DeliveryError, DeliveryHead, HelloRequest, ProduceResponse, ProduceTarget, Request, Response,
    SubscribeRequest, TopicConfig,
};
use hermit_proto::{
    CorrelationId, FrameLimits, FrameSalt, FrameView, HEADER_SIZE, Header, LeaderEpoch, Offset, PartitionId, TopicId, magic,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Longer than any answer takes; what is not there by then does not come.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// An open session.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    last_correlation: u64,
    /// Key and payload of the unit read last.
    body: Vec<u8>,
    received_bytes: u64,
}

/// A subscription, and how far it has come.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    id: CorrelationId,
    salt: FrameSalt,
    /// The offset that comes next.
    pub next: Offset,
    /// Deliveries so far.
    pub deliveries: u64,
    /// Frames so far.
    pub frames: u64,
    /// Bytes of these frames.
    pub frame_bytes: u64,
}

impl Session {
    /// Connects and says hello.
    ///
    /// # Errors
    ///
    /// When there is no broker, or it refuses.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        Self::begin(stream, &HelloRequest::new("hermit-torture")).await
    }

    /// Connects from an address of this machine, and says hello so.
    ///
    /// # Errors
    ///
    /// When there is no broker, or it refuses.
    pub async fn open_as(from: IpAddr, address: SocketAddr, hello: &HelloRequest) -> Result<Self> {
        let socket = if from.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind((from, 0).into()).with_context(|| format!("cannot connect from {from}"))?;
        let stream = socket.connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        Self::begin(stream, hello).await
    }

    async fn begin(stream: TcpStream, hello: &HelloRequest) -> Result<Self> {
        stream.set_nodelay(true)?;
        let mut session = Self { stream, last_correlation: 0, body: Vec::new(), received_bytes: 0 };
        session.ask(hello).await?;
        Ok(session)
    }

    /// This end of the connection.
    ///
    /// # Errors
    ///
    /// When it is closed.
    pub fn local_address(&self) -> Result<SocketAddr> {
        Ok(self.stream.local_addr()?)
    }

    /// All bytes received so far, frames and all else.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Sends a request and waits for its answer. Not for use while deliveries are coming.
    ///
    /// # Errors
    ///
    /// When the broker refuses, or is gone.
    pub async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Response> {
        let correlation = self.next_correlation();
        let mut bytes = BytesMut::new();
        request.encode(correlation, &mut bytes)?;
        self.stream.write_all(&bytes).await?;
        self.answer(correlation).await.with_context(|| format!("{} failed", R::OPERATION))
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// As those of [`ask`](Self::ask).
    pub async fn create_topic(&mut self, name: &str, partitions: u32, config: TopicConfig) -> Result<TopicId> {
        Ok(self.ask(&CreateTopicRequest { name: name.to_owned(), partitions, config }).await?.topic)
    }

    /// Appends frames to a partition and waits until that is answered.
    ///
    /// # Errors
    ///
    /// As those of [`ask`](Self::ask).
    pub async fn produce(&mut self, topic: TopicId, partition: PartitionId, frames: &[u8]) -> Result<ProduceResponse> {
        let correlation = self.begin_produce(topic, partition, frames.len()).await?;
        self.stream.write_all(frames).await?;
        self.answer(correlation).await.context("producing failed")
    }

    /// Announces frames, and sends none of them.
    ///
    /// # Errors
    ///
    /// When the broker is gone.
    pub async fn begin_produce(&mut self, topic: TopicId, partition: PartitionId, frames_bytes: usize) -> Result<CorrelationId> {
        let correlation = self.next_correlation();
        let target = ProduceTarget { topic, partition, acks: Acks::Committed };
        self.stream.write_all(&target.encode_head(correlation, frames_bytes)?).await?;
        Ok(correlation)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    ///
    /// When the broker is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Begins to read a partition at its start.
    ///
    /// # Errors
    ///
    /// As those of [`ask`](Self::ask).
    pub async fn subscribe(&mut self, topic: TopicId, partition: PartitionId, credit_bytes: u64) -> Result<Reading> {
        let id = CorrelationId(self.last_correlation + 1);
        let request = SubscribeRequest { topic, partition, offset: Offset(0), leader_epoch: LeaderEpoch::UNKNOWN, credit_bytes };
        let next = self.ask(&request).await?.start_offset;
        Ok(Reading { id, salt: FrameSalt::new(topic, partition), next, deliveries: 0, frames: 0, frame_bytes: 0 })
    }

    /// Waits for a delivery, and checks the sums of its frames and that their offsets follow each other.
    ///
    /// # Errors
    ///
    /// When the broker reports one, is gone, or something does not fit.
    pub async fn delivery(&mut self, reading: &mut Reading) -> Result<()> {
        self.delivery_with(reading, |_payload| {}).await
    }

    /// The same; `each` is given the payload of each frame.
    ///
    /// # Errors
    ///
    /// As those of [`delivery`](Self::delivery).
    pub async fn delivery_with(&mut self, reading: &mut Reading, mut each: impl FnMut(&[u8])) -> Result<()> {
        let header = self.unit().await?;
        ensure!(header.magic == magic::DELIVERY && header.offset == reading.id.0, "no delivery: {header:?}");
        let (key, mut frames) = self.body.split_at(usize::try_from(header.key_size)?);
        if header.record_count != 0 {
            bail!("the subscription reports: {}", DeliveryError::decode(&header, frames)?.error);
        }
        let head = DeliveryHead::decode(key)?;
        reading.deliveries += 1;
        reading.frame_bytes += u64::from(header.payload_size);
        while !frames.is_empty() {
            let (frame, rest) = FrameView::split(frames, &FrameLimits::default())?;
            frame.verify_frame(&reading.salt)?;
            frame.verify_body()?;
            ensure!(frame.prefix.offset() == reading.next, "offset {} where {} follows", frame.prefix.offset(), reading.next);
            reading.next = frame.prefix.next_offset();
            reading.frames += 1;
            each(frame.payload());
            frames = rest;
        }
        ensure!(reading.next == head.next_offset, "frames up to {}, but {} is announced", reading.next, head.next_offset);
        Ok(())
    }

    /// Waits for deliveries up to an offset.
    ///
    /// # Errors
    ///
    /// As those of [`delivery`](Self::delivery).
    pub async fn read_to(&mut self, reading: &mut Reading, end: Offset) -> Result<()> {
        while reading.next < end {
            self.delivery(reading).await?;
        }
        Ok(())
    }

    fn next_correlation(&mut self) -> CorrelationId {
        self.last_correlation += 1;
        CorrelationId(self.last_correlation)
    }

    async fn answer<R: Response>(&mut self, correlation: CorrelationId) -> Result<R> {
        let header = self.unit().await?;
        ensure!(header.magic == magic::RESPONSE && header.offset == correlation.0, "no answer: {header:?}");
        let (key, payload) = self.body.split_at(usize::try_from(header.key_size)?);
        Ok(R::decode_response(&header, key, payload)?)
    }

    /// Reads a unit; its key and payload stay in `body`.
    async fn unit(&mut self) -> Result<Header> {
        timeout(ANSWER_WITHIN, self.read_unit()).await.context("the broker does not answer")?
    }

    async fn read_unit(&mut self) -> Result<Header> {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).await.context("the broker has closed the connection")?;
        let header = Header::decode(&header);
        self.body.resize(usize::try_from(header.body_bytes())?, 0);
        self.stream.read_exact(&mut self.body).await.context("the broker has closed the connection within a unit")?;
        self.received_bytes += HEADER_SIZE as u64 + header.body_bytes();
        Ok(header)
    }
}

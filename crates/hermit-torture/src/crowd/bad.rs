//! The others: each does one thing that no good client does, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::BytesMut;
use hermit_proto::session::{
    Acks, HeartbeatRequest, HelloRequest, ListOffsetsRequest, MetadataRequest, OffsetQuery, ProduceTarget, Request,
    SubscribeRequest, TopicSelection,
};
use hermit_proto::v1::Handshake;
use hermit_proto::{CorrelationId, GroupName, Header, LeaderEpoch, Offset, PartitionId, TopicId, TopicName, magic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::good::{Tally, rest};

/// Bytes of a flood that are sent at a time.
const FLOOD_BYTES: usize = 64 << 10;
/// How much of a large frame is sent before the sender stalls.
const STALLED_BYTES: usize = 200 << 10;
const ANNOUNCED_BYTES: u32 = (50 << 20) - 4096;

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Connects and says nothing.
    Silent,
    /// Sends its handshake a byte a second.
    Loris,
    /// Sends bytes that are no protocol.
    Garbage,
    /// Sends frames cut anywhere, and closes.
    Cut,
    /// Announces 50 MiB, sends some of it, and stalls.
    Announcing,
    /// Sends 50 MiB slowly.
    Trickling,
    /// Sends requests of every kind and reads no answer.
    Flooding,
    /// Reads a topic from its start, a byte a second.
    NotReading,
    /// A version-1 consumer of a topic that nobody writes.
    IdleV1,
    /// A version-2 session that sends no heartbeats.
    IdleV2,
}

impl Behaviour {
    const ALL: [Self; 10] = [
        Self::Silent,
        Self::Loris,
        Self::Garbage,
        Self::Cut,
        Self::Announcing,
        Self::Trickling,
        Self::Flooding,
        Self::NotReading,
        Self::IdleV1,
        Self::IdleV2,
    ];

    /// Each in turn; of floods there are few, as each of them takes what it can get of a processor.
    #[must_use]
    pub fn of(number: usize) -> Self {
        match Self::ALL[number % Self::ALL.len()] {
            Self::Flooding if number % 100 != 6 => Self::Silent,
            behaviour => behaviour,
        }
    }
}

/// Behaves so, and comes again whenever it was closed.
pub(super) async fn run(address: SocketAddr, behaviour: Behaviour, topic: (String, TopicId), tally: Arc<Tally>) {
    loop {
        // Whatever came of it: that is what such a client gets.
        let _closed = behave(address, behaviour, &topic).await;
        tally.closes();
        rest().await;
    }
}

async fn behave(address: SocketAddr, behaviour: Behaviour, (name, topic): &(String, TopicId)) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let partition = PartitionId(0);
    match behaviour {
        Behaviour::Silent => until_closed(&mut stream).await,
        Behaviour::Loris => {
            for byte in hello()? {
                stream.write_all(&[byte]).await?;
                sleep(Duration::from_secs(1)).await;
            }
            until_closed(&mut stream).await
        }
        Behaviour::Garbage => {
            let garbage: Vec<u8> = (0..fastrand::usize(1..4000)).map(|_| fastrand::u8(..)).collect();
            stream.write_all(&garbage).await?;
            until_closed(&mut stream).await
        }
        Behaviour::Cut => {
            stream.write_all(&v1_producer(name)?).await?;
            let mut frame = announced(1000).to_vec();
            frame.truncate(fastrand::usize(1..frame.len()));
            Ok(stream.write_all(&frame).await?)
        }
        Behaviour::Announcing => {
            stream.write_all(&v1_producer(name)?).await?;
            stream.write_all(&announced(ANNOUNCED_BYTES)).await?;
            stream.write_all(&vec![0; STALLED_BYTES]).await?;
            until_closed(&mut stream).await
        }
        Behaviour::Trickling => {
            stream.write_all(&hello()?).await?;
            let target = ProduceTarget { topic: *topic, partition, acks: Acks::Committed };
            stream.write_all(&target.encode_head(CorrelationId(2), ANNOUNCED_BYTES as usize)?).await?;
            loop {
                stream.write_all(&[0; 8 << 10]).await?;
                sleep(Duration::from_millis(500)).await;
            }
        }
        Behaviour::Flooding => {
            stream.write_all(&hello()?).await?;
            let flood = flood(*topic)?;
            loop {
                stream.write_all(&flood).await?;
                tokio::task::yield_now().await;
            }
        }
        Behaviour::NotReading => {
            stream.write_all(&hello()?).await?;
            let subscribe = SubscribeRequest {
                topic: *topic,
                partition,
                offset: Offset(0),
                leader_epoch: LeaderEpoch::UNKNOWN,
                credit_bytes: u64::MAX >> 1,
            };
            stream.write_all(&encoded(&subscribe, 2)?).await?;
            while stream.read(&mut [0]).await? > 0 {
                sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        Behaviour::IdleV1 => {
            let (group, topic) = (GroupName::new("idle")?, TopicName::new("nobody-writes-this")?);
            let mut handshake = Vec::new();
            Handshake::Consumer { group, topic, partition }.encode(&mut handshake);
            stream.write_all(&handshake).await?;
            until_closed(&mut stream).await
        }
        Behaviour::IdleV2 => {
            stream.write_all(&hello()?).await?;
            until_closed(&mut stream).await
        }
    }
}

async fn until_closed(stream: &mut TcpStream) -> Result<()> {
    let mut room = [0; 1024];
    while stream.read(&mut room).await? > 0 {}
    Ok(())
}

fn encoded(request: &impl Request, correlation: u64) -> Result<BytesMut> {
    let mut bytes = BytesMut::new();
    request.encode(CorrelationId(correlation), &mut bytes)?;
    Ok(bytes)
}

fn hello() -> Result<BytesMut> {
    encoded(&HelloRequest::new("crowd"), 1)
}

fn v1_producer(topic: &str) -> Result<Vec<u8>> {
    let mut handshake = Vec::new();
    Handshake::Producer { topic: TopicName::new(topic)?, partition: PartitionId(0) }.encode(&mut handshake);
    Ok(handshake)
}

fn announced(payload_size: u32) -> [u8; 29] {
    Header { magic: magic::DATA_V1, timestamp: 0, offset: 0, key_size: 0, payload_size, record_count: 1 }.encode()
}

fn flood(topic: TopicId) -> Result<BytesMut> {
    let mut flood = BytesMut::new();
    let mut correlation = 10;
    while flood.len() < FLOOD_BYTES {
        correlation += 3;
        flood.extend_from_slice(&encoded(&HeartbeatRequest, correlation)?);
        let all = MetadataRequest { topics: TopicSelection::All, create_missing: false };
        flood.extend_from_slice(&encoded(&all, correlation + 1)?);
        let query = ListOffsetsRequest { topic, partition: PartitionId(0), query: OffsetQuery::AtOrAfter(1) };
        flood.extend_from_slice(&encoded(&query, correlation + 2)?);
    }
    Ok(flood)
}

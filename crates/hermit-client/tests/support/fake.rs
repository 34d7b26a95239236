//! A broker that says what a test tells it to.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use hermit_client::{
    Client, ClientBuilder, Delivery, Offset, PartitionId, Producer, ProducerRecord, SessionLimits, Status, TopicConfig, TopicId,
    TopicMetadata, WireError,
};
use hermit_proto::session::{
    HelloRequest, HelloResponse, InitProducerIdResponse, Message, MetadataRequest, MetadataResponse, Operation, PartitionMetadata,
    ProduceResponse, ProduceTarget, Response,
};
use hermit_proto::{
    CorrelationId, Deframer, FrameLimits, FrameView, Header, LeaderEpoch, ProducerEpoch, ProducerId, Unit, UnitLimits, magic,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{builder, within};

pub const TOPIC: TopicId = TopicId(0xABCD);

pub struct Fake {
    pub address: SocketAddr,
    listener: TcpListener,
}

/// One connection.
pub struct Peer {
    stream: TcpStream,
    deframer: Deframer,
    /// How many partitions each topic has.
    pub partitions: u32,
}

/// A produce request.
pub struct Produced {
    pub correlation: CorrelationId,
    pub partition: PartitionId,
    pub first_sequence: Option<i32>,
    pub producer_id: Option<i64>,
    pub record_count: u32,
    pub frames: Vec<u8>,
}

pub const LIMITS: SessionLimits = SessionLimits {
    max_frame_bytes: 1 << 20,
    max_records: 1000,
    max_request_bytes: 2 << 20,
    max_subscriptions: 16,
    heartbeat_interval_ms: 0,
};

impl Fake {
    pub async fn start() -> Self {
        Self::start_at(std::net::Ipv4Addr::LOCALHOST.into()).await
    }

    pub async fn start_at(address: std::net::IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        Self { address: listener.local_addr().unwrap(), listener }
    }

    /// The next connection, before its hello.
    pub async fn accept_raw(&self) -> Peer {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let limits = UnitLimits { max_key_bytes: 1024, max_body_bytes: 64 << 20 };
        Peer { stream, deframer: Deframer::new(&[magic::REQUEST], limits), partitions: 1 }
    }

    /// The next connection, with its hello answered.
    pub async fn accept(&self) -> Peer {
        let mut peer = self.accept_raw().await;
        let hello = peer.recv().await;
        HelloRequest::decode(hello.key(), hello.payload()).unwrap();
        peer.respond(hello.correlation(), &hello_response()).await;
        peer
    }
}

pub fn hello_response() -> HelloResponse {
    HelloResponse { version: 1, features: 0, broker: "fake".into(), broker_id: 1, instance: 1, limits: LIMITS }
}

pub fn topic(name: &str, partitions: u32, compaction: bool) -> TopicMetadata {
    let partitions = (0..partitions)
        .map(|partition| PartitionMetadata {
            partition: PartitionId(partition),
            status: Status::Ok,
            leader_epoch: LeaderEpoch(0),
            log_start: Offset(0),
            high_watermark: Offset(0),
            log_bytes: 0,
        })
        .collect();
    let config = TopicConfig { compaction: Some(compaction), ..TopicConfig::default() };
    TopicMetadata { name: name.into(), topic: TOPIC, config, partitions }
}

impl Peer {
    /// The next request.
    pub async fn recv(&mut self) -> Unit {
        within(async {
            loop {
                if let Some(unit) = self.deframer.next_unit().unwrap() {
                    if unit.header().record_count == Operation::Heartbeat.number() {
                        continue;
                    }
                    return unit;
                }
                let read = self.stream.read_buf(self.deframer.buffer()).await.unwrap();
                assert!(read > 0, "the client hung up");
            }
        })
        .await
    }

    /// The next request; `None` when the client hung up. Can be cancelled.
    pub async fn next(&mut self) -> Option<Unit> {
        loop {
            while let Some(unit) = self.deframer.next_unit().unwrap() {
                if unit.header().record_count != Operation::Heartbeat.number() {
                    return Some(unit);
                }
            }
            if self.stream.read_buf(self.deframer.buffer()).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// The client hangs up without having said anything.
    pub async fn hung_up_silently(&mut self) {
        let read = within(self.stream.read_buf(self.deframer.buffer())).await;
        assert!(matches!(read, Ok(0) | Err(_)), "it said something");
    }

    /// Waits for the client to hang up; requests before that are dropped.
    pub async fn hung_up(&mut self) {
        within(async {
            loop {
                while self.deframer.next_unit().unwrap().is_some() {}
                match self.stream.read_buf(self.deframer.buffer()).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        })
        .await;
    }

    /// The next request of this operation; those for metadata and producer ids are answered on the way.
    pub async fn expect(&mut self, operation: Operation) -> Unit {
        loop {
            let unit = self.recv().await;
            let found = Operation::from_number(unit.header().record_count).unwrap();
            if found == operation {
                return unit;
            }
            match found {
                Operation::Metadata => {
                    let request = MetadataRequest::decode(unit.key(), unit.payload()).unwrap();
                    let hermit_proto::session::TopicSelection::Names(names) = request.topics else { panic!("by name only") };
                    let topics = names.iter().map(|name| topic(name, self.partitions, name.starts_with("compacted"))).collect();
                    self.respond(unit.correlation(), &MetadataResponse { topics, missing: Vec::new() }).await;
                }
                Operation::InitProducerId => {
                    let given = InitProducerIdResponse {
                        producer_id: ProducerId(i64::try_from(unit.correlation().0).unwrap()),
                        producer_epoch: ProducerEpoch(0),
                    };
                    self.respond(unit.correlation(), &given).await;
                }
                other => panic!("{other} instead of {operation}"),
            }
        }
    }

    pub async fn expect_produce(&mut self) -> Produced {
        let unit = self.expect(Operation::Produce).await;
        let target = ProduceTarget::decode(unit.key()).unwrap();
        let correlation = unit.correlation();
        let frames = unit.payload().to_vec();
        let (view, _) = FrameView::split(&frames, &FrameLimits::default()).unwrap();
        view.verify_body().unwrap();
        let producer = view.prefix.producer();
        Produced {
            correlation,
            partition: target.partition,
            first_sequence: producer.map(|producer| producer.first_sequence.0),
            producer_id: producer.map(|producer| producer.id.0),
            record_count: view.prefix.header.record_count,
            frames: frames.clone(),
        }
    }

    pub async fn stored(&mut self, produced: &Produced, base: u64) {
        let answer = ProduceResponse {
            base_offset: Offset(base),
            end_offset: Offset(base + u64::from(produced.record_count)),
            append_time: 1,
            duplicate: false,
        };
        self.respond(produced.correlation, &answer).await;
    }

    pub async fn respond<R: Response>(&mut self, correlation: CorrelationId, response: &R) {
        let mut out = BytesMut::new();
        response.encode(correlation, &mut out).unwrap();
        self.send(&out).await;
    }

    pub async fn refuse(&mut self, correlation: CorrelationId, error: WireError) {
        let mut out = BytesMut::new();
        error.encode(correlation, &mut out);
        self.send(&out).await;
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        // A client that hung up is what some tests want.
        drop(self.stream.write_all(bytes).await);
    }
}

/// A client whose connection is open at the fake.
pub async fn connected(change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Fake, Client, Peer) {
    let fake = Fake::start().await;
    let client = change(builder(fake.address)).start().unwrap();
    let peer = fake.accept().await;
    (fake, client, peer)
}

/// Sends a record, up to the request for it.
pub async fn send(producer: &Producer, peer: &mut Peer, value: &str) -> (Delivery, Produced) {
    let record = ProducerRecord::new(value).key("k");
    let (delivery, produced) = within(async { tokio::join!(producer.enqueue("t", record), peer.expect_produce()) }).await;
    (delivery.unwrap(), produced)
}

/// A producer that does not linger.
pub fn prompt(client: &Client) -> Producer {
    client.producer().linger(Duration::ZERO).build().unwrap()
}

/// The header of a response without a body.
pub fn response_header(correlation: CorrelationId, status: u32) -> Header {
    Header { magic: magic::RESPONSE, timestamp: 0, offset: correlation.0, key_size: 0, payload_size: 0, record_count: status }
}

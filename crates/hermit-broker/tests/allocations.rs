//! In steady state the broker allocates for a read, a request or a delivery, but never for a frame.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

mod counting;

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::testing::TestBroker;
use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::session::{
    Acks, CreateTopicRequest, Durability, HelloRequest, ProduceTarget, Request, Response, ResponseError, SubscribeRequest,
    TopicConfig,
};
use hermit_proto::v1::{ANSWER_SIZE, Handshake};
use hermit_proto::{
    Codec, CorrelationId, Deframer, Header, LeaderEpoch, Offset, PREFIX_SIZE, PartitionId, ProducedFrame, TopicId, Unit,
    UnitLimits, magic,
};

/// Frames by which the measured rounds differ. One allocation for every twentieth of them is too many.
const FRAMES: usize = 10_000;
const MOST_ALLOCATIONS: u64 = FRAMES as u64 / 20;
/// Frames in one write, or in one request.
const CHUNK: usize = 500;
const PAYLOAD: [u8; 100] = [7; 100];

struct Client {
    stream: TcpStream,
    deframer: Deframer,
}

impl Client {
    fn connect(broker: &TestBroker) -> Self {
        let stream = TcpStream::connect(broker.addr()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let limits = UnitLimits { max_key_bytes: 1 << 20, max_body_bytes: 1 << 30 };
        Self { stream, deframer: Deframer::new(&[magic::RESPONSE, magic::DELIVERY], limits) }
    }

    fn version_1(broker: &TestBroker, handshake: &Handshake) -> Self {
        let mut client = Self::connect(broker);
        let mut bytes = Vec::new();
        handshake.encode(&mut bytes);
        client.stream.write_all(&bytes).unwrap();
        client
    }

    fn version_2(broker: &TestBroker) -> Self {
        let mut client = Self::connect(broker);
        client.call(&HelloRequest::new("test"));
        client
    }

    fn unit(&mut self) -> Unit {
        loop {
            if let Some(unit) = self.deframer.next_unit().unwrap() {
                return unit;
            }
            let mut bytes = [0; 64 << 10];
            let read = self.stream.read(&mut bytes).unwrap();
            assert!(read > 0, "the broker has closed");
            self.deframer.extend(&bytes[..read]);
        }
    }

    fn call<Q: Request>(&mut self, request: &Q) -> Q::Response {
        let mut bytes = BytesMut::new();
        request.encode(CorrelationId(1), &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
        let unit = self.unit();
        let answered: Result<_, ResponseError> = Q::Response::decode_response(unit.header(), unit.key(), unit.payload());
        answered.unwrap()
    }

    fn create(&mut self, name: &str, durability: Durability) -> TopicId {
        let config = TopicConfig { durability: Some(durability), ..TopicConfig::default() };
        self.call(&CreateTopicRequest { name: name.into(), partitions: 1, config }).topic
    }

    /// Sends single frames as version 1 does, and takes the answers.
    fn produce_version_1(&mut self, frames: usize) {
        let size = u32::try_from(PAYLOAD.len()).unwrap();
        let header = Header { magic: 1, timestamp: 5, offset: 0, key_size: 0, payload_size: size, record_count: 1 };
        let chunk = [&header.encode()[..], &PAYLOAD].concat().repeat(CHUNK);
        let mut answers = [1; CHUNK * ANSWER_SIZE];
        for _ in 0..frames / CHUNK {
            self.stream.write_all(&chunk).unwrap();
            self.stream.read_exact(&mut answers).unwrap();
            assert!(answers.as_chunks::<ANSWER_SIZE>().0.iter().all(|answer| answer[0] == 0));
        }
    }

    /// Sends [`CHUNK`] single frames in a write, `together` of them in a request, and takes the answers.
    fn produce_version_2(&mut self, topic: TopicId, frames: usize, together: usize) {
        let request = ProducedFrame::message(5, None, &PAYLOAD).to_vec().unwrap().repeat(together);
        let target = ProduceTarget { topic, partition: PartitionId(0), acks: Acks::Committed };
        let mut bytes = BytesMut::new();
        for _ in 0..CHUNK / together {
            target.encode(CorrelationId(2), &request, &mut bytes).unwrap();
        }
        for _ in 0..frames / CHUNK {
            self.stream.write_all(&bytes).unwrap();
            for _ in 0..CHUNK / together {
                let unit = self.unit();
                assert_eq!((unit.header().magic, unit.header().record_count), (magic::RESPONSE, 0));
            }
        }
    }
}

/// Allocations of the broker for `work` with [`FRAMES`] frames more. The client's do not count.
fn grows_by(work: impl FnMut(usize)) -> u64 {
    counting::grows_by(FRAMES, counting::elsewhere, work)
}

/// Topics with [`FRAMES`], as many, and twice as many frames, which a consumer reads from its start.
fn consumed(mut fill: impl FnMut(&str, usize), mut consume: impl FnMut(&str, usize)) -> u64 {
    let names = ["first", "second", "third"];
    for (name, frames) in names.iter().zip([FRAMES, FRAMES, 2 * FRAMES]) {
        fill(name, frames);
    }
    let mut names = names.iter();
    grows_by(|frames| consume(names.next().unwrap(), frames))
}

fn consume_version_1(broker: &TestBroker, topic: &str, frames: usize) {
    let (group, topic) = ("g".parse().unwrap(), topic.parse().unwrap());
    let mut client = Client::version_1(broker, &Handshake::Consumer { group, topic, partition: PartitionId(0) });
    let mut frame = [0; 29 + PAYLOAD.len()];
    for offset in 0..frames {
        client.stream.read_exact(&mut frame).unwrap();
        assert_eq!(Header::peek(&frame).unwrap().offset, offset as u64);
    }
}

fn consume_version_2(broker: &TestBroker, topic: TopicId, frames: usize) {
    let mut client = Client::version_2(broker);
    let (partition, offset, leader_epoch) = (PartitionId(0), Offset(0), LeaderEpoch::UNKNOWN);
    client.call(&SubscribeRequest { topic, partition, offset, leader_epoch, credit_bytes: 1 << 30 });
    let mut left_bytes = frames * (PREFIX_SIZE + PAYLOAD.len());
    while left_bytes > 0 {
        left_bytes -= client.unit().payload().len();
    }
}

/// Record sets of a hundred records.
fn produce_sets(client: &mut Client, topic: TopicId, records: usize) {
    let mut set = RecordSetBuilder::new(0);
    for _ in 0..100 {
        set.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(&PAYLOAD), headers: &[] }).unwrap();
    }
    let set = set.finish(Codec::None).unwrap();
    let frames = ProducedFrame::record_set(0, Codec::None, 100, &set).to_vec().unwrap().repeat(records / 100);
    let target = ProduceTarget { topic, partition: PartitionId(0), acks: Acks::Committed };
    let mut bytes = BytesMut::new();
    target.encode(CorrelationId(2), &frames, &mut bytes).unwrap();
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.unit().header().record_count, 0);
}

#[test]
fn nothing_is_allocated_for_a_frame() {
    let mut found = Vec::new();
    for durability in [Durability::Os, Durability::Sync] {
        // A broker for each, so that nothing of one is under way while another is measured.
        let broker = TestBroker::start().unwrap();
        Client::version_2(&broker).create("t", durability);
        let mut client =
            Client::version_1(&broker, &Handshake::Producer { topic: "t".parse().unwrap(), partition: PartitionId(0) });
        found.push((format!("version 1, produce, {durability:?}"), grows_by(|frames| client.produce_version_1(frames))));
    }
    for together in [CHUNK, 1] {
        let broker = TestBroker::start().unwrap();
        let mut client = Client::version_2(&broker);
        let topic = client.create("t", Durability::Os);
        let growth = grows_by(|frames| client.produce_version_2(topic, frames, together));
        found.push((format!("version 2, produce {together} in a request"), growth));
    }
    for what in ["single frames", "sets"] {
        let broker = TestBroker::start().unwrap();
        let topics = RefCell::new(Vec::new());
        let fill = |name: &str, frames| {
            let mut client = Client::version_2(&broker);
            let topic = client.create(name, Durability::Os);
            match what {
                "sets" => produce_sets(&mut client, topic, frames),
                _ => client.produce_version_2(topic, frames, CHUNK),
            }
            topics.borrow_mut().push(topic);
        };
        let growth = consumed(fill, |name, frames| consume_version_1(&broker, name, frames));
        found.push((format!("version 1, consume {what}"), growth));
        let mut topics = topics.take().into_iter();
        if what == "single frames" {
            let growth = grows_by(|frames| consume_version_2(&broker, topics.next().unwrap(), frames));
            found.push(("version 2, consume".into(), growth));
        }
    }
    let too_many: Vec<_> = found.iter().filter(|(_, allocations)| *allocations > MOST_ALLOCATIONS).collect();
    assert!(too_many.is_empty(), "{FRAMES} frames more, {MOST_ALLOCATIONS} allocations more at most: {found:?}");
}

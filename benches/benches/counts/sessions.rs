//! Whole sessions over loopback, with a broker in this process. What a raw client does — write and read in large pieces — is next to nothing; the SDK is
//! counted with the broker. The kernel is not counted.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::BytesMut;
use hermit_benches::{frame, noise};
use hermit_broker::testing::TestBroker;
use hermit_broker::{Durability, TopicConfig};
use hermit_client::{Client, Delivery, Producer, ProducerRecord, Start};
use hermit_proto::session::{Acks, HelloRequest, ProduceTarget, Request as _};
use hermit_proto::v1::{ANSWER_SIZE, Handshake};
use hermit_proto::{CorrelationId, HEADER_SIZE, PartitionId};
use tokio::runtime::Runtime;

use crate::cases::{PAYLOAD_BYTES, ROUND, v1_frame};

const TOPIC: &str = "t";
/// Rounds of records in a topic that is read.
const FILLED: usize = 20;
/// Records in it.
pub(crate) const TO_READ: usize = FILLED * ROUND;

fn broker() -> TestBroker {
    let broker = TestBroker::start().unwrap();
    let config = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    broker.broker().create_topic(TOPIC, 1, &config).unwrap();
    broker
}

fn connect(broker: &TestBroker, handshake: &Handshake) -> TcpStream {
    let mut stream = TcpStream::connect(broker.addr()).unwrap();
    let mut bytes = Vec::new();
    handshake.encode(&mut bytes);
    stream.write_all(&bytes).unwrap();
    stream
}

fn produce_v1(broker: &TestBroker, rounds: u64) {
    let mut stream = connect(broker, &Handshake::Producer { topic: TOPIC.parse().unwrap(), partition: 0.into() });
    let frames = v1_frame().repeat(ROUND);
    let mut answers = [1; ROUND * ANSWER_SIZE];
    for _ in 0..rounds {
        stream.write_all(&frames).unwrap();
        stream.read_exact(&mut answers).unwrap();
        assert_eq!(answers[0], 0);
    }
}

pub(crate) fn v1_produce(rounds: u64) {
    produce_v1(&broker(), rounds);
}

/// Single frames, each a request.
pub(crate) fn v2_produce(rounds: u64) {
    /// Bytes of a response behind its header.
    const STORED_BYTES: usize = 25;
    let broker = broker();
    let topic = broker.broker().topic(&TOPIC.parse().unwrap()).unwrap().meta.id;
    let mut stream = TcpStream::connect(broker.addr()).unwrap();
    let mut bytes = BytesMut::new();
    HelloRequest::new("counts").encode(CorrelationId(1), &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header).unwrap();
    let size = hermit_proto::Header::decode(&header).body_bytes();
    stream.read_exact(&mut vec![0; usize::try_from(size).unwrap()]).unwrap();

    bytes.clear();
    let (target, frame) =
        (ProduceTarget { topic, partition: PartitionId(0), acks: Acks::Committed }, frame(PAYLOAD_BYTES).unwrap());
    (0..ROUND).for_each(|_| target.encode(CorrelationId(2), &frame, &mut bytes).unwrap());
    let mut answers = vec![0; ROUND * (HEADER_SIZE + STORED_BYTES)];
    for _ in 0..rounds {
        stream.write_all(&bytes).unwrap();
        stream.read_exact(&mut answers).unwrap();
    }
}

/// Reads the topic's records so many times.
fn consume_v1(broker: &TestBroker, rounds: u64) {
    let (group, topic) = ("g".parse().unwrap(), TOPIC.parse().unwrap());
    let handshake = Handshake::Consumer { group, topic, partition: 0.into() };
    let mut bytes = vec![0; TO_READ * (HEADER_SIZE + PAYLOAD_BYTES)];
    for _ in 0..rounds {
        connect(broker, &handshake).read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[0], 1);
    }
}

pub(crate) fn v1_consume_frames(rounds: u64) {
    let broker = broker();
    produce_v1(&broker, FILLED as u64);
    consume_v1(&broker, rounds);
}

pub(crate) fn v1_consume_sets(rounds: u64) {
    let broker = broker();
    sdk(&broker, async |_client, producer| enqueue_batch(&producer, FILLED as u64).await);
    consume_v1(&broker, rounds);
}

/// Runs a part with the SDK, on one thread.
fn sdk<T>(broker: &TestBroker, part: impl AsyncFnOnce(Client, Producer) -> T) -> T {
    let runtime: Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&broker.addr().to_string()).await.unwrap();
        let producer = client.producer().build().unwrap();
        part(client, producer).await
    })
}

async fn enqueue_batch(producer: &Producer, rounds: u64) {
    let value = noise(PAYLOAD_BYTES);
    let records = vec![ProducerRecord::new(&value).partition(0); ROUND];
    for _ in 0..rounds {
        producer.send_batch(TOPIC, &records).await.unwrap();
    }
}

pub(crate) fn sdk_enqueue_batch(rounds: u64) {
    sdk(&broker(), async |_client, producer| enqueue_batch(&producer, rounds).await);
}

pub(crate) fn sdk_enqueue(rounds: u64) {
    sdk(&broker(), async |_client, producer: Producer| {
        let value = noise(PAYLOAD_BYTES);
        let record = ProducerRecord::new(&value).partition(0);
        let mut deliveries: Vec<Delivery> = Vec::with_capacity(ROUND);
        for _ in 0..rounds {
            for _ in 0..ROUND {
                deliveries.push(producer.enqueue(TOPIC, record).await.unwrap());
            }
            for delivery in deliveries.drain(..) {
                delivery.await.unwrap();
            }
        }
    });
}

pub(crate) fn sdk_enqueue_to_topic(rounds: u64) {
    sdk(&broker(), async |_client, producer: Producer| {
        let value = noise(PAYLOAD_BYTES);
        let record = ProducerRecord::new(&value).partition(0);
        let mut topic = producer.topic(TOPIC).await.unwrap();
        let mut deliveries: Vec<Delivery> = Vec::with_capacity(ROUND);
        for _ in 0..rounds {
            for _ in 0..ROUND {
                deliveries.push(topic.enqueue(record).await.unwrap());
            }
            for delivery in deliveries.drain(..) {
                delivery.await.unwrap();
            }
        }
    });
}

pub(crate) fn sdk_recv_records(rounds: u64) {
    sdk(&broker(), async |client: Client, producer| {
        enqueue_batch(&producer, FILLED as u64).await;
        for _ in 0..rounds {
            let mut consumer = client.consumer().build().unwrap();
            consumer.assign(TOPIC, 0, Start::Earliest).await.unwrap();
            let (mut records, mut bytes) = (0, 0);
            while records < TO_READ {
                let more = consumer.recv_records().await.unwrap().unwrap();
                records += more.len();
                bytes += more.iter().map(|record| record.value.unwrap().len()).sum::<usize>();
            }
            assert_eq!(bytes, TO_READ * PAYLOAD_BYTES);
        }
    });
}

pub(crate) fn sdk_recv_batch(rounds: u64) {
    sdk(&broker(), async |client: Client, producer| {
        enqueue_batch(&producer, FILLED as u64).await;
        for _ in 0..rounds {
            let mut consumer = client.consumer().build().unwrap();
            consumer.assign(TOPIC, 0, Start::Earliest).await.unwrap();
            let mut records = 0;
            while records < TO_READ {
                records += consumer.recv_batch(ROUND).await.unwrap().len();
            }
        }
    });
}

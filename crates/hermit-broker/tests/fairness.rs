//! Nobody keeps others waiting, however fast it reads or writes.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, Durability, TopicConfig};
use hermit_proto::session::{Acks, HeartbeatRequest, HelloRequest, ListTopicsRequest, ProduceTarget, Request};
use hermit_proto::v1::{ANSWER_SIZE, Handshake};
use hermit_proto::{CorrelationId, Header, PartitionId, ProducedFrame, TopicId};

const CONSUMERS: usize = 2;
const FRAMES: usize = 24_000;
const PAYLOAD: [u8; 1000] = [7; 1000];
/// A producer gives others their turn each 64 KiB, of 24 MiB, and may have read 128 KiB more by then.
const MOST_FRAMES_OF_A_TURN: u64 = 1000;
/// A consumer gives others their turn each MiB, of 24: a third of these turns is enough.
const FEWEST_ANSWERS: usize = 8;

/// What a broker is served by: fewer threads than there are clients.
struct Served {
    runtime: tokio::runtime::Runtime,
    serving: tokio::task::JoinHandle<()>,
}

fn serve(broker: &Broker) -> (SocketAddr, Served) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let broker = broker.clone();
    let serving = runtime.spawn(async move { broker.serve(listener).await });
    (address, Served { runtime, serving })
}

impl Served {
    fn stop(self, broker: &Broker) {
        self.runtime.block_on(broker.shutdown()).unwrap();
        self.runtime.block_on(self.serving).unwrap();
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn answer(stream: &mut TcpStream) {
    let mut header = [0; 29];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; usize::try_from(Header::decode(&header).body_bytes()).unwrap()];
    stream.read_exact(&mut body).unwrap();
}

fn call(stream: &mut TcpStream, request: &impl Request) {
    let mut bytes = BytesMut::new();
    request.encode(CorrelationId(1), &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    answer(stream);
}

/// Reads everything, as fast as it comes: faster than the broker can make it, so that the socket never keeps the broker waiting.
fn consume(address: SocketAddr, start: &Barrier) {
    let mut stream = connect(address);
    let mut handshake = Vec::new();
    let (group, topic) = ("g".parse().unwrap(), "t".parse().unwrap());
    Handshake::Consumer { group, topic, partition: PartitionId(0) }.encode(&mut handshake);
    start.wait();
    stream.write_all(&handshake).unwrap();
    let (mut left, mut room) = (FRAMES * (29 + PAYLOAD.len()), vec![0; 1 << 20]);
    while left > 0 {
        let read = stream.read(&mut room).unwrap();
        assert!(read > 0, "the broker has closed");
        left -= read;
    }
}

/// Sends requests that cost much and are answered with little, as fast as they are taken, until the client's end is closed.
fn flood(address: SocketAddr, answered: &AtomicUsize, over: &AtomicBool) {
    let mut stream = connect(address);
    call(&mut stream, &HelloRequest::new("flood"));
    let mut flood = BytesMut::new();
    for correlation in 2..2000 {
        let request = ListTopicsRequest { after: "zzz".into(), limit: 1 };
        request.encode(CorrelationId(correlation), &mut flood).unwrap();
    }
    let mut sender = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || while sender.write_all(&flood).is_ok() {});
        while !over.load(Ordering::Relaxed) {
            answer(&mut stream);
            answered.fetch_add(1, Ordering::Relaxed);
        }
        stream.shutdown(Shutdown::Both).unwrap();
    });
}

#[test]
fn floods_of_costly_requests_leave_others_their_turn() {
    const FLOODS: usize = 4;
    const TOPICS: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let mut config = BrokerConfig::new(dir.path());
    config.reserve_bytes = 0;
    let broker = Broker::open(config).unwrap();
    for number in 0..TOPICS {
        broker.create_topic(&format!("t{number}"), 1, &TopicConfig::default()).unwrap();
    }
    let (address, served) = serve(&broker);
    let mut client = connect(address);
    call(&mut client, &HelloRequest::new("test"));
    let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (heartbeats, floods) = thread::scope(|scope| {
        for _ in 0..FLOODS {
            scope.spawn(|| flood(address, &answered, &over));
        }
        while answered.load(Ordering::Relaxed) < 200 {
            call(&mut client, &HeartbeatRequest);
        }
        let (mut heartbeats, before) = (0, answered.load(Ordering::Relaxed));
        while answered.load(Ordering::Relaxed) < before + 1000 {
            call(&mut client, &HeartbeatRequest);
            heartbeats += 1;
        }
        let floods = answered.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        (heartbeats, floods)
    });
    // A round by number alone would be 64 requests of each flood.
    assert!(floods / heartbeats < 64, "{heartbeats} heartbeats were answered beside {floods} costly requests");
    served.stop(&broker);
}

/// Sends everything as fast as it is taken, and takes what is answered.
fn pour(mut stream: TcpStream, bytes: &[u8], answer_bytes: usize) {
    let mut answers = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || answers.read_exact(&mut vec![0; answer_bytes]).unwrap());
        stream.write_all(bytes).unwrap();
    });
}

/// Most frames that are appended from one turn of another task to its next, while `produce` sends them all.
fn longest_turn(produce: impl FnOnce(SocketAddr, TopicId)) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let mut config = BrokerConfig::new(dir.path());
    config.reserve_bytes = 0;
    config.limits.disk_low_bytes = 0;
    let broker = Broker::open(config).unwrap();
    let topic = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    let topic = broker.create_topic("t", 1, &topic).unwrap();
    let (address, served) = serve(&broker);
    let partition = topic.partitions()[0].clone();
    let id = partition.topic();
    let watching = served.runtime.spawn(async move {
        let (mut seen, mut longest) = (0, 0);
        while seen < FRAMES as u64 {
            let end = partition.bounds().unwrap().log_end.0;
            longest = longest.max(end - seen);
            seen = end;
            tokio::task::yield_now().await;
        }
        longest
    });
    produce(address, id);
    let longest =
        served.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), watching).await.unwrap().unwrap() });
    served.stop(&broker);
    longest
}

#[test]
fn fast_version_1_producers_leave_others_their_turn() {
    let longest = longest_turn(|address, _topic| {
        let mut stream = connect(address);
        let mut handshake = Vec::new();
        Handshake::Producer { topic: "t".parse().unwrap(), partition: PartitionId(0) }.encode(&mut handshake);
        stream.write_all(&handshake).unwrap();
        let header = Header { magic: 1, timestamp: 5, offset: 0, key_size: 0, payload_size: 1000, record_count: 1 };
        let frames = [&header.encode()[..], &PAYLOAD].concat().repeat(FRAMES);
        pour(stream, &frames, FRAMES * ANSWER_SIZE);
    });
    assert!(longest <= MOST_FRAMES_OF_A_TURN, "{longest} frames were appended in one turn");
}

#[test]
fn fast_sessions_that_produce_leave_others_their_turn() {
    const FRAMES_OF_A_REQUEST: usize = 10;
    let longest = longest_turn(|address, topic| {
        let mut stream = connect(address);
        call(&mut stream, &HelloRequest::new("test"));
        let frames = ProducedFrame::message(5, None, &PAYLOAD).to_vec().unwrap().repeat(FRAMES_OF_A_REQUEST);
        let target = ProduceTarget { topic, partition: PartitionId(0), acks: Acks::None };
        let mut requests = BytesMut::new();
        for correlation in 0..FRAMES / FRAMES_OF_A_REQUEST {
            target.encode(CorrelationId(2 + correlation as u64), &frames, &mut requests).unwrap();
        }
        pour(stream, &requests, 0);
    });
    assert!(longest <= MOST_FRAMES_OF_A_TURN, "{longest} frames were appended in one turn");
}

#[test]
fn fast_version_1_consumers_keep_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = BrokerConfig::new(dir.path());
    config.reserve_bytes = 0;
    let broker = Broker::open(config).unwrap();
    let topic = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    let topic = broker.create_topic("t", 1, &topic).unwrap().partitions()[0].topic();
    let (address, served) = serve(&broker);

    let mut client = connect(address);
    call(&mut client, &HelloRequest::new("test"));
    let frames = ProducedFrame::message(5, None, &PAYLOAD).to_vec().unwrap().repeat(1000);
    let mut request = BytesMut::new();
    ProduceTarget { topic, partition: PartitionId(0), acks: Acks::Committed }
        .encode(CorrelationId(1), &frames, &mut request)
        .unwrap();
    for _ in 0..FRAMES / 1000 {
        client.write_all(&request).unwrap();
        answer(&mut client);
    }

    let (start, done) = (Barrier::new(CONSUMERS + 1), AtomicUsize::new(0));
    let answers = thread::scope(|scope| {
        for _ in 0..CONSUMERS {
            scope.spawn(|| {
                consume(address, &start);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        start.wait();
        let mut answers = 0;
        while done.load(Ordering::Relaxed) < CONSUMERS {
            call(&mut client, &HeartbeatRequest);
            answers += 1;
        }
        answers
    });
    assert!(answers >= FEWEST_ANSWERS, "{answers} heartbeats were answered while {CONSUMERS} consumers read");
    served.stop(&broker);
}

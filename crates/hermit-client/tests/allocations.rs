//! In steady state the SDK allocates for a batch, a call or a delivery, but never for a record.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

#[path = "../../hermit-broker/tests/counting/mod.rs"]
mod counting;
mod support;

use std::sync::mpsc;
use std::thread::JoinHandle;

use hermit_client::{Client, ProducerRecord, Start};
use support::{TestBroker, builder, create, within};
use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;

/// Records by which the measured rounds differ. One allocation for every twentieth of them is too many.
const RECORDS: usize = 10_000;
const MOST_ALLOCATIONS: u64 = RECORDS as u64 / 20;
/// Records in one call.
const CHUNK: usize = 500;
const VALUE: [u8; 100] = [7; 100];

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A broker in a thread of its own, so that its allocations are not the client's.
struct Elsewhere {
    address: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Elsewhere {
    fn start() -> Self {
        let (started, address) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime().block_on(async {
                let broker = TestBroker::start().await;
                started.send(broker.address).unwrap();
                drop(stopped.await);
                broker.broker.shutdown().await.unwrap();
            });
        });
        Self { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// Allocations of the SDK for `work` with [`RECORDS`] records more.
fn grows_by(work: impl FnMut(usize)) -> u64 {
    counting::grows_by(RECORDS, counting::here, work)
}

async fn consume(client: &Client, topic: &str, records: usize) {
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign(topic, 0, Start::Earliest).await.unwrap();
    let (mut seen, mut bytes) = (0, 0);
    while seen < records {
        let records = within(consumer.recv_records()).await.unwrap().unwrap();
        for record in &records {
            (seen, bytes) = (seen + 1, bytes + record.value.unwrap().len());
        }
    }
    assert_eq!((seen, bytes), (records, records * VALUE.len()));
}

/// Large deliveries are read into the memory of those before them.
#[test]
fn a_backlog_is_read_into_the_same_memory_again_and_again() {
    const DELIVERIES: usize = 40;
    let broker = Elsewhere::start();
    let runtime = runtime();
    let large = vec![7; 16 << 10];
    let records = vec![ProducerRecord::new(&large); 8 * 64];
    let allocations = runtime.block_on(async {
        let client = builder(broker.address).connect().await.unwrap();
        create(&client, "t", 1).await;
        let producer = client.producer().build().unwrap();
        // 8 MiB each.
        for _ in 0..DELIVERIES / 8 {
            within(producer.send_batch("t", &records)).await.unwrap();
        }
        let mut consumer = client.consumer().build().unwrap();
        consumer.assign("t", 0, Start::Earliest).await.unwrap();
        let before = counting::large_here();
        let mut seen = 0;
        while seen < DELIVERIES / 8 * records.len() {
            seen += within(consumer.recv_records()).await.unwrap().unwrap().len();
        }
        let allocations = counting::large_here() - before;
        client.close().await;
        allocations
    });
    assert!(allocations < DELIVERIES as u64 / 2, "{allocations} for {DELIVERIES} deliveries");
}

#[test]
fn nothing_is_allocated_for_a_record() {
    let broker = Elsewhere::start();
    let runtime = runtime();
    let client = runtime.block_on(async {
        let client = builder(broker.address).connect().await.unwrap();
        for topic in ["each", "many", "0", "1", "2"] {
            create(&client, topic, 1).await;
        }
        client
    });
    let producer = runtime.block_on(async { client.producer().build().unwrap() });
    let mut found = Vec::new();
    let growth = grows_by(|records| {
        runtime.block_on(async {
            for _ in 0..records {
                drop(producer.enqueue("each", ProducerRecord::new(&VALUE).key("key")).await.unwrap());
            }
            producer.flush().await.unwrap();
        });
    });
    found.push(("produce, each by itself", growth));

    let chunk = [ProducerRecord::new(&VALUE); CHUNK];
    let send = |topic: &str, records: usize| {
        runtime.block_on(async {
            for _ in 0..records / CHUNK {
                drop(producer.enqueue_batch(topic, &chunk).await.unwrap());
            }
            producer.flush().await.unwrap();
        });
    };
    found.push(("produce, many together", grows_by(|records| send("many", records))));

    let mut filled = ["0", "1", "2"].iter();
    for (topic, records) in filled.clone().zip([RECORDS, RECORDS, 2 * RECORDS]) {
        send(topic, records);
    }
    let growth = grows_by(|records| runtime.block_on(consume(&client, filled.next().unwrap(), records)));
    found.push(("consume", growth));
    eprintln!("{found:?}");

    runtime.block_on(async {
        producer.close().await.unwrap();
        client.close().await;
    });
    let too_many: Vec<_> = found.iter().filter(|(_, allocations)| *allocations > MOST_ALLOCATIONS).collect();
    assert!(too_many.is_empty(), "{RECORDS} records more, {MOST_ALLOCATIONS} allocations more at most: {found:?}");
}

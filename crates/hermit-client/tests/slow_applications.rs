//! Applications that take longer for a record than anything on the network may.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use hermit_client::{Client, Parallel, ProducerRecord, Record, Start};
use support::proxy::Proxy;
use support::{TestBroker, create, drain, eventually, within};
use tokio::sync::Semaphore;

async fn fill(client: &Client, partitions: u32, records: u32) {
    create(client, "t", partitions).await;
    let producer = client.producer().build().unwrap();
    for number in 0..records {
        // Each in a batch of its own.
        let value = format!("{number:01000}");
        within(producer.send("t", ProducerRecord::new(&value).partition(number % partitions))).await.unwrap();
    }
    within(producer.close()).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_came_in_time_is_not_missed_because_the_application_was_busy() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    fill(&client, 2, 60).await;
    let timeout = Duration::from_millis(100);
    let client = broker.builder().request_timeout(timeout).connect().await.unwrap();
    // A few records at a time.
    let mut consumer = client.consumer().prefetch_bytes(8 << 10).build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    within(consumer.recv()).await.unwrap().unwrap();
    consumer.assign("t", 1, Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    // Somewhere in between it is asked for the other partition, whose answer has to wait for the application.
    for _ in 0..20 {
        within(consumer.recv()).await.unwrap().unwrap();
        tokio::time::sleep(timeout * 6 / 5).await;
    }
    assert_eq!(drain(&mut consumer).await.len(), 39);
}

#[tokio::test]
async fn handlers_that_hold_everything_up_cost_no_cpu_while_the_connection_breaks() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    fill(&client, 1, 5).await;
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (held, counted) = (gate.clone(), begun.clone());
    let handler = move |_record: Record| {
        let (held, counted) = (held.clone(), counted.clone());
        async move {
            counted.fetch_add(1, Ordering::Relaxed);
            held.acquire().await.unwrap().forget();
            Ok::<_, std::convert::Infallible>(())
        }
    };
    let mut processing = pin!(consumer.process_parallel(Parallel::new(1).max_buffered(1), handler, std::future::pending()));
    let polls = AtomicUsize::new(0);
    let script = async {
        eventually("a handler holds", || begun.load(Ordering::Relaxed) == 1).await;
        let (connections, before) = (proxy.accepted(), polls.load(Ordering::Relaxed));
        proxy.cut();
        eventually("it connects again", || proxy.accepted() > connections).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let cost = polls.load(Ordering::Relaxed) - before;
        assert!(cost < 30, "polled {cost} times");
        gate.add_permits(5);
    };
    let counted = poll_fn(|cx| {
        polls.fetch_add(1, Ordering::Relaxed);
        match processing.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => Poll::Pending,
        }
    });
    let (outcome, ()) = within(async { tokio::join!(counted, script) }).await;
    outcome.unwrap();
    assert_eq!(begun.load(Ordering::Relaxed), 5);
}

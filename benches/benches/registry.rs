//! The striped registry: finding a topic by its name and by its id, and its partition, alone and beside another thread that looks too.
#![allow(missing_docs, reason = "criterion's macros write public functions")]
#![expect(clippy::unwrap_used, reason = "a benchmark whose set-up fails has nothing to measure")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use hermit_benches::print_machine;
use hermit_broker::testing::TestBroker;
use hermit_broker::{Broker, TopicConfig};
use hermit_proto::{PartitionId, TopicName};

const TOPICS: usize = 100;

fn look_ups(c: &mut Criterion) {
    print_machine();
    let broker = TestBroker::start().unwrap();
    let broker: &Broker = broker.broker();
    let topics: Vec<_> =
        (0..TOPICS).map(|number| broker.create_topic(&format!("topic-{number}"), 1, &TopicConfig::default()).unwrap()).collect();
    let names: Vec<TopicName> = topics.iter().map(|topic| topic.meta.name.clone()).collect();
    let mut at = 0;
    let mut next = || {
        at = (at + 37) % TOPICS;
        at
    };
    let mut group = c.benchmark_group(format!("registry of {TOPICS} topics"));
    group.bench_function("by name", |b| b.iter(|| broker.topic(black_box(&names[next()])).unwrap()));
    group.bench_function("by id", |b| b.iter(|| broker.topic_by_id(black_box(topics[next()].meta.id)).unwrap()));
    group.bench_function("partition", |b| {
        b.iter(|| broker.partition(black_box(topics[next()].meta.id), PartitionId(0)).unwrap());
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                names.iter().for_each(|name| drop(black_box(broker.topic(name))));
            }
        });
        let mut at = 0;
        group.bench_function("by name, beside another thread", |b| {
            b.iter(|| {
                at = (at + 37) % TOPICS;
                broker.topic(black_box(&names[at])).unwrap()
            });
        });
        stop.store(true, Ordering::Relaxed);
    });
    group.finish();
}

criterion_group!(benches, look_ups);
criterion_main!(benches);

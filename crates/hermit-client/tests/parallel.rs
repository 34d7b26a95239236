//! Several handlers at a time: order, commits, errors, hand-over.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermit_client::{BackoffConfig, Consumer, Error, Parallel, Record};
use support::group::{GroupFake, Said};
use support::within;
use tokio::sync::Notify;

type Lane = (u32, Vec<u8>);

/// Notes what is processed, and that no two records of one key are at the same time.
#[derive(Clone, Default)]
struct Notes {
    done: Arc<Mutex<BTreeMap<Lane, Vec<u64>>>>,
    busy: Arc<Mutex<BTreeSet<Lane>>>,
    most_at_once: Arc<AtomicUsize>,
}

impl Notes {
    async fn process(&self, record: &Record) {
        let lane = (record.partition.0, record.key.as_ref().unwrap().to_vec());
        {
            let mut busy = self.busy.lock().unwrap();
            assert!(busy.insert(lane.clone()), "two of {lane:?} at the same time");
            self.most_at_once.fetch_max(busy.len(), Ordering::Relaxed);
        }
        // Spread over 0 to 3 ms without a pattern.
        let micros = record.offset.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 3000;
        tokio::time::sleep(Duration::from_micros(micros)).await;
        self.busy.lock().unwrap().remove(&lane);
        self.done.lock().unwrap().entry(lane).or_default().push(record.offset.0);
    }

    fn count(&self) -> usize {
        self.done.lock().unwrap().values().map(Vec::len).sum()
    }
}

async fn member(fake: &GroupFake) -> Consumer {
    let mut consumer = fake.client.consumer().group("g").auto_commit_interval(Duration::from_millis(5)).build().unwrap();
    within(consumer.subscribe("t")).await.unwrap();
    consumer
}

#[tokio::test]
async fn the_order_of_each_key_is_kept_whatever_the_handlers_take() {
    let fake = GroupFake::start(3).await;
    let mut consumer = member(&fake).await;
    let notes = Notes::default();
    let (noted, finished) = (notes.clone(), notes.clone());
    let handler = move |record: Record| {
        let notes = noted.clone();
        async move {
            notes.process(&record).await;
            Ok::<_, std::convert::Infallible>(())
        }
    };
    let all_done = async {
        while finished.count() < 300 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    // A small buffer, so that taking has to stop again and again.
    let parallel = Parallel::new(8).max_buffered(20);
    within(consumer.process_parallel(parallel, handler, all_done)).await.unwrap();
    for (lane, offsets) in notes.done.lock().unwrap().iter() {
        assert!(offsets.is_sorted() && offsets.len() >= 33, "{lane:?}: {offsets:?}");
    }
    assert!(notes.most_at_once.load(Ordering::Relaxed) > 3, "they ran side by side");
    for partition in 0..3 {
        assert_eq!(fake.committed(partition), Some(100));
    }
    within(consumer.close()).await.unwrap();
}

#[tokio::test]
async fn a_failed_handler_stops_and_nothing_behind_it_is_committed() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake).await;
    let others = Arc::new(AtomicUsize::new(0));
    let counted = others.clone();
    let handler = move |record: Record| {
        let counted = counted.clone();
        async move {
            if record.offset.0 == 7 {
                // The others get ahead.
                while counted.load(Ordering::Relaxed) < 30 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return Err("broken");
            }
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    };
    let error = within(consumer.process_parallel(Parallel::new(4), handler, std::future::pending())).await.unwrap_err();
    assert!(matches!(&error, Error::Handler { offset, .. } if offset.0 == 7), "{error}");
    assert!(error.to_string().ends_with("broken"), "{error}");
    assert_eq!(fake.committed(0), Some(7), "the longest run that is processed");
    assert_eq!(within(consumer.recv()).await.unwrap().unwrap().offset.0, 7, "and reading goes on there");
    assert!(others.load(Ordering::Relaxed) >= 30);
}

#[tokio::test]
async fn a_handler_that_panics_is_an_error() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake).await;
    let handler = |record: Record| async move {
        assert!(record.offset.0 != 2, "on purpose");
        Ok::<_, std::convert::Infallible>(())
    };
    let error = within(consumer.process_parallel(Parallel::new(1), handler, std::future::pending())).await.unwrap_err();
    assert!(matches!(&error, Error::Handler { offset, .. } if offset.0 == 2), "{error}");
    assert_eq!(fake.committed(0), Some(2));
}

#[tokio::test]
async fn failed_handlers_are_called_again_in_order_or_skipped() {
    let backoff = BackoffConfig { min: Duration::from_millis(1), max: Duration::from_millis(2) };
    for skip in [false, true] {
        let fake = GroupFake::start(1).await;
        let mut consumer = member(&fake).await;
        let (notes, failures) = (Notes::default(), Arc::new(AtomicUsize::new(0)));
        let skipped = Arc::new(Mutex::new(Vec::new()));
        let parallel = if skip {
            let skipped = skipped.clone();
            Parallel::new(4).skip_on_error(move |record, error| {
                skipped.lock().unwrap().push((record.offset.0, error.to_string()));
            })
        } else {
            Parallel::new(4).retry_on_error(3, backoff)
        };
        let (noted, counted) = (notes.clone(), failures.clone());
        let handler = move |record: Record| {
            let (notes, failures) = (noted.clone(), counted.clone());
            async move {
                // Three times.
                if record.offset.0 == 10 && failures.fetch_add(1, Ordering::Relaxed) < 3 {
                    return Err(std::io::Error::other("not now"));
                }
                notes.process(&record).await;
                Ok(())
            }
        };
        let expected = if skip { 99 } else { 100 };
        let enough = async {
            while notes.count() < expected {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within(consumer.process_parallel(parallel, handler, enough)).await.unwrap();
        assert!(notes.done.lock().unwrap().values().all(|offsets| offsets.is_sorted()), "the key waited");
        assert_eq!(fake.committed(0), Some(100));
        let told = if skip { vec![(10, "not now".to_owned())] } else { Vec::new() };
        assert_eq!(*skipped.lock().unwrap(), told);
    }
}

#[tokio::test]
async fn a_revoked_partition_is_finished_committed_and_given_up_while_others_go_on() {
    let fake = GroupFake::start(2).await;
    let mut consumer = member(&fake).await;
    let (gate, begun) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let (held, noted) = (gate.clone(), begun.clone());
    let handler = move |record: Record| {
        let (held, noted) = (held.clone(), noted.clone());
        async move {
            noted.lock().unwrap().push((record.partition.0, record.offset.0));
            // One record of each key of partition 0 is being processed when it is revoked.
            if record.partition.0 == 0 {
                held.notified().await;
            }
            Ok::<_, std::convert::Infallible>(())
        }
    };
    let of = |partition: u32| begun.lock().unwrap().iter().filter(|(found, _)| *found == partition).count();
    let script = async {
        support::eventually("three handlers hold, the rest is done", || of(0) == 3 && of(1) == 100).await;
        fake.change(|world| world.granted = [(1, 1)].into());
        tokio::time::sleep(Duration::from_millis(50)).await;
        let owns = Said::Owns(vec![1]);
        assert!(fake.look(|world| !world.said.contains(&owns)), "handlers still run");
        for _ in 0..3 {
            gate.notify_one();
        }
        fake.until("it was given up", |world| world.said.contains(&owns)).await;
        assert_eq!(fake.committed(0), Some(3));
    };
    within(consumer.process_parallel(Parallel::new(8), handler, script)).await.unwrap();
    assert_eq!(of(0), 3, "nothing more was begun");
    assert_eq!(fake.committed(1), Some(100));
}

#[tokio::test]
async fn it_works_without_a_group_and_ends_at_the_end() {
    let broker = support::TestBroker::start().await;
    let client = broker.client().await;
    support::create(&client, "t", 2).await;
    let producer = client.producer().build().unwrap();
    for number in 0..500u32 {
        let (key, value) = ((number % 7).to_string(), number.to_string());
        let record = hermit_client::ProducerRecord::new(&value).key(&key);
        drop(producer.enqueue("t", record).await.unwrap());
    }
    within(producer.close()).await.unwrap();
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", hermit_client::Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let notes = Notes::default();
    let noted = notes.clone();
    let handler = move |record: Record| {
        let notes = noted.clone();
        async move {
            notes.process(&record).await;
            Ok::<_, std::convert::Infallible>(())
        }
    };
    within(consumer.process_parallel(Parallel::new(16), handler, std::future::pending())).await.unwrap();
    assert_eq!(notes.count(), 500);
    assert!(notes.done.lock().unwrap().values().all(|offsets| offsets.is_sorted()));
}

#[tokio::test]
async fn what_was_taken_comes_again_when_processing_is_cancelled() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake).await;
    let done = Arc::new(AtomicUsize::new(0));
    let counted = done.clone();
    let handler = move |record: Record| {
        let counted = counted.clone();
        async move {
            if record.offset.0 == 7 {
                std::future::pending::<()>().await;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(())
        }
    };
    // As in a `select!` where another branch is ready.
    tokio::select! {
        outcome = consumer.process_parallel(Parallel::new(1), handler, std::future::pending()) => outcome.unwrap(),
        () = support::eventually("seven are done, the next one hangs", || done.load(Ordering::Relaxed) == 7) => {}
    }
    fake.until("what was processed is committed", |world| world.committed.get(&0) == Some(&7)).await;
    for offset in 7..20 {
        let record = within(consumer.recv()).await.unwrap().unwrap();
        assert_eq!(record.offset.0, offset);
        consumer.ack(&record).unwrap();
    }
    fake.until("and what is processed after that", |world| world.committed.get(&0) == Some(&20)).await;
    fake.change(|world| world.granted.clear());
    let given_up = fake.until("nothing holds the partition", |world| world.said.contains(&Said::Owns(Vec::new())));
    let reading = async {
        loop {
            let record = consumer.recv().await.unwrap().unwrap();
            consumer.ack(&record).unwrap();
        }
    };
    tokio::select! {
        () = given_up => {}
        () = reading => {}
    }
}

#[tokio::test]
async fn a_handler_that_panics_before_its_future_is_an_error_too() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake).await;
    let handler = |record: Record| {
        assert!(record.offset.0 != 2, "on purpose");
        std::future::ready(Ok::<_, std::convert::Infallible>(()))
    };
    let error = within(consumer.process_parallel(Parallel::new(1), handler, std::future::pending())).await.unwrap_err();
    assert!(matches!(&error, Error::Handler { offset, .. } if offset.0 == 2), "{error}");
    assert_eq!(fake.committed(0), Some(2));
}

#[tokio::test]
async fn one_stuck_key_holds_up_the_others_once_they_are_far_ahead() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake).await;
    let (gate, done) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (held, counted) = (gate.clone(), done.clone());
    let handler = move |record: Record| {
        let (held, counted) = (held.clone(), counted.clone());
        async move {
            if record.offset.0 == 0 {
                held.notified().await;
            }
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(())
        }
    };
    let script = async {
        support::eventually("others go on", || done.load(Ordering::Relaxed) > 5).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ahead = done.load(Ordering::Relaxed);
        assert!(ahead < 40, "{ahead} are ahead");
        gate.notify_one();
        support::eventually("all are done", || done.load(Ordering::Relaxed) == 100).await;
    };
    within(consumer.process_parallel(Parallel::new(4).max_ahead(20), handler, script)).await.unwrap();
    assert_eq!(fake.committed(0), Some(100));
}

//! Who a producer is to a real broker, and what becomes of it when it has a successor.

mod support;

use std::time::Duration;

use hermit_client::{Acks, Error, ProducerRecord};
use support::{TestBroker, create, within};

#[tokio::test]
async fn a_second_incarnation_fences_the_first_for_good() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    let first = client.producer().linger(Duration::ZERO).build().unwrap();
    let kept = first.identity().await.unwrap();
    let of = |partition: u32| ProducerRecord::new("v").partition(partition);
    for partition in [0, 1] {
        within(first.send("t", of(partition))).await.unwrap();
    }
    let second = client.producer().resume(kept.id, kept.epoch).build().unwrap();
    let successor = within(second.identity()).await.unwrap();
    assert_eq!(successor.id, kept.id);
    assert!(successor.epoch > kept.epoch);
    within(second.send("t", of(0))).await.unwrap();
    // From its successor's first record in a partition on, the first writes nothing more there, and having heard so, nowhere.
    let error = within(first.send("t", of(0))).await.unwrap_err();
    assert!(matches!(error, Error::ProducerFenced { id, epoch } if id == kept.id && epoch == kept.epoch), "{error}");
    assert!(!error.is_retryable());
    for error in [
        within(first.send("t", of(1))).await.unwrap_err(),
        first.try_enqueue("t", of(1)).unwrap_err(),
        within(first.send_batch("t", &[of(1)])).await.unwrap_err(),
        within(first.flush()).await.unwrap_err(),
        within(first.identity()).await.unwrap_err(),
        within(first.close()).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::ProducerFenced { .. }), "{error}");
    }
    within(second.send("t", of(1))).await.unwrap();
    assert_eq!((broker.end_of("t", 0), broker.end_of("t", 1)), (2, 2));
    // A third one, and the broker was restarted in between.
    let broker = broker.restart().await;
    let client = broker.client().await;
    let third = client.producer().resume(successor.id, successor.epoch).build().unwrap();
    within(third.send("t", of(0))).await.unwrap();
    assert!(within(third.identity()).await.unwrap().epoch > successor.epoch);
}

#[tokio::test]
async fn two_successors_of_the_same_producer_do_not_pass_for_one() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let kept = client.producer().build().unwrap().identity().await.unwrap();
    let [one, other] = [(); 2].map(|()| client.producer().resume(kept.id, kept.epoch).build().unwrap());
    within(one.send("t", ProducerRecord::new("one"))).await.unwrap();
    let error = within(other.send("t", ProducerRecord::new("other"))).await.unwrap_err();
    assert!(matches!(error, Error::ProducerFenced { .. }), "{error}");
    assert_eq!(broker.end_of("t", 0), 1);
}

#[tokio::test]
async fn identities_that_cannot_be_are_refused() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    // The broker never gave this one out.
    let stranger = client.producer().resume(1_000_000.into(), 3.into()).build().unwrap();
    for error in
        [within(stranger.identity()).await.unwrap_err(), within(stranger.send("t", ProducerRecord::new("v"))).await.unwrap_err()]
    {
        assert!(matches!(error, Error::Config { setting: "resume", .. }), "{error}");
    }
    assert_eq!(broker.end_of("t", 0), 0);
    for builder in [
        client.producer().acks(Acks::None).resume(1.into(), 0.into()),
        client.producer().idempotent(false).resume(1.into(), 0.into()),
        client.producer().resume((-1).into(), 0.into()),
        client.producer().resume(1.into(), (-1).into()),
    ] {
        assert!(matches!(builder.build(), Err(Error::Config { setting: "resume", .. })));
    }
    let nobody = client.producer().idempotent(false).build().unwrap();
    assert!(matches!(nobody.identity().await, Err(Error::Config { setting: "idempotent", .. })));
}

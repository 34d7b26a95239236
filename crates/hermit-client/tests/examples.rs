//! The examples run, at a real broker.

mod support;

#[path = "../examples/admin.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod admin;
#[path = "../examples/blocking.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod blocking;
#[path = "../examples/consume.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod consume;
#[path = "../examples/group.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod group;
#[path = "../examples/produce.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod produce;

use support::{TestBroker, within};

#[tokio::test]
async fn produce_and_consume() {
    let broker = TestBroker::start().await;
    let address = broker.address.to_string();
    within(produce::run(&address)).await.unwrap();
    within(consume::run(&address)).await.unwrap();
}

#[tokio::test]
async fn administer() {
    let broker = TestBroker::start().await;
    within(admin::run(&broker.address.to_string())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn block() {
    let broker = TestBroker::start().await;
    let address = broker.address.to_string();
    let running = std::thread::spawn(move || blocking::run(&address));
    within(tokio::task::spawn_blocking(move || running.join())).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn share_in_a_group() {
    let broker = TestBroker::start().await;
    let address = broker.address.to_string();
    within(group::run(&address)).await.unwrap();
}

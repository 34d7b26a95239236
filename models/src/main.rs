//! The interleavings of what wakes and waits in the broker, its log and the SDK: `cargo xtask loom`.
//!
//! The files are the product's own, compiled here with locks and wake-ups whose orders loom chooses; what they need of other crates stands in
//! `stand_ins/`, and what they need of their own in `world.rs`. A model ends when all its threads do: a lost wake-up is a deadlock, which loom reports.
#![expect(clippy::print_stdout, reason = "a program that tells what it has tried")]

mod buffering;
#[expect(dead_code, unreachable_pub, unused_imports, reason = "the models need a part of it, and it is public in the log")]
#[path = "../../crates/hermit-log/src/flusher/mod.rs"]
mod flusher;
mod flushing;
mod log;
#[expect(dead_code, unused_imports, reason = "the models neither measure nor lend it")]
#[path = "../../crates/hermit-broker/src/memory/mod.rs"]
mod memory;
mod models;
#[path = "../../crates/hermit-log/src/pace.rs"]
mod pace;
#[expect(dead_code, reason = "the models need a part of it")]
#[path = "../../crates/hermit-broker/src/progress.rs"]
mod progress;
#[path = "../../crates/hermit-client/src/producer/room.rs"]
mod room;
#[expect(unreachable_pub, reason = "it is public in the broker")]
#[path = "../../crates/hermit-broker/src/signal.rs"]
mod signal;
mod world;

use world::{address, clock, config, disk, error, events, limits};

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let all = models::ALL.iter().chain(flushing::ALL).chain(buffering::ALL);
    for (name, model) in all.filter(|(name, _)| name.contains(&only)) {
        model();
        println!("ok: {name}");
    }
}

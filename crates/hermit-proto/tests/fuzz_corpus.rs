//! Runs every fuzz target over its stored corpus, and over simple mutations of it, on the compiler at hand.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use std::fs;
use std::path::{Path, PathBuf};

use hermit_proto::magic;
use proptest::prelude::*;

mod samples;

#[expect(unreachable_pub, reason = "the fuzz crate has the functions in public")]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = directory(target);
    let seeds: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(!seeds.is_empty(), "{} is empty", directory.display());
    seeds
}

/// The seeds, each cut at every byte, and with every byte set to values that tend to hurt.
fn run(name: &str, target: fn(&[u8])) {
    for seed in corpus(name) {
        target(&seed);
        for at in 0..seed.len() {
            target(&seed[..at]);
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff, !seed[at]] {
                let mut mutated = seed.clone();
                mutated[at] = value;
                target(&mutated);
            }
        }
    }
}

#[test]
fn frames() {
    run("frame", targets::frame);
}

#[test]
fn record_sets() {
    run("record_set", targets::record_set);
}

#[test]
fn version_1_handshakes() {
    run("v1_handshake", targets::v1_handshake);
}

#[test]
fn session_messages() {
    run("session", targets::session);
}

#[test]
fn deframing() {
    run("deframer", targets::deframer);
}

/// With `WRITE_SEEDS` in the environment it writes those that are missing or old.
#[test]
fn every_session_message_is_a_seed() {
    let write = std::env::var_os("WRITE_SEEDS").is_some();
    let is_session = |first: &u8| [magic::REQUEST, magic::RESPONSE, magic::DELIVERY].contains(first);
    for sample in samples::all().into_iter().filter(|sample| sample.bytes.first().is_some_and(is_session)) {
        let path = directory("session").join(sample.name);
        if write {
            fs::write(&path, &sample.bytes).unwrap();
        }
        let seed = fs::read(&path).unwrap_or_default();
        assert_eq!((sample.reread)(&seed), Ok(sample.bytes), "{}: run this test with WRITE_SEEDS=1", path.display());
    }
}

proptest! {
    #[test]
    fn random_bytes(data in prop::collection::vec(any::<u8>(), 0..400)) {
        for target in [targets::frame, targets::record_set, targets::v1_handshake, targets::session, targets::deframer] {
            target(&data);
        }
    }
}

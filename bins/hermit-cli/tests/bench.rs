//! Loads on a user's topic: what was measured is told, what is wrong is found, and nothing that was there is touched.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::Value;
use support::{TestBroker, eventually, signal};

fn json(broker: &TestBroker, arguments: &[&str]) -> Value {
    serde_json::from_str(&broker.ok(&[&["--output", "json", "bench"], arguments].concat(), b"")).unwrap()
}

#[test]
fn what_one_load_sends_another_one_checks() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"], b"");
    let sent = json(&broker, &["produce", "t", "--records", "2000", "--batch", "100", "--size", "1KiB", "--connections", "2"]);
    assert_eq!((&sent["records"], &sent["bytes"], &sent["failed"]), (&2000.into(), &2_048_000.into(), &0.into()));
    assert!(sent["records_per_second"].as_f64().unwrap() > 0.0 && sent["topic"] == "t", "{sent}");
    assert!(sent["latency"]["count"] == 2000 && sent["latency"]["p999_us"].as_f64().unwrap() > 0.0, "{sent}");

    let keyed =
        ["produce", "t", "--records", "500", "--keys", "7", "--results", "record", "--compression", "lz4", "--contents", "text"];
    assert_eq!(json(&broker, &keyed)["records"], 500);
    let read = json(&broker, &["consume", "t"]);
    assert_eq!((&read["records"], &read["counts"]["good"], &read["counts"]["lost"]), (&2500.into(), &2500.into(), &0.into()));

    let shown = broker.ok(&["bench", "consume", "t", "--records", "100", "--connections", "3"], b"");
    for what in ["records/s", "MB/s", "lost          0", "out of order  0"] {
        assert!(shown.contains(what), "{shown}");
    }
    assert_eq!(broker.ok(&["group", "list", "--output", "json"], b""), "", "nothing is committed");
    let grouped = json(&broker, &["consume", "t", "--group", "g", "--records", "2500"]);
    assert_eq!(grouped["records"], 2500);
    assert!(broker.ok(&["group", "list"], b"").contains('g'), "unless it is asked for");
}

#[test]
fn end_to_end_latency_is_told() {
    let broker = TestBroker::start();
    let told = json(&broker, &["e2e", "t", "--rate", "2000", "--duration", "500ms"]);
    assert_eq!((&told["sent"], &told["received"], &told["latency"]["count"]), (&1000.into(), &1000.into(), &900.into()));
    let shown = broker.ok(&["bench", "e2e", "t", "--rate", "500", "--duration", "200ms"], b"");
    assert!(shown.contains("latency  ") && shown.contains("p99.9"), "{shown}");
    let found = json(&broker, &["e2e", "t", "--max-rate", "--duration", "200ms"]);
    assert!(found["rate"].as_f64().unwrap() > 0.0 && !found["probes"].as_array().unwrap().is_empty(), "{found}");
}

#[test]
fn wrong_records_make_the_exit_status_1_and_others_records_do_not() {
    let broker = TestBroker::start();
    broker.ok(&["bench", "produce", "t", "--records", "3"], b"");
    broker.ok(&["produce", "t"], b"somebody else's\n");
    let sound = broker.ok(&["bench", "consume", "t"], b"");
    assert!(sound.contains("others' records  1"), "{sound}");
    let mut first = broker.run(&["consume", "t", "--count", "1", "--format", "%s"], b"").stdout;
    broker.ok(&["produce", "t", "--whole"], &first);
    first[60] ^= 1;
    broker.ok(&["produce", "t", "--whole"], &first);
    let run = broker.run(&["bench", "consume", "t"], b"");
    assert_eq!((run.status, run.stderr.as_str()), (1, "error: of the records of this and other loads: 1 doubled, 1 changed\n"));
    assert!(String::from_utf8_lossy(&run.stdout).contains("changed          1"), "what was measured is told all the same");

    let failed = broker.run(&["bench", "produce", "t", "--records", "1", "--size", "500MiB"], b"");
    assert!(failed.status == 1 && failed.stderr.starts_with("error: 1 record failed: "), "{}", failed.stderr);
    let missing = broker.run(&["bench", "consume", "nowhere"], b"");
    assert!(missing.status == 1 && missing.stderr.contains("there is no topic `nowhere`"), "{}", missing.stderr);
    let internal = broker.run(&["bench", "e2e", "__consumer_offsets"], b"");
    assert!(internal.status == 1 && internal.stderr.contains("the broker's own"), "{}", internal.stderr);
}

#[test]
fn a_load_that_is_interrupted_tells_what_it_did() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t"], b"");
    let child = broker.command(&["bench", "produce", "t", "--duration", "1h", "--rate", "1000"]).spawn().unwrap();
    let has_records = || broker.ok(&["consume", "t", "--until", "end", "--count", "1", "--format", "x"], b"") == "x";
    eventually("the first record", has_records);
    signal(&child, "INT");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("records/s"), "{ended:?}");
}

//! Records as JSON, in and out.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use support::TestBroker;

const AS_JSON: &[&str] = &["--until", "end", "--output", "json"];

fn consume(broker: &TestBroker, topic: &str) -> String {
    broker.ok(&[&["consume", topic], AS_JSON].concat(), b"")
}

/// Lines without what a record gets from where it is stored.
fn stripped(lines: &str) -> Vec<Value> {
    let strip = |line: &str| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let fields = record.as_object_mut().unwrap();
        for name in ["topic", "offset", "append_time_ns", "leader_epoch"] {
            fields.remove(name).unwrap();
        }
        record
    };
    lines.lines().map(strip).collect()
}

#[test]
fn what_was_consumed_can_be_produced() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "a", "--partitions", "3"], b"");
    broker.ok(&["topic", "create", "b", "--partitions", "3"], b"");
    let bytes = || option::of(prop_oneof![vec(any::<u8>(), 0..12), ".{0,6}".prop_map(String::into_bytes)]);
    let record = (0..3u32, bytes(), bytes(), vec((".{0,4}", bytes()), 0..3), 0..4_000_000_000_000u64);
    let all = std::cell::RefCell::new(String::new());
    let config = Config { cases: 8, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&vec(record, 1..20), |records| {
            let put = |object: &mut Value, name: &str, bytes: Option<Vec<u8>>| match bytes.map(String::from_utf8) {
                None => object[name] = Value::Null,
                Some(Ok(text)) => object[name] = text.into(),
                Some(Err(error)) => object[format!("{name}_base64")] = support::base64(error.as_bytes()).into(),
            };
            let lines = records.into_iter().map(|(partition, key, value, headers, ms)| {
                let mut object = json!({ "partition": partition, "timestamp_ns": ms * 1_000_000 });
                put(&mut object, "key", key);
                put(&mut object, "value", value);
                if !headers.is_empty() {
                    let headers = headers.into_iter().map(|(name, value)| {
                        let mut header = json!({ "name": name });
                        put(&mut header, "value", value);
                        header
                    });
                    object["headers"] = headers.collect();
                }
                format!("{object}\n")
            });
            let lines: String = lines.collect();
            broker.ok(&["produce", "a", "--json"], lines.as_bytes());
            all.borrow_mut().push_str(&lines);
            Ok(())
        })
        .unwrap();
    // Within a partition the order is that of the lines.
    let mut expected: Vec<Value> = all.borrow().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let by_partition = |record: &Value| record["partition"].as_u64();
    expected.sort_by_key(by_partition);
    let printed = consume(&broker, "a");
    let mut found = stripped(&printed);
    found.sort_by_key(by_partition);
    assert_eq!(found, expected);

    broker.ok(&["produce", "b", "--json", "--compression", "zstd"], printed.as_bytes());
    let mut copied = stripped(&consume(&broker, "b"));
    copied.sort_by_key(by_partition);
    assert_eq!(copied, expected);
}

#[test]
fn null_and_empty_stay_apart() {
    let broker = TestBroker::start();
    let lines = "{\"key\":\"k\",\"value\":null}\n\n{\"key\":\"\",\"value\":\"\"}\n{\"value_base64\":\"\"}\n";
    broker.ok(&["produce", "t", "--json"], lines.as_bytes());
    let shown = broker.ok(&["consume", "t", "--until", "end", "--format", r"%K %S\n"], b"");
    assert_eq!(shown, "1 -1\n0 0\n-1 0\n");

    broker.ok(&["topic", "create", "c", "--compaction"], b"");
    broker.ok(&["produce", "c", "--json"], b"{\"key\":\"k\",\"value\":null}\n{\"key\":\"k\",\"value\":\"\"}\n");
    let shown = broker.ok(&["consume", "c", "--until", "end", "--format", r"%k %S\n"], b"");
    assert_eq!(shown, "k -1\nk 0\n");
}

#[test]
fn a_line_that_is_wrong_is_named_and_those_before_it_are_sent() {
    let broker = TestBroker::start();
    for (line, part) in [
        ("{\"kye\":\"k\",\"value\":\"v\"}", "field `kye` is not known"),
        ("{\"value\":\"v\",\"partition\":7}", "has no partition 7"),
        ("plain text", "it is not JSON"),
    ] {
        broker.ok(&["topic", "create", "t"], b"");
        let run = broker.run(&["produce", "t", "--json"], format!("{{\"value\":\"good\"}}\n{line}\n").as_bytes());
        assert_eq!(run.status, 1);
        assert!(run.stderr.starts_with("error: line 2 of standard input: ") && run.stderr.contains(part), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert_eq!(broker.ok(&["consume", "t", "--until", "end"], b""), "good\n", "{line}");
        broker.ok(&["topic", "delete", "t"], b"");
    }
}

#[test]
fn partitions_of_the_lines_are_kept_or_chosen_by_key() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    let line = b"{\"key\":\"k\",\"value\":\"v\",\"partition\":9}\n";
    broker.ok(&["produce", "t", "--json", "--partitions", "by-key"], line);
    broker.ok(&["produce", "t", "--json", "--partition", "1"], line);
    assert_eq!(broker.ok(&["consume", "t", "--until", "end"], b"").lines().count(), 2);
    let refused = broker.run(&["produce", "t", "--json"], line);
    assert!(refused.stderr.contains("its partitions are 0 to 1"), "{}", refused.stderr);
}

//! Looking after topics.

mod support;

use support::TestBroker;

#[test]
fn topics_are_created_listed_described_and_deleted() {
    let broker = TestBroker::start();
    assert_eq!(broker.ok(&["topic", "create", "orders", "--partitions", "2"], b""), "created orders with 2 partitions\n");
    assert_eq!(broker.ok(&["topic", "create", "audit log"], b""), "created audit log with 1 partition\n");
    let listed = broker.ok(&["topic", "list"], b"");
    let ours: Vec<_> = listed.lines().filter(|line| !line.starts_with("__")).collect();
    assert_eq!(ours, ["audit log\t1", "orders\t2"]);
    broker.ok(&["produce", "orders", "--partition", "1"], b"1\n2\n");
    let described = broker.ok(&["topic", "describe", "orders"], b"");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table: Vec<_> = described.lines().map(words).collect();
    assert!(table.contains(&words("topic orders")), "{described}");
    assert!(table.contains(&words("durability sync")), "{described}");
    assert!(table.contains(&words("0 0 0 0 Ok")) || table.iter().any(|row| row.starts_with(&words("0 0 0"))), "{described}");
    assert!(table.iter().any(|row| row.starts_with(&words("1 0 2"))), "{described}");
    assert_eq!(broker.ok(&["topic", "delete", "orders"], b""), "deleted orders\n");
    assert!(!broker.ok(&["topic", "list"], b"").contains("orders"));
}

#[test]
fn settings_are_passed_on_and_told() {
    let broker = TestBroker::start();
    let create = [
        "topic",
        "create",
        "t",
        "--durability",
        "os",
        "--compaction",
        "--retention-age",
        "7d",
        "--retention-bytes",
        "500MiB",
        "--segment-bytes",
        "3GiB",
        "--output",
        "json",
    ];
    let refused = broker.run(&create, b"");
    assert_eq!(refused.status, 1, "too large a segment is refused by the broker: {}", refused.stderr);
    let created = broker.ok(&create.map(|argument| if argument == "3GiB" { "64 MiB" } else { argument }), b"");
    let created: serde_json::Value = serde_json::from_str(&created).unwrap();
    let expected = serde_json::json!({
        "durability": "os", "compaction": true, "retention_age_ms": 604_800_000, "retention_bytes": 524_288_000, "segment_bytes": 67_108_864,
    });
    assert_eq!(created["config"], expected);
    let described = broker.ok(&["topic", "describe", "t", "--output", "json"], b"");
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    assert_eq!((&described["config"], &described["id"]), (&expected, &created["id"]));
    assert_eq!(described["partitions"][0]["high_watermark"], 0);
}

#[test]
fn what_a_topic_inherits_it_can_be_made_to_inherit_again() {
    let dir = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(dir.path(), |config| {
        config.topic_defaults.retention_age_ms = 5_400_000;
        config.topic_defaults.retention_bytes = 5 << 30;
    });
    broker.ok(&["topic", "create", "t", "--retention-age", "1d 12h", "--retention-bytes", "unlimited"], b"");
    let told = |text: String| text.lines().filter(|line| line.starts_with("retention")).map(str::to_owned).collect::<Vec<_>>();
    let own = told(broker.ok(&["topic", "describe", "t"], b""));
    assert_eq!(own, ["retention age    36h", "retention bytes  never"]);
    let altered = told(broker.ok(&["topic", "alter", "t", "--retention-age", "default", "--retention-bytes", "default"], b""));
    assert_eq!(altered, ["retention age    90min", "retention bytes  5 GiB"]);
}

#[test]
fn what_cannot_be_done_is_told() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t"], b"");
    let long = "x".repeat(256);
    for (arguments, part) in [
        (&["topic", "create", "t"][..], "topic t exists; see it with"),
        (&["topic", "create", "u", "--retention-age", "0s"], "error: --retention-age: 0 would"),
        (&["consume", "__zzz"], "there is no topic `__zzz`; see `hermit-cli topic list`"),
        (&["produce", "__zzz"], "choose another"),
        (&["produce", "__consumer_offsets"], "choose another"),
        (&["topic", "delete", "nowhere"], "there is no topic `nowhere`; see `hermit-cli topic list`"),
        (&["topic", "describe", "nowhere"], "there is no topic `nowhere`"),
        (&["topic", "create", "__mine"], "reserved"),
        (&["topic", "create", ""], "empty"),
        (&["topic", "create", "a\nb"], "control character"),
        (&["topic", "create", &long], "256 bytes"),
    ] {
        let run = broker.run(arguments, b"");
        assert_eq!(run.status, 1, "{arguments:?}");
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains(part), "{arguments:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    // Names are names, never paths.
    for odd in ["../../x", "a/b", "Foo", "foo", "é", &"x".repeat(255)] {
        broker.ok(&["topic", "create", odd], b"");
        broker.ok(&["produce", odd], b"1\n");
        assert_eq!(broker.ok(&["consume", odd, "--until", "end"], b""), "1\n", "{odd}");
    }
}

#[test]
fn topics_are_altered_while_they_are_in_use() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--retention-age", "7d"], b"");
    broker.ok(&["produce", "t"], b"1\n");
    let altered = broker.ok(&["topic", "alter", "t", "--retention-bytes", "1GiB", "--durability", "os", "--output", "json"], b"");
    let altered: serde_json::Value = serde_json::from_str(&altered).unwrap();
    let config = &altered["config"];
    assert_eq!((&config["retention_bytes"], &config["durability"]), (&(1u64 << 30).into(), &"os".into()));
    assert_eq!(config["retention_age_ms"], 604_800_000, "what is not named stays");
    let shown = broker.ok(&["topic", "alter", "t", "--retention-age", "never"], b"");
    assert!(shown.contains("retention age    never"), "{shown}");
    let described = broker.ok(&["topic", "describe", "t", "--output", "json"], b"");
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    assert_eq!(described["config"]["retention_age_ms"], serde_json::Value::Null);
    assert!(described["partitions"][0]["log_bytes"].as_u64().unwrap() > 0, "{described}");

    let bad = broker.run(&["topic", "alter", "t", "--segment-bytes", "1B"], b"");
    assert!(bad.status == 1 && bad.stderr.starts_with("error: --segment-bytes: "), "{}", bad.stderr);
    let nowhere = broker.run(&["topic", "alter", "nowhere", "--compaction", "on"], b"");
    assert_eq!(nowhere.stderr, "error: there is no topic `nowhere`; see `hermit-cli topic list`\n");
}

#[test]
fn partitions_are_added_with_a_warning() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t"], b"");
    let added = broker.run(&["topic", "add-partitions", "t", "--to", "3"], b"");
    assert_eq!((added.status, &added.stdout[..]), (0, &b"t has 3 partitions\n"[..]));
    assert!(added.stderr.starts_with("warning: keys move"), "{}", added.stderr);
    assert_eq!(broker.ok(&["topic", "add-partitions", "t", "--to", "3"], b""), "t has 3 partitions\n");
    broker.ok(&["produce", "t", "--partition", "2"], b"x\n");
    let fewer = broker.run(&["topic", "add-partitions", "t", "--to", "2"], b"");
    assert!(fewer.status == 1 && fewer.stderr.lines().count() == 1, "{}", fewer.stderr);
    // The option that the command has, and not the one of `topic create`.
    assert!(fewer.stderr.starts_with("error: --to: "), "{}", fewer.stderr);
}

#[test]
fn the_oldest_records_are_trimmed() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    broker.ok(&["produce", "t", "--partition", "0"], b"a\nb\nc\n");
    broker.ok(&["produce", "t", "--partition", "1"], b"d\n");
    let all = || broker.ok(&["consume", "t", "--until", "end"], b"");
    let trimmed = broker.ok(&["topic", "trim", "t", "--before", "-1", "--dry-run"], b"");
    assert_eq!(trimmed.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(), ["0", "0", "2"]);
    assert!(trimmed.ends_with("nothing was deleted: this was a dry run\n"), "{trimmed}");
    assert_eq!(all().len(), 8);
    let line = broker.ok(&["topic", "trim", "t", "--before", "2", "--partition", "0", "--output", "json"], b"");
    assert_eq!(line, "{\"dry_run\":false,\"from\":0,\"partition\":0,\"to\":2,\"topic\":\"t\"}\n");
    let mut left: Vec<_> = all().lines().map(str::to_owned).collect();
    left.sort();
    assert_eq!(left, ["c", "d"]);
    let beyond = broker.run(&["topic", "trim", "t", "--before", "2"], b"");
    assert_eq!(beyond.stderr, "error: partition 1 ends at offset 1, before 2; `--before latest` deletes all of it\n");
    broker.ok(&["topic", "trim", "t", "--before", "1h"], b"");
    assert_eq!(all().len(), 4, "nothing is as old as that");
    broker.ok(&["topic", "trim", "t", "--before", "latest"], b"");
    assert_eq!(all(), "");
}

#[test]
fn the_broker_describes_itself() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    let described = broker.ok(&["broker", "describe"], b"");
    assert!(described.contains("leader epoch") && described.contains("connections"), "{described}");
    let described: serde_json::Value = serde_json::from_str(&broker.ok(&["broker", "describe", "--output", "json"], b"")).unwrap();
    assert_eq!((&described["topics"], &described["partitions"]), (&1.into(), &2.into()));
    assert!(described["started_at_ns"].as_u64().unwrap() > 0, "{described}");
}

//! A topic in a file, and in a pipe between two brokers.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::process::Stdio;

use support::{TestBroker, run};

const SHOWN: &[&str] = &["--until", "end", "--format", r"%p %o %T %K %k %S %s %h\n"];

/// What a partition holds.
fn shown(broker: &TestBroker, topic: &str, partition: &str) -> String {
    let consume = [&["consume", topic, "--partition", partition], SHOWN].concat();
    String::from_utf8_lossy(&broker.run(&consume, b"").stdout).into_owned()
}

/// A topic of three partitions with all kinds of records.
fn fill(broker: &TestBroker) {
    broker.ok(&["topic", "create", "t", "--partitions", "3", "--retention-age", "never", "--segment-bytes", "32MiB"], b"");
    let lines: String = (0..200)
        .map(|number| {
            let value = ["null", "\"\"", "\"text\""][number % 3];
            format!(
                "{{\"key_base64\":\"/w==\",\"value\":{value},\"partition\":{},\"timestamp_ms\":{},\"headers\":{{\"n\":\"{number}\"}}}}\n",
                number % 3,
                1_000_000 + number
            )
        })
        .collect();
    broker.ok(&["produce", "t", "--json"], lines.as_bytes());
    broker.ok(&["produce", "t", "--partition", "2", "--key-separator", ":"], b"\n\xFF\x00:\xFE\nkey:\n");
}

#[test]
fn a_pipe_moves_a_topic_from_one_broker_to_another() {
    let (from, to) = (TestBroker::start(), TestBroker::start());
    fill(&from);
    let mut export = from.command(&["export", "t", "-"]).spawn().unwrap();
    drop(export.stdin.take());
    let mut import = to.command(&["import", "copy", "-"]);
    import.stdin(Stdio::from(export.stdout.take().unwrap()));
    let imported = import.spawn().unwrap().wait_with_output().unwrap();
    let exported = export.wait_with_output().unwrap();
    assert!(exported.status.success() && imported.status.success(), "{exported:?} {imported:?}");
    assert_eq!(String::from_utf8_lossy(&exported.stderr), "exported 203 records of t\n");
    assert_eq!(String::from_utf8_lossy(&imported.stdout), "imported 203 records into copy\n");
    for partition in ["0", "1", "2"] {
        assert_eq!(shown(&to, "copy", partition), shown(&from, "t", partition));
    }
    let config = |broker: &TestBroker, topic: &str| {
        let described: serde_json::Value =
            serde_json::from_str(&broker.ok(&["topic", "describe", topic, "--output", "json"], b"")).unwrap();
        described["config"].clone()
    };
    assert_eq!(config(&to, "copy"), config(&from, "t"));
}

#[test]
fn a_file_can_be_imported_anywhere_and_twice() {
    let broker = TestBroker::start();
    fill(&broker);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.hmq");
    let file = file.to_str().unwrap();
    assert_eq!(broker.ok(&["export", "t", file], b""), "exported 203 records of t\n");
    // It holds what the data directory holds, which is for its owner alone.
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let exists = broker.run(&["export", "t", file], b"");
    assert!(exists.status == 1 && exists.stderr.contains("say --overwrite"), "{}", exists.stderr);
    let again = ["export", "t", file, "--overwrite", "--compression", "none", "--output", "json"];
    assert_eq!(broker.ok(&again, b""), "{\"records\":203,\"topic\":\"t\"}\n");

    broker.ok(&["topic", "create", "narrow", "--partitions", "2"], b"");
    let narrow = broker.run(&["import", "narrow", file], b"");
    assert_eq!(narrow.status, 1);
    assert!(
        narrow.stderr.contains("topic `narrow` has 2 partitions, and the file 3") && narrow.stderr.contains("--to 3"),
        "{}",
        narrow.stderr
    );
    assert_eq!(broker.ok(&["import", "narrow", file, "--partitions", "by-key"], b""), "imported 203 records into narrow\n");
    broker.ok(&["import", "narrow", file, "--partitions", "by-key", "--compression", "lz4"], b"");
    let both = broker.ok(&["consume", "narrow", "--until", "end", "--format", "x\n"], b"");
    assert_eq!(both.lines().count(), 406, "nothing tells the broker that these are the same records");

    let one = ["export", "t", "-", "--partition", "1"];
    let one = broker.run(&one, b"");
    assert_eq!(one.stderr, "exported 67 records of t\n");
    let imported = broker.run(&["import", "one", "-"], &one.stdout);
    assert_eq!(imported.stdout, b"imported 67 records into one\n");
    assert_eq!(shown(&broker, "one", "1"), shown(&broker, "t", "1"));
    assert_eq!(shown(&broker, "one", "0"), "");
}

#[test]
fn what_is_no_whole_file_is_told_with_what_was_stored() {
    let broker = TestBroker::start();
    fill(&broker);
    let whole = broker.run(&["export", "t", "-", "--compression", "none"], b"").stdout;
    let mut most = 0;
    for end in (0..whole.len()).step_by(whole.len() / 12).chain([whole.len() - 16, whole.len() - 1]) {
        let topic = format!("cut{end}");
        let cut = broker.run(&["import", &topic, "-"], &whole[..end]);
        assert_eq!(cut.status, 1, "cut at {end}: {}", cut.stderr);
        assert_eq!(cut.stderr.lines().count(), 1, "{}", cut.stderr);
        let stored = broker.run(&["consume", &topic, "--until", "end", "--format", "x\n"], b"").stdout.len() / 2;
        if end > 0 && stored > 0 {
            let told = format!("error: standard input, after {stored} records were stored: it ends too early");
            assert!(cut.stderr.starts_with(&told), "cut at {end}: {}", cut.stderr);
        }
        most = most.max(stored);
    }
    assert_eq!(most, 203);

    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let run = broker.run(&["import", "damaged", "-"], &damaged);
    assert!(run.status == 1 && run.stderr.contains("it is damaged at byte "), "{}", run.stderr);
    let foreign = broker.run(&["import", "foreign", "-"], b"just some text, as it happens");
    assert_eq!(foreign.stderr, "error: standard input: it is no file that `hermit-cli export` wrote\n");
    let missing = broker.run(&["import", "t", "/no/such/file"], b"");
    assert!(missing.stderr.starts_with("error: /no/such/file: cannot read it: No such file"), "{}", missing.stderr);
    let nowhere = broker.run(&["export", "nowhere", "-"], b"");
    assert_eq!(nowhere.stderr, "error: there is no topic `nowhere`; see `hermit-cli topic list`\n");
    let dead = run_without_broker(&["export", "t", "-"]);
    assert!(dead.contains("is hermitd running?"), "{dead}");
}

#[test]
fn a_compacted_topic_keeps_its_tombstones() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "c", "--compaction"], b"");
    broker.ok(
        &["produce", "c", "--json"],
        b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"a\",\"value\":null}\n{\"key\":\"\",\"value\":\"\"}\n",
    );
    let exported = broker.run(&["export", "c", "-"], b"");
    let imported = broker.run(&["import", "copy", "-"], &exported.stdout);
    assert_eq!((imported.status, imported.stderr.as_str()), (0, ""));
    assert_eq!(shown(&broker, "copy", "0"), shown(&broker, "c", "0"));
    // What such a topic does not take is refused with its place, and nothing stands behind it.
    broker.ok(&["produce", "plain", "--header", "h=1"], b"x\n");
    let plain = broker.run(&["export", "plain", "-"], b"").stdout;
    let refused = broker.run(&["import", "copy", "-"], &plain);
    assert!(refused.status == 1 && refused.stderr.contains("the record of partition 0, offset 0"), "{}", refused.stderr);
    assert!(refused.stderr.contains("after 0 records were stored"), "{}", refused.stderr);
    // A device is neither synced nor removed.
    assert_eq!(broker.ok(&["export", "c", "/dev/null", "--overwrite"], b""), "exported 3 records of c\n");
    let full = broker.run(&["export", "c", "/dev/full", "--overwrite"], b"");
    assert!(full.status == 1 && full.stderr.starts_with("error: cannot write /dev/full: No space left"), "{}", full.stderr);
    assert!(std::path::Path::new("/dev/full").exists());
}

fn run_without_broker(arguments: &[&str]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap().to_string();
    drop(listener);
    run(support::command(&nobody, arguments), b"").stderr
}

//! Producing and consuming in pipes.

mod support;

use std::io::Write;

use support::{TestBroker, eventually, read_exactly, run, signal};

const TO_END: &[&str] = &["consume", "t", "--until", "end"];

#[test]
fn lines_come_out_as_they_went_in() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "1"], b"");
    let lines = b"first\n\n\xFF\x00 binary\r\n  blanks  \nlast without an end";
    for codec in ["none", "lz4", "zstd"] {
        broker.ok(&["topic", "delete", "t"], b"");
        broker.ok(&["topic", "create", "t"], b"");
        assert_eq!(broker.ok(&["produce", "t", "--codec", codec], lines), "");
        let consumed = broker.run(TO_END, b"");
        assert_eq!((consumed.status, consumed.stderr.as_str()), (0, ""));
        assert_eq!(consumed.stdout, [&lines[..], b"\n"].concat(), "{codec}");
    }
}

#[test]
fn the_longest_lines_that_the_broker_takes_pass_through_a_pipe() {
    let broker = TestBroker::start();
    let mut lines = vec![b'x'; 45 << 20];
    lines.extend(b"\nshort\n");
    broker.ok(&["produce", "t"], &lines);
    assert!(broker.run(TO_END, b"").stdout == lines);

    let endless = broker.run(&["produce", "t"], &vec![b'x'; 60 << 20]);
    assert_eq!(endless.status, 1);
    assert!(endless.stderr.starts_with("error: line 1 of standard input is too long: it has 5"), "{}", endless.stderr);
    assert!(endless.stderr.ends_with(" bytes or more, and the broker takes 52428800 at most\n"), "{}", endless.stderr);
}

#[test]
fn files_are_read_one_after_another_and_dash_is_standard_input() {
    let broker = TestBroker::start();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("a"), "1\n2").unwrap();
    std::fs::write(path("b"), "4\n").unwrap();
    let summary = broker.ok(&["--output", "json", "produce", "t", &path("a"), "-", &path("b")], b"3\n");
    assert_eq!(summary, "{\"bytes\":7,\"records\":4,\"topic\":\"t\"}\n");
    assert_eq!(broker.ok(TO_END, b""), "1\n2\n3\n4\n");

    let missing = broker.run(&["produce", "t", &path("a"), &path("c")], b"");
    assert_eq!(missing.status, 1);
    assert!(missing.stderr.starts_with("error: cannot read "), "{}", missing.stderr);
    assert_eq!(missing.stderr.lines().count(), 1);
}

#[test]
fn keys_are_taken_from_the_line() {
    let broker = TestBroker::start();
    broker.ok(&["produce", "t", "--key-separator", ": "], b"k: v: w\nno key\n: empty key\n");
    assert_eq!(broker.ok(&[TO_END, &["--format", r"%k=%s,%K,%S\n"]].concat(), b""), "k=v: w,1,4\n=no key,-1,6\n=empty key,0,9\n");

    broker.ok(&["produce", "csv", "--key-column", "2"], b"1,UA,x\n2,\"Newark, NJ\",y\n");
    let csv = ["consume", "csv", "--until", "end", "--format", r"%k|%s\n"];
    assert_eq!(broker.ok(&csv, b""), "UA|1,UA,x\nNewark, NJ|2,\"Newark, NJ\",y\n");

    let short = broker.run(&["produce", "csv", "--key-column", "2"], b"1,UA\nonly one\n");
    assert_eq!(short.status, 1);
    assert_eq!(short.stderr, "error: line 2 of standard input has 1 column, and no column 2\n");
    assert_eq!(broker.ok(&["consume", "csv", "--from", "2", "--until", "end"], b""), "1,UA\n", "what stood before it was sent");
}

#[test]
fn formats_show_all_there_is() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "3"], b"");
    broker.ok(&["produce", "t", "--partition", "2", "--key-separator", "="], b"k=v\n");
    let shown = broker.ok(&[TO_END, &["--format", r"%t/%p/%o\t%k\x3d%s %h%%"]].concat(), b"");
    assert_eq!(shown, "t/2/0\tk=v %");
    let time: u64 = broker.ok(&[TO_END, &["--format", "%T"]].concat(), b"").parse().unwrap();
    assert!(time > 1_600_000_000_000, "{time}");

    let json = broker.ok(&[TO_END, &["--output", "json"]].concat(), b"");
    let record: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&record["topic"], &record["partition"], &record["offset"], &record["key"], &record["value"]),
        (&"t".into(), &2.into(), &0.into(), &"k".into(), &"v".into())
    );
    assert_eq!(json.lines().count(), 1);
}

#[test]
fn a_group_goes_on_behind_what_was_printed() {
    let broker = TestBroker::start();
    broker.ok(&["produce", "t"], b"1\n2\n3\n4\n5\n");
    let group = ["consume", "t", "--group", "g"];
    assert_eq!(broker.ok(&[&group[..], &["--count", "2"]].concat(), b""), "1\n2\n");
    assert_eq!(broker.ok(&[&group[..], &["--count", "1"]].concat(), b""), "3\n");
    assert_eq!(broker.ok(&[&group[..], &["--until", "end"]].concat(), b""), "4\n5\n");
    assert_eq!(broker.ok(&[&group[..], &["--until", "end"]].concat(), b""), "");
    // By hand, without joining.
    let by_hand = ["--until", "end", "--partition", "0"];
    assert_eq!(broker.ok(&[&group[..], &by_hand].concat(), b""), "");
    assert_eq!(broker.ok(&[&group[..], &by_hand, &["--from", "3"]].concat(), b""), "4\n5\n");
    assert_eq!(broker.ok(&["consume", "t", "--until", "end", "--count", "0"], b""), "");
}

#[test]
fn a_follower_prints_at_once_and_commits_before_a_signal_ends_it() {
    let broker = TestBroker::start();
    broker.ok(&["produce", "t"], b"1\n");
    let mut child = broker.command(&["consume", "t", "--group", "g"]).spawn().unwrap();
    assert_eq!(read_exactly(&mut child, 2), b"1\n");
    broker.ok(&["produce", "t"], b"2\n3\n");
    assert_eq!(read_exactly(&mut child, 4), b"2\n3\n");
    signal(&child, "TERM");
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(143), &b""[..]));
    broker.ok(&["produce", "t"], b"4\n");
    assert_eq!(broker.ok(&["consume", "t", "--group", "g", "--until", "end"], b""), "4\n");
}

#[test]
fn lines_of_a_slow_pipe_are_sent_as_they_come() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t"], b"");
    let mut reader = broker.command(&["consume", "t"]).spawn().unwrap();
    let mut writer = broker.command(&["produce", "t"]).spawn().unwrap();
    let mut stdin = writer.stdin.take().unwrap();
    for line in ["one\n", "two\n"] {
        stdin.write_all(line.as_bytes()).unwrap();
        assert_eq!(read_exactly(&mut reader, 4), line.as_bytes());
    }
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    signal(&reader, "INT");
    assert_eq!(reader.wait().unwrap().code(), Some(130));
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let broker = TestBroker::start();
    let lines = "some line or other\n".repeat(200_000);
    broker.ok(&["produce", "t"], lines.as_bytes());
    let mut child = broker.command(&["consume", "t", "--group", "g"]).spawn().unwrap();
    read_exactly(&mut child, 10);
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(141), &b""[..]));
    // What nobody read was not committed.
    let rest = broker.ok(&["consume", "t", "--group", "g", "--until", "end"], b"");
    assert!(rest.lines().count() >= 100_000, "{}", rest.lines().count());
}

#[test]
fn errors_take_one_line_and_say_what_to_do() {
    let broker = TestBroker::start();
    let unknown = broker.run(&["consume", "odrers"], b"");
    assert_eq!(unknown.status, 1);
    assert_eq!(
        unknown.stderr,
        "error: there is no topic `odrers`; create it with `hermit-cli topic create odrers`, or see `hermit-cli topic list`\n"
    );
    assert!(!broker.ok(&["topic", "list"], b"").contains("odrers"));

    broker.ok(&["produce", "t"], b"1\n");
    let partition = broker.run(&["consume", "t", "--partition", "7"], b"");
    assert_eq!(
        (partition.status, partition.stderr.as_str()),
        (1, "error: topic `t` has no partition 7; its partitions are 0 to 0\n")
    );
    let beyond = broker.run(&["consume", "t", "--from", "99"], b"");
    assert_eq!(beyond.status, 1);
    assert!(
        beyond.stderr.contains("position 99 is out of range") && beyond.stderr.contains("--on-lost-position"),
        "{}",
        beyond.stderr
    );
    assert_eq!(broker.ok(&["consume", "t", "--from", "99", "--on-lost-position", "earliest", "--count", "1"], b""), "1\n");

    let bounded = broker.run(&["consume", "t", "--from", "99", "--until", "end"], b"");
    assert_eq!((bounded.status, bounded.stderr), (1, beyond.stderr));
    for (policy, printed) in [("earliest", "1\n"), ("latest", "")] {
        let bounded = ["consume", "t", "--from", "99", "--until", "end", "--on-lost-position", policy];
        assert_eq!(broker.ok(&bounded, b""), printed, "{policy}");
    }

    let unresolved = run(support::command("no-such-host.invalid:9092", &["topic", "list"]), b"");
    assert_eq!(unresolved.status, 1);
    assert!(
        unresolved.stderr.starts_with("error: cannot reach no-such-host.invalid:9092: the host name could not be resolved ("),
        "{}",
        unresolved.stderr
    );

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap().to_string();
    drop(listener);
    let unreachable = run(support::command(&nobody, &["topic", "list"]), b"");
    assert_eq!(unreachable.status, 1);
    let expected = format!("error: cannot reach {nobody}: connection refused; is hermitd running? ");
    assert!(unreachable.stderr.starts_with(&expected) && unreachable.stderr.lines().count() == 1, "{}", unreachable.stderr);

    let usage = broker.run(&["consume"], b"");
    assert_eq!(usage.status, 2);
    assert_eq!(broker.run(&["consume", "t", "--from", "tomorrow"], b"").status, 2);
}

#[test]
fn many_lines_survive_with_their_order() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "t", "--partitions", "4"], b"");
    let lines: String = (0..50_000).map(|number| format!("{number},carrier{}\n", number % 13)).collect();
    broker.ok(&["produce", "t", "--key-column", "2", "--codec", "lz4"], lines.as_bytes());
    let read = broker.ok(&[TO_END, &["--format", r"%k %s\n"]].concat(), b"");
    let mut last = std::collections::HashMap::new();
    let mut numbers = Vec::new();
    for line in read.lines() {
        let (key, value) = line.split_once(' ').unwrap();
        let number: u32 = value.split_once(',').unwrap().0.parse().unwrap();
        let before = last.insert(key.to_owned(), number);
        assert!(before.is_none_or(|before| before < number));
        numbers.push(number);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..50_000));
    eventually("the broker counts no connection", || broker.broker.connections() == 0);
}

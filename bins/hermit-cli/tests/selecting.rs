//! Which records are printed: from where, until when, and which of them; and how they are cut out of what is read.

mod support;

use support::{TestBroker, eventually};

#[test]
fn the_last_ones_and_those_of_a_time() {
    let broker = TestBroker::start();
    broker.ok(&["produce", "t"], b"1\n2\n3\n");
    let consume = |options: &[&str]| broker.ok(&[&["consume", "t", "--until", "end"], options].concat(), b"");
    assert_eq!(consume(&["--from", "-2"]), "2\n3\n");
    assert_eq!(consume(&["--from", "-9"]), "1\n2\n3\n");
    assert_eq!(consume(&["--from", "-0"]), "");
    assert_eq!(consume(&["--from", "1h"]), "1\n2\n3\n");
    assert_eq!(consume(&["--from", "2100-01-01"]), "");

    let appended = || {
        let printed = broker.ok(&["consume", "t", "--until", "end", "--output", "json"], b"");
        let time = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["append_time_ns"].as_u64().unwrap();
        printed.lines().map(time).collect::<Vec<_>>()
    };
    let last = *appended().last().unwrap();
    // A time of its own, whatever the clock's step: until then the records would come at once.
    eventually("the next batch is younger", || {
        broker.ok(&["produce", "t"], b"4\n");
        appended().last().unwrap() / 1_000_000 > last / 1_000_000 + 1
    });
    let times = appended();
    let at = times.iter().position(|time| time / 1_000_000 > last / 1_000_000 + 1).unwrap();
    let moment = |ms: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
        humantime::format_rfc3339_millis(time).to_string()
    };
    let between = moment(times[at] / 1_000_000);
    let after = broker.ok(&["consume", "t", "--from", &between, "--until", "end"], b"");
    assert_eq!(after.lines().count(), times.len() - at);
    let before = broker.ok(&["consume", "t", "--until", &between], b"");
    assert_eq!(before.lines().count(), at);
    assert_eq!(broker.ok(&["consume", "t", "--until", "1970-01-02"], b""), "");
    let backwards = broker.run(&["consume", "t", "--from", &between, "--until", "1970-01-02"], b"");
    assert_eq!(backwards.stderr, "error: --until lies before --from\n");
}

#[test]
fn keys_and_headers_are_filtered_by_their_bytes() {
    let broker = TestBroker::start();
    let lines = br#"{"key":"eu-1","value":"a","headers":{"type":"paid","by":"web"}}
{"key":"us-1","value":"b","headers":{"type":"paid"}}
{"value":"c","headers":{"type":null}}
{"key_base64":"/2V1","value":"d","headers":[{"name":"type","value":"open"},{"name":"type","value":"unpaid"}]}
"#;
    broker.ok(&["produce", "t", "--json"], lines);
    let consume = |options: &[&str]| broker.ok(&[&["consume", "t", "--until", "end"], options].concat(), b"");
    assert_eq!(consume(&["--key", "eu"]), "a\nd\n");
    assert_eq!(consume(&["--key", "^eu-"]), "a\n");
    assert_eq!(consume(&["--key", r"(?-u)^\xff"]), "d\n");
    assert_eq!(consume(&["--key", ""]), "a\nb\nd\n", "a record without a key has none that could match");
    assert_eq!(consume(&["--header", "type=paid"]), "a\nb\nd\n");
    assert_eq!(consume(&["--header", "type=^paid$", "--header", "by="]), "a\n");
    assert_eq!(consume(&["--header", "type="]), "a\nb\nd\n");
    assert_eq!(consume(&["--key", "1$", "--count", "1"]), "a\n");
}

#[test]
fn a_group_moves_past_what_was_filtered_out() {
    let broker = TestBroker::start();
    broker.ok(&["produce", "t", "--key-separator", ":"], b"a:1\nb:2\na:3\nb:4\n");
    let group = ["consume", "t", "--group", "g", "--until", "end"];
    assert_eq!(broker.ok(&[&group[..], &["--key", "a"]].concat(), b""), "1\n3\n");
    assert_eq!(broker.ok(&group, b""), "");
}

#[test]
fn records_are_cut_out_by_delimiter_or_whole() {
    let broker = TestBroker::start();
    broker.ok(&["produce", "t", "--delimiter", r"\0", "--header", "n=1", "--header", "m=", "--key", r"\xff"], b"a\nb\0c\0");
    let shown = broker.run(&["consume", "t", "--until", "end", "--format", r"%k|%s|%h;"], b"");
    assert_eq!(shown.stdout, b"\xFF|a\nb|n=1,m=;\xFF|c|n=1,m=;");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, b"\0\n\xFF\n").unwrap();
    let whole = ["produce", "whole", file.to_str().unwrap(), "-", "--whole", "--timestamp", "1970-01-01T00:00:01Z"];
    broker.ok(&whole, b"");
    let shown = broker.run(&["consume", "whole", "--until", "end", "--format", r"%T %S %s;"], b"");
    assert_eq!(shown.stdout, b"1000 4 \0\n\xFF\n;1000 0 ;");

    broker.ok(&["produce", "sep", "--delimiter", "--", "--key-separator", r"\x01"], b"k\x01v--\x01--none");
    let shown = broker.ok(&["consume", "sep", "--until", "end", "--format", r"%K %k %s;"], b"");
    assert_eq!(shown, "1 k v;0  ;-1  none;");
}

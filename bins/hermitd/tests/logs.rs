//! The log as programs read it.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use hermit_client::blocking::Client;
use hermit_client::{Offset, TopicConfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Daemon, hermitd};

#[test]
fn each_event_is_one_line_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = hermitd();
    command.arg("--data-dir").arg(dir.path().join("a\n\"b")).args(["--listen", "127.0.0.1:0"]);
    command.args(["--log-format", "json", "--log", "debug", "--authentication", "on"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let events: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    for event in &events {
        for field in ["timestamp", "level", "message", "target"] {
            assert!(event[field].is_string(), "{field}: {event}");
        }
    }
    // What the collector's settings name is in every line, and the time is as they say.
    let collector =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring/otel-collector.yml")).unwrap();
    let named: BTreeSet<_> = collector.split("attributes.").skip(1).map(|rest| rest.split_whitespace().next().unwrap()).collect();
    assert_eq!(named, ["level", "message", "timestamp"].into_iter().collect());
    for event in &events {
        assert!(named.iter().all(|name| event[*name].is_string()), "{event}");
        let shape: String =
            event["timestamp"].as_str().unwrap().chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert!(shape.starts_with("0000-00-00T00:00:00.") && shape.ends_with("0Z"), "{shape}");
    }
    let of = |message: &str| events.iter().find(|event| event["message"] == message).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(ready, format!("ready hermit={}\n", of("ready")["address"].as_str().unwrap()));
    assert_eq!((&of("ready")["level"], &of("closed the data directory")["clean"]), (&"INFO".into(), &true.into()));
    assert!(events.iter().any(|event| event["path"].as_str().is_some_and(|path| path.contains("a\n\"b"))), "{said}");
}

/// The text of a call of a macro that begins at `text`, behind its opening parenthesis, without what stands in quotes within deeper parentheses; and its literals.
fn call(text: &str) -> (String, Vec<String>) {
    let (mut code, mut literals, mut depth) = (String::new(), Vec::new(), 1);
    let mut rest = text.chars();
    while depth > 0 {
        match rest.next().unwrap() {
            '"' => {
                let mut literal = String::new();
                loop {
                    match rest.next().unwrap() {
                        '"' => break,
                        '\\' => literal.extend(rest.next()),
                        other => literal.push(other),
                    }
                }
                if depth == 1 {
                    literals.push(literal);
                }
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            other if depth == 1 => code.push(other),
            _ => {}
        }
    }
    (code, literals)
}

/// Level and message of each event in these sources, with the names of its fields.
fn events_in(dir: &Path, events: &mut Vec<(&'static str, String, String)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            events_in(&path, events);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for level in ["error", "warn", "info"] {
                for (at, begin) in text.match_indices(&format!("tracing::{level}!(")) {
                    let (code, mut literals) = call(&text[at + begin.len()..]);
                    let message =
                        literals.pop().unwrap_or_else(|| panic!("{}: {code}: an event without a message", path.display()));
                    assert!(!message.contains('{'), "{}: the message differs from event to event: {message}", path.display());
                    events.push((level, message, code));
                }
            }
        }
    }
}

#[test]
fn the_manual_has_every_event_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut events = Vec::new();
    for part in ["crates/hermit-log", "crates/hermit-broker", "crates/hermit-http", "bins/hermitd"] {
        events_in(&root.join(part).join("src"), &mut events);
    }
    let manual = std::fs::read_to_string(root.join("docs/logs.md")).unwrap();
    let rows = manual.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (level, message) = (cells.next()?, cells.next()?);
        ["error", "warn", "info"].contains(&level).then(|| (level.to_owned(), message.to_owned()))
    });
    let rows: Vec<_> = rows.collect();
    let told: BTreeSet<_> = rows.iter().cloned().collect();
    let written: BTreeSet<_> = events.iter().map(|(level, message, _)| ((*level).to_owned(), message.clone())).collect();
    assert_eq!(rows.len(), told.len(), "docs/logs.md has an event twice");
    let missing: Vec<_> = written.difference(&told).collect();
    let gone: Vec<_> = told.difference(&written).collect();
    assert!(missing.is_empty() && gone.is_empty(), "docs/logs.md misses {missing:#?}, and has {gone:#?}");
    assert!(written.len() > 100, "{}", written.len());
    // As JSON, fields stand beside what every line has.
    for (_, message, code) in &events {
        let fields = code.split(',').map(|field| field.split('=').next().unwrap().trim().trim_start_matches(['%', '?', '&']));
        for field in fields {
            assert!(!["timestamp", "level", "message", "target"].contains(&field), "{field}: {message}");
        }
    }
}

#[test]
fn what_a_client_does_over_and_over_is_a_few_lines() {
    const TIMES: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), |_command| {});
    let client = Client::builder().server(&daemon.address).connect().unwrap();
    let admin = client.admin();
    let began = Instant::now();
    admin.create_topic("t", 1, TopicConfig::default()).unwrap();
    for at in 0..TIMES {
        admin.trim("t", 0, Offset(0)).unwrap();
        let retention = Some(3_600_000 + at as u64);
        admin.alter_topic("t", TopicConfig { retention_age_ms: retention, ..TopicConfig::default() }).unwrap();
    }
    let periods = usize::try_from(began.elapsed().as_secs() / 10 + 2).unwrap();
    drop(client);
    let said = daemon.stop();
    for message in ["trimmed a partition", "altered a topic"] {
        let lines = said.matches(message).count();
        assert!(lines >= 20 && lines <= 20 * periods, "{lines} times {message}, in {periods} periods");
    }
    // What has no limit says so in a word.
    assert!(said.contains("retention_age_ms=3600000 retention_bytes=never "), "{said}");
}

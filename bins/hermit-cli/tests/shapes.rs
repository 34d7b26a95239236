//! The JSON of every command has the shape that `docs/cli.md` shows. `UPDATE_DOCS=1` puts what is printed now into the page: a changed shape is a change for everybody's
//! scripts, and is then seen in review.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{TestBroker, command, eventually, run, signal};

/// The examples of the page, by name, and which of them were compared.
struct Page {
    path: PathBuf,
    examples: BTreeMap<String, Value>,
    printed: RefCell<BTreeMap<String, Value>>,
    update: bool,
}

impl Page {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        let text = fs::read_to_string(&path).unwrap();
        let update = std::env::var_os("UPDATE_DOCS").is_some();
        let examples = blocks(&text).into_iter().filter(|(name, _)| !name.is_empty());
        let examples = examples.map(|(name, body)| (name, serde_json::from_str(&body).unwrap_or(Value::Null))).collect();
        Self { path, examples, printed: RefCell::default(), update }
    }

    /// Each line that was printed is as the example of this name.
    fn check(&self, name: &str, printed: &str) {
        let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!lines.is_empty(), "{name}: nothing was printed");
        self.printed.borrow_mut().insert(name.to_owned(), lines[0].clone());
        if self.update {
            return;
        }
        let example = self.examples.get(name).unwrap_or_else(|| panic!("docs/cli.md has no example ```json {name}"));
        for line in &lines {
            assert!(line.is_object(), "{name}: {line}");
            compare(name, example, line);
        }
    }

    /// All examples were compared.
    fn end(&self) {
        let printed = self.printed.borrow();
        if self.update {
            let mut text = fs::read_to_string(&self.path).unwrap();
            for (name, value) in printed.iter() {
                let open = format!("```json {name}\n");
                let at = text.find(&open).unwrap_or_else(|| panic!("docs/cli.md has no place for {open}")) + open.len();
                let end = at + text[at..].find("```").unwrap();
                let compact = value.to_string();
                let shown = if compact.len() <= 160 { compact } else { format!("{value:#}") };
                text.replace_range(at..end, &format!("{shown}\n"));
            }
            fs::write(&self.path, text).unwrap();
            return;
        }
        for name in self.examples.keys() {
            assert!(printed.contains_key(name), "docs/cli.md: nothing prints the example {name}");
        }
    }
}

/// The blocks of JSON, with the names behind the word.
fn blocks(text: &str) -> Vec<(String, String)> {
    let pieces = text.split("```json ").skip(1);
    pieces
        .map(|piece| {
            let (name, rest) = piece.split_once('\n').unwrap();
            (name.to_owned(), rest.split("```").next().unwrap().to_owned())
        })
        .collect()
}

/// Lists in which the examples have nothing: of strings, shown by another example, or of what is wrong with a data directory that is well.
const EMPTY: [&str; 13] = [
    "group describe.members[].patterns",
    "bench produce.lateness.curve",
    "log inspect.damaged_state",
    "log inspect.damages",
    "log inspect.kept",
    "log inspect.leftovers",
    "log verify.damaged_state",
    "log verify.damages",
    "log verify.kept",
    "log verify.leftovers",
    "log repair.actions",
    "log repair.left",
    "log import.problems",
];

/// Same fields with values of the same kinds, all the way down. `null` may stand for anything.
fn compare(place: &str, example: &Value, found: &Value) {
    match (example, found) {
        (Value::Object(example), Value::Object(found)) => {
            let names = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
            // What depends on names of the user's own has no fixed fields.
            if place.ends_with(".settings") {
                return;
            }
            assert_eq!(names(example), names(found), "{place}");
            for (name, value) in example {
                assert!(
                    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                    "{place}.{name} is not snake_case"
                );
                compare(&format!("{place}.{name}"), value, &found[name]);
            }
        }
        (Value::Array(example), Value::Array(found)) => {
            // What is not shown cannot be compared.
            let Some(first) = example.first() else {
                assert!(EMPTY.contains(&place), "{place}: the example is empty");
                return found.iter().for_each(|item| assert!(item.is_string(), "{place}"));
            };
            found.iter().for_each(|item| compare(&format!("{place}[]"), first, item));
        }
        (Value::Null, _) | (_, Value::Null) => {}
        _ => {
            let kind = |value: &Value| match value {
                Value::Bool(_) => "true or false",
                Value::Number(_) => "a number",
                Value::String(_) => "a string",
                Value::Array(_) => "a list",
                Value::Object(_) => "an object",
                Value::Null => "null",
            };
            assert_eq!(kind(example), kind(found), "{place}");
        }
    }
}

#[test]
fn differences_of_shape_are_seen() {
    let differs = |one: Value, other: Value| std::panic::catch_unwind(|| compare("x", &one, &other)).is_err();
    let (one, list) = (serde_json::json!({ "a": 1 }), serde_json::json!({ "a": [{ "b": 1 }] }));
    assert!(!differs(one.clone(), serde_json::json!({ "a": 2 })));
    assert!(!differs(one.clone(), serde_json::json!({ "a": null })));
    assert!(differs(one.clone(), serde_json::json!({ "a": "1" })));
    assert!(differs(one.clone(), serde_json::json!({})));
    assert!(differs(one, serde_json::json!({ "a": 1, "b": 1 })));
    assert!(differs(list.clone(), serde_json::json!({ "a": [{ "b": 1 }, { "c": 1 }] })));
    let empty = serde_json::json!({ "a": [] });
    assert!(!differs(list, empty.clone()));
    assert!(differs(empty.clone(), empty));
}

#[test]
fn every_command_prints_what_the_manual_shows() {
    let page = Page::read();
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let mut broker = TestBroker::start_in(&data);
    let json = |arguments: &[&str], input: &[u8]| broker.ok(&[arguments, &["--output", "json"]].concat(), input);
    let file = home.path().join("orders.hmq");
    let file = file.to_str().unwrap();
    page.check("topic create", &json(&["topic", "create", "orders", "--partitions", "2", "--retention-age", "7d"], b""));
    page.check("produce", &json(&["produce", "orders", "--key-separator", ":", "--header", "by=web"], b"a:1\nb:2\nc:3\n"));
    page.check("consume", &json(&["consume", "orders", "--group", "billing", "--until", "end"], b""));
    json(&["produce", "orders"], b"later\n");
    page.check("topic list", &json(&["topic", "list"], b""));
    page.check("topic describe", &json(&["topic", "describe", "orders"], b""));
    page.check("topic alter", &json(&["topic", "alter", "orders", "--retention-age", "never"], b""));
    page.check("topic trim", &json(&["topic", "trim", "orders", "--before", "-1"], b""));
    page.check(
        "topic add-partitions",
        &broker.run(&["topic", "add-partitions", "orders", "--to", "3", "--output", "json"], b"").text(),
    );
    page.check("group list", &json(&["group", "list"], b""));
    page.check("group describe", &with_a_member(&broker, || json(&["group", "describe", "billing"], b"")));
    page.check("status", &of_an_ill_one(&home.path().join("ill")));
    page.check("top", &json(&["top", "--once", "--interval", "100ms"], b""));
    page.check("broker describe", &json(&["broker", "describe"], b""));
    page.check("group seek", &json(&["group", "seek", "billing", "--topic", "orders", "--to", "latest"], b""));
    page.check("group delete", &json(&["group", "delete", "billing"], b""));
    page.check("export", &json(&["export", "orders", file], b""));
    page.check("import", &json(&["import", "copy", file], b""));
    page.check("bench produce", &json(&["bench", "produce", "load", "--records", "1000"], b""));
    page.check("bench consume", &json(&["bench", "consume", "load"], b""));
    page.check("bench e2e", &json(&["bench", "e2e", "load", "--rate", "100", "--duration", "300ms"], b""));
    page.check("topic delete", &json(&["topic", "delete", "load"], b""));
    let failed = broker.run(&["topic", "describe", "nowhere", "--output", "json"], b"");
    page.check("error", &failed.stderr);
    users(&page, &json);
    broker.stop();
    offline(&page, &data, home.path());
    page.end();
}

/// What is told while somebody reads.
fn with_a_member(broker: &TestBroker, tell: impl Fn() -> String) -> String {
    let mut member = broker.command(&["consume", "orders", "--group", "billing"]).spawn().unwrap();
    let mut told = String::new();
    eventually("a member reads", || {
        told = tell();
        let group: Value = serde_json::from_str(&told).unwrap();
        group["members"]
            .as_array()
            .unwrap()
            .iter()
            .any(|member| member["partitions"].as_array().is_some_and(|read| !read.is_empty()))
    });
    signal(&member, "TERM");
    member.wait().unwrap();
    told
}

/// The status of a broker with a partition that is down, and a group that is behind.
fn of_an_ill_one(data: &Path) -> String {
    let mut broker = TestBroker::start_in(data);
    broker.ok(&["topic", "create", "orders"], b"");
    let lost: Value = serde_json::from_str(&broker.ok(&["topic", "create", "lost", "--output", "json"], b"")).unwrap();
    broker.ok(&["produce", "orders"], b"one\ntwo\n");
    broker.ok(&["consume", "orders", "--group", "billing", "--count", "1"], b"");
    broker.stop();
    drop(broker);
    fs::remove_dir_all(data.join(format!("partitions/{}-0", lost["id"].as_str().unwrap()))).unwrap();
    let told = TestBroker::start_in(data).run(&["status", "--output", "json"], b"");
    assert_eq!(told.status, 1, "{}", told.stderr);
    told.text()
}

fn users(page: &Page, json: &impl Fn(&[&str], &[u8]) -> String) {
    page.check("user add", &json(&["user", "add", "billing", "--no-password"], b""));
    page.check("user token add", &json(&["user", "token", "add", "billing", "server-7"], b""));
    page.check("user token list", &json(&["user", "token", "list", "billing"], b""));
    page.check("user list", &json(&["user", "list"], b""));
    page.check("user passwd", &json(&["user", "passwd", "billing", "--new-password-file", "-"], b"correct-horse"));
    page.check("user disable", &json(&["user", "disable", "billing"], b""));
    page.check("user enable", &json(&["user", "enable", "billing"], b""));
    page.check("user whoami", &json(&["user", "whoami"], b""));
    page.check("acl add", &json(&["acl", "add", "billing", "--topic-prefix", "orders.", "--allow", "consume"], b""));
    page.check("acl list", &json(&["acl", "list"], b""));
    page.check("acl remove", &json(&["acl", "remove", "billing", "--topic-prefix", "orders."], b""));
    page.check("user token remove", &json(&["user", "token", "remove", "billing", "server-7"], b""));
    page.check("user remove", &json(&["user", "remove", "billing"], b""));
}

fn offline(page: &Page, data: &Path, home: &Path) {
    let json = |arguments: &[&str]| {
        let mut command = command("127.0.0.1:1", &[arguments, &["--output", "json"]].concat());
        command.env("HERMIT_CONFIG", home.join("config.toml"));
        let run = run(command, b"");
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{arguments:?}");
        String::from_utf8(run.stdout).unwrap()
    };
    let dir = data.to_str().unwrap();
    page.check("log inspect", &json(&["log", "inspect", dir, "--topic", "orders"]));
    page.check("log verify", &json(&["log", "verify", dir, "--topic", "orders"]));
    page.check("log repair", &json(&["log", "repair", dir, "--topic", "orders", "--dry-run"]));
    page.check("log restored", &json(&["log", "restored", dir]));
    page.check("man", &json(&["man", home.join("man").to_str().unwrap()]));
    let profiles =
        "default = 'test'\n[profiles.test]\nserver = '127.0.0.1:9092'\nuser = 'alice'\npassword_file = '/run/secrets/alice'\n";
    fs::write(home.join("config.toml"), profiles).unwrap();
    page.check("profile list", &json(&["profile", "list"]));
    page.check("profile show", &json(&["profile", "show"]));
    page.check("profile use", &json(&["profile", "use", "test"]));
    // The data of an older broker, as its own test has them.
    let old = home.join("old");
    support::older_data(&old);
    page.check(
        "log import",
        &json(&["log", "import", old.to_str().unwrap(), "--data-dir", home.join("new").to_str().unwrap(), "--dry-run"]),
    );
}

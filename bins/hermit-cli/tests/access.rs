//! Users, tokens and rules from the command line, and logging in.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hermit_broker::FirstAdministrator;
use hermit_broker::proto::Secret;
use serde_json::Value;
use support::{Run, TestBroker, run};

const ADMIN_PASSWORD: &str = "correct-horse";

struct Site {
    broker: TestBroker,
    dir: tempfile::TempDir,
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let broker = TestBroker::start_with(&dir.path().join("data"), |config| {
            config.access.enabled = true;
            let (user, password) = ("admin".parse().unwrap(), Secret::new(ADMIN_PASSWORD));
            config.access.first_administrator = FirstAdministrator::Password { user, password };
        });
        Self { broker, dir }
    }

    /// A file for its owner alone.
    fn secret(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.broker.command(arguments);
        for name in
            ["HERMIT_USER", "HERMIT_PASSWORD", "HERMIT_PASSWORD_FILE", "HERMIT_TOKEN", "HERMIT_TOKEN_FILE", "HERMIT_NEW_PASSWORD"]
        {
            command.env_remove(name);
        }
        command
    }

    fn admin(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.env("HERMIT_USER", "admin").env("HERMIT_PASSWORD", ADMIN_PASSWORD);
        command
    }

    /// Runs as the administrator, to a good end.
    fn ok(&self, arguments: &[&str]) -> String {
        good(run(self.admin(arguments), b""))
    }
}

fn good(run: Run) -> String {
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    String::from_utf8(run.stdout).unwrap()
}

fn refused(run: &Run, said: &[&str]) {
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(said.iter().all(|said| run.stderr.contains(said)), "{}", run.stderr);
}

fn with_file(command: &mut Command, option: &str, file: &Path) {
    command.arg(option).arg(file);
}

#[test]
fn a_user_may_what_a_rule_says_as_long_as_it_says_so() {
    let site = Site::start();
    site.ok(&["topic", "create", "orders"]);
    let mut adding = site.admin(&["user", "add", "alice"]);
    adding.env("HERMIT_NEW_PASSWORD", "alices-own");
    assert_eq!(good(run(adding, b"")), "added alice\n");
    let password = site.secret("alice", "alices-own\n");
    let alice = |arguments: &[&str], input: &[u8]| {
        let mut command = site.command(arguments);
        command.args(["--user", "alice"]);
        with_file(&mut command, "--password-file", &password);
        run(command, input)
    };
    let produce = ["produce", "orders"];
    refused(&alice(&produce, b"paid\n"), &["no rule allows you anything on topic `orders`", "acl add"]);
    assert_eq!(site.ok(&["acl", "add", "alice", "--topic", "orders", "--allow", "produce,consume"]), "added 1 rule\n");
    assert_eq!(alice(&produce, b"paid\n").status, 0);
    assert_eq!(good(alice(&["consume", "orders", "--until", "end"], b"")), "paid\n");
    refused(&alice(&["user", "list"], b""), &["acl add"]);
    assert_eq!(site.ok(&["acl", "remove", "alice", "--topic", "orders", "--allow", "produce"]), "removed 1 rule\n");
    refused(&alice(&produce, b"paid\n"), &["acl add"]);
    let listed = site.ok(&["acl", "list", "alice"]);
    assert!(listed.contains("alice") && listed.contains("--topic") && listed.ends_with("consume\n"), "{listed}");
    refused(&run(site.admin(&["acl", "remove", "alice", "--topic", "other"]), b""), &["acl list"]);
    // A name that nobody has is taken, and told of; `*` is everybody.
    let misspelt = run(site.admin(&["acl", "add", "alcie", "--topic", "orders", "--allow", "consume"]), b"");
    assert_eq!((misspelt.status, &*misspelt.stdout), (0, &b"added 1 rule\n"[..]));
    assert!(misspelt.stderr.starts_with("warning: there is no user alcie"), "{}", misspelt.stderr);
    assert_eq!(site.ok(&["acl", "add", "*", "--topic", "orders", "--allow", "consume"]), "added 1 rule\n");
}

#[test]
fn what_is_listed_can_be_read_by_programs_and_holds_no_secret() {
    let site = Site::start();
    let token = site.ok(&["user", "add", "billing", "--no-password"]);
    assert_eq!(token, "added billing\n");
    let token = site.ok(&["user", "token", "add", "billing", "server 7"]);
    let token = token.trim_end();
    assert!(token.starts_with("hmt_") && token.len() > 40, "a token");
    let user: Value =
        site.ok(&["user", "list", "--output", "json"]).lines().next_back().map(|line| serde_json::from_str(line).unwrap()).unwrap();
    assert_eq!(
        (user["user"].as_str(), user["password"].as_bool(), user["enabled"].as_bool()),
        (Some("billing"), Some(false), Some(true))
    );
    assert_eq!(user["tokens"][0]["label"], "server 7");
    let file = site.secret("token", token);
    let as_billing = |arguments: &[&str]| {
        // An option counts before the environment.
        let mut command = site.admin(arguments);
        with_file(&mut command, "--token-file", &file);
        run(command, b"")
    };
    assert_eq!(good(as_billing(&["user", "whoami"])), "billing, by a token\n");
    site.ok(&["acl", "add", "billing", "--topic-prefix", "orders.", "--group", "billing", "--allow", "consume"]);
    let rules = site.ok(&["acl", "list", "billing", "--output", "json"]);
    let rules: Vec<Value> = rules.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&rules[0]["resource"], &rules[0]["match"], &rules[0]["name"]),
        (&"topic".into(), &"prefix".into(), &"orders.".into())
    );
    assert_eq!(rules[1]["operations"][0], "consume");
    for all in [site.ok(&["user", "list"]), site.ok(&["user", "token", "list", "billing"]), site.ok(&["broker", "describe"])] {
        assert!(!all.contains(token) && !all.contains(ADMIN_PASSWORD), "{all}");
    }
    site.ok(&["user", "disable", "billing"]);
    assert_eq!(as_billing(&["user", "whoami"]).status, 1);
    site.ok(&["user", "enable", "billing"]);
    site.ok(&["user", "token", "remove", "billing", "server 7"]);
    refused(&as_billing(&["user", "whoami"]), &["error: "]);
    site.ok(&["user", "remove", "billing"]);
    assert_eq!(site.ok(&["acl", "list", "billing", "--output", "json"]), "");
    refused(&run(site.admin(&["user", "remove", "billing"]), b""), &["user list"]);
}

#[test]
fn a_status_of_what_may_not_be_seen_is_no_good_one() {
    let site = Site::start();
    site.ok(&["topic", "create", "orders"]);
    good(run(site.admin(&["produce", "orders"]), b"one\ntwo\n"));
    site.ok(&["consume", "orders", "--group", "billing", "--count", "1"]);
    let mut adding = site.admin(&["user", "add", "watch"]);
    adding.env("HERMIT_NEW_PASSWORD", "watchs-own");
    good(run(adding, b""));
    site.ok(&["acl", "add", "watch", "--broker", "--allow", "administer"]);
    let status = |more: &[&str]| -> (i32, Value) {
        let mut command = site.command(&[&["status", "--output", "json"], more].concat());
        command.env("HERMIT_USER", "watch").env("HERMIT_PASSWORD", "watchs-own");
        let run = run(command, b"");
        (run.status, serde_json::from_slice(&run.stdout).unwrap())
    };
    let kind = |told: &Value, list: &str| told[list][0]["kind"].as_str().map(str::to_owned);
    let (code, told) = status(&[]);
    assert_eq!((code, kind(&told, "warnings").as_deref()), (0, Some("not_all_seen")), "{told}");
    assert!(told["warnings"][0]["message"].as_str().unwrap().contains("1 group and 1 topic"), "{told}");
    let (code, told) = status(&["--max-lag", "1h"]);
    assert_eq!((code, kind(&told, "problems").as_deref()), (1, Some("not_all_seen")), "{told}");
    // A right to read does not do: it lists the group, and tells nothing of it.
    site.ok(&["acl", "add", "watch", "--topic-prefix", "", "--group-prefix", "", "--allow", "consume"]);
    let (_, told) = status(&[]);
    assert!(told["warnings"][0]["message"].as_str().unwrap().contains("1 group and 0 topics"), "{told}");
    // What the warning says to do does.
    site.ok(&["acl", "add", "watch", "--topic-prefix", "", "--group-prefix", "", "--allow", "administer"]);
    let (code, told) = status(&["--max-lag", "1h"]);
    assert_eq!((code, &told["groups"][0]["lag"], &told["problems"]), (0, &1.into(), &Value::Array(Vec::new())), "{told}");
}

#[test]
fn logins_that_cannot_be_are_told_with_what_to_do() {
    let site = Site::start();
    let list = ["topic", "list"];
    refused(&run(site.command(&list), b""), &["--user", "HERMIT_TOKEN"]);
    let mut wrong = site.command(&list);
    wrong.env("HERMIT_USER", "admin").env("HERMIT_PASSWORD", "wrong");
    let wrong = run(wrong, b"");
    refused(&wrong, &["error: "]);
    assert!(!wrong.stderr.contains("wrong-") && !wrong.stderr.contains(ADMIN_PASSWORD), "{}", wrong.stderr);
    let mut both = site.admin(&list);
    both.env("HERMIT_TOKEN", "hmt_x");
    refused(&run(both, b""), &["both a user and a token"]);
    let mut nobody = site.command(&list);
    with_file(&mut nobody, "--password-file", &site.secret("p", "x"));
    refused(&run(nobody, b""), &["--user"]);
    let mut nowhere = site.command(&["topic", "list", "--user", "admin"]);
    with_file(&mut nowhere, "--password-file", &site.dir.path().join("no.file"));
    refused(&run(nowhere, b""), &["--password-file: ", "no.file: No such file"]);
    // TLS where there is none.
    refused(&run(site.admin(&["topic", "list", "--tls"]), b""), &["leave --tls"]);
    // What others may read is warned of.
    let open = site.secret("open", ADMIN_PASSWORD);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = site.command(&["user", "whoami", "--user", "admin"]);
    with_file(&mut command, "--password-file", &open);
    let warned = run(command, b"");
    assert_eq!(warned.stdout, b"admin, by a password\n");
    assert!(warned.stderr.contains("chmod 600"), "{}", warned.stderr);
    // From standard input.
    let piped = site.command(&["user", "whoami", "--user", "admin", "--password-file", "-"]);
    assert_eq!(good(run(piped, b"correct-horse\n")), "admin, by a password\n");
}

//! Whom the program lets in: where it listens, who comes first, and that secrets stay secret.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use hermit_client::blocking::{Client, ClientBuilder};
use hermit_client::{
    AccessOperations, AccessResource, AccessRule, LoginKind, NamePattern, ProducerRecord, Result, Status, TlsConfig, TopicConfig,
};
use rustix::process::Signal;
use support::{Daemon, PATIENCE, eventually, hermitd};

const PASSWORD: &str = "correct-horse-battery-staple";

/// A broker that asks for logins, and logs everything.
fn start(dir: &Path, change: impl FnOnce(&mut Command)) -> Daemon {
    Daemon::start(dir, |command| change(command.args(["--authentication", "on", "--log", "trace"])))
}

fn builder(daemon: &Daemon) -> ClientBuilder {
    Client::builder().server(&daemon.address).request_timeout(PATIENCE)
}

fn status<T: std::fmt::Debug>(result: Result<T>) -> Option<Status> {
    result.unwrap_err().status()
}

fn rule(user: &str, resource: AccessResource, operations: AccessOperations) -> AccessRule {
    AccessRule { principal: user.into(), resource, operations }
}

fn password_file(dir: &Path) -> PathBuf {
    let file = dir.join("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

#[test]
fn beyond_loopback_it_asks_for_logins_or_for_the_word_that_none_are_meant() {
    let run = |arguments: &[&str]| {
        let output = hermitd().arg("--check").args(arguments).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9092"] {
        let (valid, said) = run(&["--listen", open]);
        let ways_out = said.contains("--authentication on") && said.contains("--insecure");
        assert!(!valid && said.contains(open) && ways_out, "{said}");
        assert!(run(&["--listen", open, "--insecure"]).0);
        let (valid, said) = run(&["--listen", open, "--authentication", "on"]);
        assert!(valid && said.contains("no TLS"), "{said}");
    }
    // A start says the same, before anything is made.
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let output = hermitd().arg("--data-dir").arg(&data).args(["--listen", "0.0.0.0:0"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("--insecure") && !data.exists(), "{said}");
    // So does the place that the address came from.
    let file = dir.path().join("h.toml");
    fs::write(&file, "threads = 2\nlisten = \"0.0.0.0:0\"\n").unwrap();
    let (_, said) = run(&["--config", file.to_str().unwrap()]);
    assert!(said.contains("h.toml:2:10: `listen`"), "{said}");
    let file = dir.path().join("old.json");
    fs::write(&file, "{\"server\": {\"host\": \"\", \"port\": 0}}").unwrap();
    let (_, said) = run(&["--config", file.to_str().unwrap()]);
    assert!(said.contains("old.json:1:") && said.contains("0.0.0.0:0"), "{said}");
}

#[test]
fn the_first_administrator_lets_others_in_and_no_secret_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = password_file(dir.path());
    let daemon = start(dir.path(), |command| {
        command.env("HERMITD_ADMIN_PASSWORD_FILE", &file);
    });
    assert_eq!(status(builder(&daemon).connect()), Some(Status::NotAuthenticated));
    for (user, password) in [("admin", "wrong"), ("nobody", PASSWORD)] {
        assert_eq!(status(builder(&daemon).password(user, password).connect()), Some(Status::NotAuthenticated));
    }

    let root = builder(&daemon).password("admin", PASSWORD).connect().unwrap();
    let admin = root.admin();
    assert_eq!(admin.who_am_i().unwrap().login, LoginKind::Password);
    admin.create_topic("orders", 1, TopicConfig::default()).unwrap();
    admin.create_user("alice", Some("alices-own-password")).unwrap();
    let token = admin.create_token("alice", "laptop").unwrap();
    let alice = builder(&daemon).token(token.expose()).connect().unwrap();
    let producer = alice.producer().build().unwrap();
    let send = || producer.send("orders", ProducerRecord::new("paid").key("7"));
    assert_eq!(status(send()), Some(Status::NotAuthorized));
    let may = || rule("alice", AccessResource::Topic(NamePattern::Exact("orders".into())), AccessOperations::PRODUCE);
    assert_eq!(admin.add_rules(vec![may()]).unwrap(), 1);
    assert_eq!(send().unwrap().offset.map(|offset| offset.0), Some(0));
    assert_eq!(admin.list_rules(Some("alice")).unwrap(), [may()]);
    assert_eq!(admin.delete_rules(vec![may()]).unwrap(), 1);
    assert_eq!(status(send()), Some(Status::NotAuthorized));
    // What she may not do at all, and what ends with her.
    assert_eq!(status(alice.admin().list_users()), Some(Status::NotAuthorized));
    admin.delete_user("alice").unwrap();
    eventually("alice is out", || status(alice.admin().list_topics()) == Some(Status::NotAuthenticated));

    let settings = format!("{:?}", admin.describe_broker().unwrap());
    let process = fs::read(format!("/proc/{}/cmdline", daemon.child.id())).unwrap();
    let process = String::from_utf8_lossy(&process).into_owned();
    let access = fs::read(dir.path().join("data/access")).unwrap();
    let kept = String::from_utf8_lossy(&access).into_owned();
    for shown in [&settings, &process, &daemon.said(), &kept] {
        for secret in [PASSWORD, "alices-own-password", token.expose()] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    assert!(settings.contains("authentication"), "{settings}");
    drop(root);
    daemon.stop();
}

#[test]
fn without_a_password_a_token_in_a_file_makes_the_first_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = start(dir.path(), |_command| {});
    let file = dir.path().join("data/first-admin-token");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(daemon.said().contains("first-admin-token") && !daemon.said().contains(&token));
    let first = builder(&daemon).token(&token).connect().unwrap();
    let admin = first.admin();
    assert_eq!(admin.who_am_i().unwrap().login, LoginKind::FirstAdministrator);
    assert_eq!(status(admin.create_topic("t", 1, TopicConfig::default())), Some(Status::NotAuthorized));
    admin.create_user("ann", Some(PASSWORD)).unwrap();
    admin.add_rules(vec![rule("ann", AccessResource::Broker, AccessOperations::ADMINISTER)]).unwrap();
    eventually("the token ends", || !file.exists());
    assert_eq!(status(builder(&daemon).token(&token).connect()), Some(Status::NotAuthenticated));
    builder(&daemon).password("ann", PASSWORD).connect().unwrap().admin().list_users().unwrap();
    assert!(!daemon.said().contains(&token));
    daemon.stop();
}

#[test]
fn a_flood_of_refused_logins_is_a_few_lines() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = start(dir.path(), |_command| {});
    let begun = Instant::now();
    for _ in 0..100 {
        assert_eq!(status(builder(&daemon).auth("GUESS", "x").connect()), Some(Status::NotAuthenticated));
    }
    // Twenty in ten seconds, wherever these begin.
    let periods = usize::try_from(begun.elapsed().as_secs() / 10).unwrap() + 2;
    let lines = daemon.said().matches("a login was refused").count();
    assert!((1..=20 * periods).contains(&lines) && lines < 100, "{lines} lines in {periods} periods");
    daemon.stop();
}

#[test]
fn a_data_directory_that_others_may_write_to_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, told) in [(0o700, false), (0o755, false), (0o770, true), (0o777, true)] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        let output = hermitd().arg("--check").arg("--data-dir").arg(dir.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success());
        assert_eq!(said.contains("chmod 700"), told, "{mode:o}: {said}");
    }
}

/// A certificate for 127.0.0.1 that is its own authority, and its key.
fn certificate(dir: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(dir.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    made.cert.pem().into_bytes()
}

#[test]
fn a_hangup_reads_certificates_again_and_keeps_the_old_where_the_new_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    let first = certificate(dir.path());
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    let password = password_file(dir.path());
    let daemon = start(dir.path(), |command| {
        command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key).args(["--tls", "required"]);
        command.env("HERMITD_ADMIN_PASSWORD_FILE", &password);
    });
    let with = |ca: &[u8]| builder(&daemon).password("admin", PASSWORD).tls(TlsConfig::new().ca_pem(ca)).connect();
    with(&first).unwrap();
    // Plain connections are told, before they are asked who they are.
    assert_eq!(status(builder(&daemon).password("admin", PASSWORD).connect()), Some(Status::TlsRequired));

    let good_key = fs::read(&key).unwrap();
    let good_cert = fs::read(&cert).unwrap();
    let second = certificate(dir.path());
    let second_key = fs::read(&key).unwrap();
    // The new certificate with the old key.
    fs::write(&key, &good_key).unwrap();
    daemon.signal(Signal::HUP);
    eventually("the bad pair is told", || daemon.said().contains("nothing was changed"));
    with(&first).unwrap();
    assert!(with(&second).is_err() && good_cert == first);

    fs::write(&key, &second_key).unwrap();
    daemon.signal(Signal::HUP);
    eventually("the new one is shown", || with(&second).is_ok());
    assert!(with(&first).is_err());
    // A key that others may read is told, and a file that is none refuses the start.
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let check = |cert: &Path| hermitd().arg("--check").arg("--tls-cert").arg(cert).arg("--tls-key").arg(&key).output().unwrap();
    let output = check(&cert);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("key.pem") && said.contains("chmod 600"), "{said}");
    let output = check(&password);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("tls_cert") && !said.contains(PASSWORD), "{said}");
    daemon.stop();
}

/// The manual says to remove the file with the password once there is a user who may administer.
#[test]
fn the_password_file_is_needed_only_until_there_is_an_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let file = password_file(dir.path());
    let start = || {
        start(dir.path(), |command| {
            command.env("HERMITD_ADMIN_PASSWORD_FILE", &file);
        })
    };
    start().stop();
    fs::remove_file(&file).unwrap();
    let daemon = start();
    assert!(daemon.said().contains("needed only where nobody may administer the broker yet"), "{}", daemon.said());
    let client = builder(&daemon).password("admin", PASSWORD).connect().unwrap();
    client.admin().create_topic("t", 1, TopicConfig::default()).unwrap();
    drop(client);
    daemon.stop();
    // Without one, a broker that nobody could administer is refused, and not begun with a token that nobody expects.
    fs::remove_dir_all(dir.path().join("data")).unwrap();
    let mut command = hermitd();
    command.arg("--data-dir").arg(dir.path().join("data")).args(["--listen", "127.0.0.1:0", "--authentication", "on"]);
    let output = command.env("HERMITD_ADMIN_PASSWORD_FILE", &file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("HERMITD_ADMIN_PASSWORD_FILE") && said.contains("No such file"), "{said}");
    assert!(!dir.path().join("data/first-admin-token").exists());
}

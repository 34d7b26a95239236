//! Settings as an operator meets them: what is wrong with them, what holds, and what SIGHUP changes.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use hermit_client::TopicConfig;
use hermit_client::blocking::Client;
use rustix::process::Signal;
use support::{Daemon, PATIENCE, hermitd, wait};

/// The lines on standard error of one that is refused.
fn refused(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    // The second where a broker was asked for, and not a check.
    assert!(matches!(output.status.code(), Some(1 | 78)), "{output:?}");
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect()
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_setting_that_is_given_by_two_of_its_names_is_a_mistake_in_either_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    let twice = |name: &str| format!("`{name}` is given a second time, under another of its names: leave one of them out");
    for text in
        ["retention_age = \"never\"\nretention_age_ms = 604800000\n", "retention_age_ms = 604800000\nretention_age = \"never\"\n"]
    {
        fs::write(&file, text).unwrap();
        let found = refused(hermitd().arg("--config").arg(&file).arg("--check"));
        assert!(found.iter().any(|line| line.contains(":2:") && line.ends_with(&twice("retention_age"))), "{found:?}");
    }
    let mut command = hermitd();
    command.env("HERMITD_RETENTION_AGE", "never").env("HERMITD_RETENTION_AGE_MS", "604800000").arg("--check");
    let found = refused(&mut command);
    assert!(found.iter().any(|line| line.ends_with(&twice("retention_age"))), "{found:?}");
}

#[test]
fn http_that_nobody_asked_for_gives_way_to_a_listen_with_its_port() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = hermitd();
    command.env_remove("HERMITD_HTTP").arg("--data-dir").arg(dir.path());
    command.args(["--check", "--listen", "127.0.0.1:15672"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("no HTTP"), "{said}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    let text = "# mine\nretention_hrs = 1\nthreads = 0\ndurability = \"snyc\"\nsegment_bytes = \"big\"\ndrain_timeout = 60\n\
        min_session_timeout = \"20s\"\ncreate_topics = \"yes\"\nmax_connections = \"7\"\ndisk_low_bytes = \"5M\"\n\
        max_inflight_bytes = \"1 MiB\"\n[http]\nlisten = \"x\"\n";
    fs::write(&file, text).unwrap();
    let mut command = hermitd();
    command.arg("--config").arg(&file).args(["--check", "--durabilty=os", "--flush-threads", "0", "--admin-password", "s3cret"]);
    command.env("HERMITD_DATADIR", "s3cret").env("HERMITD_MAX_OPEN_FILES", "many").env("HERMITD_ADMIN_PASSWORD", "");
    let place = |line_and_column: &str| format!("hermitd: {}:{line_and_column}: ", file.display());
    let expected = [
        place("2:1") + "`retention_hrs` is no setting; did you mean `retention_age`?",
        place("3:11") + "`threads` is 0: it must be at least 1 and at most 1024",
        place("4:14") + "`durability` is \"snyc\": give \"sync\" or \"os\"; did you mean \"sync\"?",
        place("5:17") + "`segment_bytes` is \"big\": give a number of bytes, or one with a unit, such as \"64 MiB\" or \"10 GB\"",
        place("6:17") + "`drain_timeout` is 60: say in which unit, such as \"60s\" or \"60ms\"",
        place("8:17") + "`create_topics` is \"yes\": give true or false, without quotes",
        place("9:19") + "`max_connections` is \"7\": give a whole number, such as 2, without quotes",
        place("10:18") + "`disk_low_bytes` is \"5M\": give the unit as MiB (1024) or MB (1000), such as \"5 MiB\"",
        place("12:2") + "`http` is {}: give a text, in quotes",
        "hermitd: HERMITD_DATADIR: there is no such setting; did you mean HERMITD_DATA_DIR?".to_owned(),
        "hermitd: HERMITD_MAX_OPEN_FILES: `max_open_files` is many: give a whole number, such as 2".to_owned(),
        "hermitd: --durabilty: there is no such flag; did you mean --durability?".to_owned(),
        "hermitd: --admin-password: there is no such flag; passwords are given by the environment alone, see `hermitd --help`, and what stands on a command line is seen by \
            others on this machine: if this was a password, choose another"
            .to_owned(),
        "hermitd: --flush-threads: `flush_threads` is 0: it must be at least 1 and at most 1024".to_owned(),
        place("7:23")
            + "`min_session_timeout` is \"20s\" which is more than `default_session_timeout` of \"10s\", the default: change one of them",
        place("11:22")
            + "`max_inflight_bytes` is \"1 MiB\": with `max_frame_bytes` of \"50 MiB\" it must be at least \"52288 KiB\"; raise it, or lower `max_frame_bytes`",
        "hermitd: HERMITD_ADMIN_PASSWORD: the password is empty: choose one".to_owned(),
        "hermitd: 17 mistakes in the settings".to_owned(),
    ];
    let found = refused(&mut command);
    for (found, expected) in found.iter().zip(&expected) {
        if !expected.contains("`http` is") {
            assert_eq!(found, expected);
        }
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    assert!(!found.concat().contains("s3cret"));
}

#[test]
fn a_password_on_the_command_line_is_refused_and_never_shown() {
    for args in
        [["--admin-password", "-s3cret"], ["--admin-pasword", "--s3cret"], ["--token=s3cret", "--check"], ["--password", "config"]]
    {
        let found = refused(hermitd().args(args)).concat();
        assert!(found.contains("choose another") && !found.contains("s3cret"), "{found}");
    }
}

#[test]
fn contradictions_and_what_cannot_be_used_are_told_where_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    fs::write(&file, "disk_high_bytes = \"1 MiB\"\ntls_cert = \"/nowhere.pem\"\ntls_client_auth = \"required\"\n").unwrap();
    let found =
        refused(hermitd().args(["--check", "--disk-low-bytes", "2 MiB", "--listen", "0.0.0.0:0"]).env("HERMITD_CONFIG", &file));
    let starts = [
        format!("hermitd: {}:2:12: `tls_key` is not set", file.display()),
        format!("hermitd: {}:3:19: `tls_client_ca` is not set", file.display()),
        format!(
            "hermitd: --disk-low-bytes: `disk_low_bytes` is \"2 MiB\" which is more than `disk_high_bytes` of \"1 MiB\" ({}:1): change one of them",
            file.display()
        ),
        "hermitd: --listen: `listen` is 0.0.0.0:0: other machines may reach it".to_owned(),
        "hermitd: 4 mistakes in the settings".to_owned(),
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(&starts) {
        assert!(found.starts_with(start), "{found}\n{start}");
    }
    let found =
        refused(hermitd().args(["--check", "--tls-cert", "/no/c.pem", "--tls-key", "/no/k.pem", "--data-dir"]).arg(file.join("x")));
    // What HTTP shares is told once.
    assert!(!found.concat().contains("TLS for HTTP"), "{found:?}");
    for said in ["--tls-cert: `tls_cert`: /no/c.pem", "--tls-key: `tls_key`: /no/k.pem", "--data-dir: `data_dir` is "] {
        assert!(found.iter().any(|line| line.contains(said)), "{said}: {found:#?}");
    }
    let found = refused(hermitd().args(["--config", "/nowhere.toml", "--check"]));
    assert!(found.concat().contains("--config: /nowhere.toml cannot be read"), "{found:?}");
    fs::write(&file, "a = \nb = ]\n").unwrap();
    let found = refused(hermitd().args(["--check", "--config"]).arg(&file));
    assert!(found.len() >= 3 && found[0].contains("h.toml:1:") && found[1].contains("h.toml:2:"), "{found:#?}");
    let found = refused(hermitd().args(["--check", "--threads"]));
    assert_eq!(found[0], "hermitd: --threads: it needs a value");
    let found = refused(hermitd().args(["--check", "--threads", "1", "--threads", "2", "nonsense"]));
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn what_is_printed_tells_where_it_comes_from_and_is_a_settings_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    fs::write(&file, "retention_age = \"72h\"\nsegment_bytes = \"1 MiB\"\n").unwrap();
    let command = |file: &Path| {
        let mut command = hermitd();
        command.args(["config", "--threads", "3", "--authentication=on", "--config"]).arg(file);
        command.env("HERMITD_SEGMENT_BYTES", "2MiB").env("HERMITD_ADMIN_PASSWORD", "s3cret-password");
        command
    };
    let toml = printed(&mut command(&file));
    let line = |name: &str| toml.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {toml}"));
    let parts = |name: &str| line(name).split('#').map(str::trim).collect::<Vec<_>>();
    let in_file = format!("{}:1", file.display());
    assert_eq!(parts("retention_age"), ["retention_age = \"3d\"", &in_file]);
    assert_eq!(parts("segment_bytes"), ["segment_bytes = \"2 MiB\"", "HERMITD_SEGMENT_BYTES"]);
    assert_eq!(parts("threads"), ["threads = 3", "--threads"]);
    assert_eq!(parts("retention_bytes"), ["retention_bytes = \"never\"", "default"]);
    assert!(line("# tls_cert").ends_with("is not set") && toml.contains("\"admin\"") && !toml.contains("s3cret"), "{toml}");

    let json: serde_json::Value = serde_json::from_str(&printed(command(&file).args(["--output", "json"]))).unwrap();
    let settings = json["settings"].as_array().unwrap();
    let of = |name: &str| settings.iter().find(|setting| setting["name"] == name).unwrap();
    assert_eq!(of("retention_age")["value"], "3d");
    assert_eq!(of("retention_age")["origin"]["line"], 1);
    assert_eq!((&of("threads")["value"], &of("threads")["origin"]["flag"]), (&3.into(), &"--threads".into()));
    assert_eq!(of("tls_cert")["value"], serde_json::Value::Null);

    let again = dir.path().join("again.toml");
    fs::write(&again, &toml).unwrap();
    let values = |toml: &str| toml.lines().map(|line| line.split('#').next().unwrap().trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(values(&printed(hermitd().arg("config").arg("--config").arg(&again))), values(&toml));
}

#[test]
fn the_reference_is_the_manuals() {
    let manual = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md")).unwrap();
    assert!(manual.contains(printed(hermitd().args(["config", "--reference"])).trim()));
}

#[test]
fn names_from_before_values_had_units_are_taken_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    fs::write(&file, "retention_age_ms = 5000\n").unwrap();
    let mut command = hermitd();
    command.args(["config", "--drain-timeout-ms", "7000", "--frame-timeout-ms=9000", "--config"]).arg(&file);
    let output = command.env("HERMITD_SCRUB_INTERVAL_S", "60").output().unwrap();
    let (toml, notes) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    for line in ["retention_age = \"5s\"", "drain_timeout = \"7s\"", "frame_timeout = \"9s\"", "scrub_interval = \"1min\""] {
        assert!(toml.contains(line), "{line}: {toml}{notes}");
    }
    assert_eq!(notes.matches("is called").count(), 4, "{notes}");
    assert!(notes.contains("h.toml:1:1: `retention_age_ms` is called `retention_age` now"), "{notes}");
}

/// A broker with these settings in the file `h.toml`.
fn start(dir: &Path, text: &str) -> Daemon {
    let file = dir.join("h.toml");
    fs::write(&file, text).unwrap();
    Daemon::start(dir, |command| {
        command.arg("--config").arg(file);
    })
}

/// Gives it other settings, and waits until it has told what came of them; gives what it said since.
fn reload(daemon: &Daemon, dir: &Path, text: &str, last: &str) -> String {
    let before = daemon.said().len();
    fs::write(dir.join("h.toml"), text).unwrap();
    daemon.signal(Signal::HUP);
    wait(last, || Some(daemon.said().split_off(before)).filter(|said| said.contains(last)))
}

const READ: &str = "the settings were read again";

#[test]
fn sighup_changes_what_can_be_changed_and_says_what_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = start(dir.path(), "retention_age = \"72h\"\n");
    let client = Client::builder().server(&daemon.address).request_timeout(PATIENCE).connect().unwrap();
    let admin = client.admin();
    admin.create_topic("follows", 1, TopicConfig::default()).unwrap();
    let own = TopicConfig { retention_age_ms: Some(5_000_000), ..TopicConfig::default() };
    admin.create_topic("has-its-own", 1, own).unwrap();
    let age = |topic: &str| admin.describe_topic(topic).unwrap().config.retention_age_ms.unwrap();
    assert_eq!((age("follows"), age("has-its-own")), (72 * 3_600_000, 5_000_000));

    let said = reload(&daemon, dir.path(), "retention_age = \"24h\"\nthreads = 3\nmax_partitions = 2\nlog = \"debug\"\n", READ);
    for line in [
        "SIGHUP: changed setting=\"retention_age\" from=\"\\\"3d\\\"\" to=\"\\\"1d\\\"\"",
        "SIGHUP: changed setting=\"max_partitions\"",
        "SIGHUP: changed setting=\"log\"",
        "SIGHUP: this needs a restart, and stays as it is until then setting=\"threads\"",
        "changed=3 waiting_for_restart=1",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!((age("follows"), age("has-its-own")), (24 * 3_600_000, 5_000_000));
    assert!(admin.create_topic("too-many", 3, TopicConfig::default()).is_err());
    admin.create_topic("two", 2, TopicConfig::default()).unwrap();

    // All or nothing: of three, one is wrong.
    let said = reload(&daemon, dir.path(), "retention_age = \"1h\"\nmax_partitions = 0\nlog = \"warn\"\n", "nothing was changed");
    assert!(said.contains("h.toml:2:18: `max_partitions` is 0"), "{said}");
    assert_eq!(age("follows"), 24 * 3_600_000);
    let said = reload(&daemon, dir.path(), "retention_age = \"24h\"\nmax_partitions = 2\nlog = \"debug\"\n", READ);
    assert!(said.contains("changed=0 waiting_for_restart=0"), "{said}");
    // To two settings that do not go together, of which one would have needed a restart.
    let said =
        reload(&daemon, dir.path(), "default_session_timeout = \"1min\"\nmax_session_timeout = \"30s\"\n", "nothing was changed");
    assert!(said.contains("`default_session_timeout` is \"1min\""), "{said}");

    // What follows the default does so after a restart, too.
    drop(client);
    daemon.stop();
    let daemon = start(dir.path(), "retention_age = \"2h\"\n");
    let client = Client::builder().server(&daemon.address).request_timeout(PATIENCE).connect().unwrap();
    let age = |topic: &str| client.admin().describe_topic(topic).unwrap().config.retention_age_ms.unwrap();
    assert_eq!((age("follows"), age("has-its-own")), (2 * 3_600_000, 5_000_000));
}

//! What the `Dockerfile` sets is a broker that lets in nobody without a login, and that can be asked how it is.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::fs;
use std::process::{Command, Output};

use support::{Broker, binaries, root};

/// The lines of the last stage, with those that go on joined.
fn instructions() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("packaging/Dockerfile")).unwrap().replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    let lines: Vec<_> = lines.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect();
    let last_stage = lines.iter().rposition(|(name, _)| name == "FROM").unwrap();
    lines[last_stage..].to_vec()
}

fn instruction(name: &str) -> String {
    let found = instructions().into_iter().rfind(|(found, _)| found == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

/// The environment, with folders and ports that are this test's own.
fn hermitd(data: &std::path::Path, port: u16) -> Command {
    let entry: Vec<String> = serde_json::from_str(&instruction("ENTRYPOINT")).unwrap();
    let mut command = Command::new(binaries().join(&entry[0]));
    command.args(&entry[1..]).env_clear().env("HERMITD_LOG", "error");
    for (name, value) in instruction("ENV").split_whitespace().map(|set| set.split_once('=').unwrap()) {
        match name {
            "HERMITD_DATA_DIR" => command.env(name, data),
            "HERMITD_LISTEN" => command.env(name, format!("{}:0", value.split_once(':').unwrap().0)),
            "HERMITD_HTTP" => command.env(name, format!("{}:{port}", value.split_once(':').unwrap().0)),
            _ => command.env(name, value),
        };
    }
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn its_environment_is_a_broker_with_logins_that_answers_for_its_health() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let check: Vec<String> = serde_json::from_str(instruction("HEALTHCHECK").split_once("CMD ").unwrap().1).unwrap();
    assert_eq!(check[0], "hermitd");
    let health = || hermitd(&data, port).args(&check[1..]).output().unwrap();
    assert!(!health().status.success(), "nobody is there yet");

    let mut command = hermitd(&data, port);
    command.env("HERMITD_ADMIN_PASSWORD", "correct horse battery staple");
    let broker = Broker::start(command, &binaries().join("hermit-cli"));
    let health = health();
    assert!(health.status.success(), "{}", said(&health));
    let server = format!("127.0.0.1:{}", broker.address.rsplit_once(':').unwrap().1);
    let list = || {
        let mut command = Command::new(binaries().join("hermit-cli"));
        command.args(["topic", "list"]).env_clear().env("HERMIT_SERVER", &server);
        command
    };
    let nobody = list().output().unwrap();
    assert!(!nobody.status.success(), "{}", said(&nobody));
    let admin = list().env("HERMIT_USER", "admin").env("HERMIT_PASSWORD", "correct horse battery staple").output().unwrap();
    assert!(admin.status.success(), "{}", said(&admin));
    broker.stop();

    // Whoever switches logins off has to say that this is meant.
    let open = hermitd(&data, port).arg("--check").env("HERMITD_AUTHENTICATION", "off").output().unwrap();
    assert!(!open.status.success() && said(&open).contains("--insecure"), "{}", said(&open));
}

/// What the manual has made is readable by nobody but its owner: he has to be the image's user.
#[test]
fn the_manual_gives_certificate_and_password_to_the_images_user() {
    let manual = fs::read_to_string(root().join("docs/installing.md")).unwrap();
    let (before, run) = manual.split_once("docker run --detach").unwrap();
    let user = instruction("USER");
    let number = user.split(':').next().unwrap();
    let given = before.trim_end().lines().last().unwrap();
    let given = given.strip_prefix(&format!("sudo chown -R {number} ")).unwrap_or_else(|| panic!("{given}"));
    let given: Vec<_> = given.split(' ').collect();
    let run = run.split("```").next().unwrap();
    let mounted = run.split("--volume ./").skip(1).map(|rest| rest.split(':').next().unwrap());
    for file in mounted {
        assert!(given.contains(&file), "{file} is not the user's: {given:?}");
    }
    assert!(manual.contains(&format!("`fsGroup: {}`", user.split(':').nth(1).unwrap())));
}

#[test]
fn it_is_not_root_and_stops_as_the_broker_wants_to_be_stopped() {
    let user = instruction("USER");
    let numbers: Vec<u32> = user.split(':').map(|number| number.parse().unwrap()).collect();
    assert!(!numbers.contains(&0), "{user}");
    assert_eq!(instruction("STOPSIGNAL"), "SIGTERM");
    let data = instruction("VOLUME");
    assert!(instruction("ENV").contains(&format!("HERMITD_DATA_DIR={data} ")));
    assert!(instructions().iter().any(|(name, made)| name == "RUN" && made.contains("--mode=0700") && made.ends_with(&data)));
}

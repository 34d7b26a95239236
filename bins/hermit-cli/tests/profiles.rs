//! Profiles, from a file of the user's.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermit_broker::FirstAdministrator;
use hermit_broker::proto::Secret;
use serde_json::Value;
use support::{Run, TestBroker, run};

const PASSWORD: &str = "correct-horse";
const TOKEN: &str = "hmt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const NOWHERE: &str = "127.0.0.1:1";

/// A home with a file of profiles.
struct Home(tempfile::TempDir);

impl Home {
    fn with(text: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.0.path().join("hermit")).unwrap();
        fs::write(home.file(), text).unwrap();
        home.may_read(0o600);
        home
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("hermit/config.toml")
    }

    fn may_read(&self, mode: u32) {
        fs::set_permissions(self.file(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = support::command(NOWHERE, arguments);
        command.env_remove("HERMIT_SERVER").env_remove("HERMIT_CONFIG").env_remove("HERMIT_PROFILE");
        command.env("XDG_CONFIG_HOME", self.0.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        run(self.command(arguments), b"")
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{arguments:?}");
        String::from_utf8(run.stdout).unwrap()
    }
}

#[test]
fn a_profile_says_where_the_broker_is_and_gives_way_to_options_and_the_environment() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "here"], b"");
    let text = format!(
        "default = 'near'\n[profiles.near]\nserver = ['{NOWHERE}', '{}']\n[profiles.far]\nserver = '{NOWHERE}'\n",
        broker.address
    );
    let home = Home::with(&text);
    let near = |run: &Run| assert!(run.status == 0 && run.stdout.ends_with(b"here\t1\n"), "{}", run.stderr);
    let far = |run: &Run| assert!(run.status == 1 && run.stderr.contains(NOWHERE), "{}", run.stderr);
    let list = ["topic", "list"];
    near(&home.run(&list));
    far(&home.run(&["topic", "list", "--profile", "far"]));
    let mut command = home.command(&list);
    command.env("HERMIT_PROFILE", "far");
    far(&run(command, b""));
    let mut command = home.command(&["topic", "list", "--profile", "near"]);
    command.env("HERMIT_PROFILE", "far");
    near(&run(command, b""));
    // The environment counts before a profile, and an option before that.
    let mut command = home.command(&list);
    command.env("HERMIT_SERVER", NOWHERE);
    far(&run(command, b""));
    let mut command = home.command(&["topic", "list", "--server", &broker.address.to_string()]);
    command.env("HERMIT_SERVER", NOWHERE);
    near(&run(command, b""));
    // But not before a profile that an option names.
    let mut command = home.command(&["topic", "list", "--profile", "near"]);
    command.env("HERMIT_SERVER", "127.0.0.1:2");
    near(&run(command, b""));
    // Variables without a value say nothing.
    let mut command = home.command(&list);
    for name in ["HERMIT_PROFILE", "HERMIT_SERVER", "HERMIT_TLS", "HERMIT_TLS_CA", "HERMIT_USER"] {
        command.env(name, "");
    }
    near(&run(command, b""));
    // Another file, by its name.
    let mut command = home.command(&list);
    command.env("HERMIT_CONFIG", home.0.path().join("none.toml"));
    let missing = run(command, b"");
    assert!(missing.status == 1 && missing.stderr.contains("HERMIT_CONFIG: "), "{}", missing.stderr);
}

#[test]
fn the_login_of_a_profile_is_used_and_never_told() {
    let dir = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(dir.path(), |config| {
        config.access.enabled = true;
        let (user, password) = ("admin".parse().unwrap(), Secret::new(PASSWORD));
        config.access.first_administrator = FirstAdministrator::Password { user, password };
    });
    let text = format!(
        "[profiles.here]\nserver = '{0}'\nuser = 'admin'\npassword = '{PASSWORD}'\n[profiles.filed]\nserver = '{0}'\nuser = 'admin'\npassword_file = 'secret'\n",
        broker.address
    );
    let home = Home::with(&text);
    let secret = home.0.path().join("hermit/secret");
    fs::write(&secret, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for profile in ["here", "filed"] {
        assert_eq!(home.ok(&["user", "whoami", "--profile", profile]), "admin, by a password\n");
    }
    // Without one there is no login.
    let refused = home.run(&["user", "whoami", "--server", &broker.address.to_string()]);
    assert!(refused.status == 1 && refused.stderr.contains("--user"), "{}", refused.stderr);
    home.ok(&["profile", "use", "here"]);
    assert_eq!(home.ok(&["user", "whoami"]), "admin, by a password\n");
    assert_eq!(fs::metadata(home.file()).unwrap().permissions().mode() & 0o777, 0o600);
    // The default's password goes to no other server.
    let refused = home.run(&["user", "whoami", "--server", &broker.address.to_string()]);
    assert_eq!(refused.status, 1);
    for told in [
        home.ok(&["profile", "list"]),
        home.ok(&["profile", "show"]),
        home.ok(&["profile", "list", "--output", "json"]),
        home.ok(&["profile", "show", "filed", "--output", "json"]),
    ] {
        assert!(told.contains("admin") && !told.contains(PASSWORD), "{told}");
    }
    let shown: Value = serde_json::from_str(&home.ok(&["profile", "show", "filed", "--output", "json"])).unwrap();
    assert_eq!(shown["password_file"], secret.to_str().unwrap());
    assert!(home.ok(&["profile", "list"]).lines().any(|line| line.starts_with("*  here")));
    // As ssh does with a key.
    home.may_read(0o644);
    let open = home.run(&["user", "whoami"]);
    assert!(open.status == 1 && open.stderr.contains("chmod 600") && !open.stderr.contains(PASSWORD), "{}", open.stderr);
}

/// Nobody that a profile does not name hears its login, but where options name both.
#[test]
fn no_variable_sends_a_login_to_another_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap().to_string();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    // It ends with the process of this test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut buffer = [0; 1024];
            // A greeting and a login come in one go; an answer that is none ends the attempt.
            let read = stream.read(&mut buffer).unwrap_or(0);
            hears.lock().unwrap().extend_from_slice(&buffer[..read]);
            drop(stream.write_all(b"HTTP/1.0 400\r\n\r\n"));
            hears.lock().unwrap().push(b'|');
        }
    });
    let text = format!("[profiles.prod]\nserver = '{NOWHERE}'\ntoken = '{TOKEN}'\n");
    let home = Home::with(&text);
    let mut told = 0;
    let mut attempt = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = home.command(&[&["user", "whoami"], arguments].concat());
        command.envs(variables.iter().copied()).env_remove("HERMIT_USER").env_remove("HERMIT_TOKEN");
        let failed = run(command, b"");
        assert_eq!(failed.status, 1, "{}", failed.stderr);
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        told += usize::from(!heard.is_empty());
        heard.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes())
    };
    let by_variable = [("HERMIT_PROFILE", "prod")];
    assert!(!attempt(&["--server", &other], &by_variable), "the profile is the environment's");
    assert!(!attempt(&[], &[("HERMIT_PROFILE", "prod"), ("HERMIT_SERVER", &other)]), "both are the environment's");
    assert!(!attempt(&["--profile", "prod"], &[("HERMIT_SERVER", &other)]), "the profile has a server");
    assert!(attempt(&["--profile", "prod", "--server", &other], &[]), "both are said here");
    assert_eq!(told, 3, "the one with an option for the profile goes to its own server");
}

#[test]
fn what_is_wrong_with_the_file_is_told_with_its_place() {
    let home = Home::with("[profiles.prod]\nserver = 'a:1'\npasword = 'correct-horse'\n");
    let wrong = home.run(&["topic", "list"]);
    assert_eq!(wrong.status, 1);
    assert!(
        wrong.stderr.contains("config.toml:3:1: `pasword` is no setting of a profile; did you mean `password`?"),
        "{}",
        wrong.stderr
    );
    assert!(!wrong.stderr.contains(PASSWORD));
    // What needs no broker does not look at it.
    home.ok(&["completions", "bash"]);
    let home = Home::with("[profiles.prod]\nserver = 'a:1'\n");
    let wrong = home.run(&["topic", "list", "--profile", "prdo"]);
    assert!(wrong.stderr.contains("there is no profile `prdo`; did you mean `prod`?"), "{}", wrong.stderr);
    let wrong = home.run(&["profile", "use", "x"]);
    assert!(wrong.status == 1 && wrong.stderr.contains("profile list"), "{}", wrong.stderr);
}

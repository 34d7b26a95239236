//! Packages made from the programs that are built beside the tests, and brokers that run out of them.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "tells of a test that is left out")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a very busy machine may take for a step that takes milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// A time for packages, so that no test asks git.
const SOURCES: &str = "1700000000";

/// The root of the tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Where `hermitd` and `hermit-cli` are.
pub fn binaries() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().unwrap();
    if !["hermitd", "hermit-cli"].iter().all(|name| folder.join(name).exists()) {
        // The whole workspace's tests have built them; `cargo test -p xtask` has not.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--locked", "--package", "hermitd", "--package", "hermit-cli", "--target-dir"]);
        build.arg(folder.parent().unwrap()).args(folder.ends_with("release").then_some("--release"));
        assert!(build.current_dir(root()).status().unwrap().success(), "hermitd and hermit-cli cannot be built");
    }
    folder.to_owned()
}

/// Makes packages into a folder.
pub fn dist(out: &Path, args: &[&str]) {
    let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
    dist.args(["dist", "--fast", "--binaries"]).arg(binaries()).arg("--out").arg(out).args(args);
    good(dist.env("SOURCE_DATE_EPOCH", SOURCES));
}

/// Runs to the end, which has to be a good one; gives what was printed.
pub fn good(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    told(command, &output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn told(command: &Command, output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}:\n{out}{err}", output.status);
}

/// Whether a program is there. Where it is not, CI fails, and others are told that the test was left out.
pub fn is_there(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "`{program}` cannot be started: install {package}");
        eprintln!("skipped: `{program}` cannot be started here; install {package} to run this test");
    }
    found
}

/// A broker that runs.
pub struct Broker {
    child: Child,
    cli: PathBuf,
    /// `address:port` of clients, and that of HTTP.
    pub address: String,
    pub http: String,
}

impl Broker {
    /// Starts it, with a command that begins with the program or with what runs it, and waits until it serves.
    pub fn start(mut command: Command, cli: &Path) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let word = |name: &str| {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.unwrap_or_else(|| panic!("{command:?} said {line:?}")).to_owned()
        };
        Self { address: word("hermit="), http: word("http="), child, cli: cli.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What the command line prints.
    pub fn cli(&self, args: &[&str]) -> String {
        good(Command::new(&self.cli).args(args).env("HERMIT_SERVER", &self.address))
    }

    /// The same, with an input.
    pub fn cli_with(&self, args: &[&str], input: &[u8]) -> String {
        let mut command = Command::new(&self.cli);
        command.args(args).env("HERMIT_SERVER", &self.address);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writing = std::thread::spawn(move || stdin.write_all(&input).unwrap());
        let output = child.wait_with_output().unwrap();
        told(&command, &output);
        writing.join().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn signal(&self, name: &str, process: u32) {
        good(Command::new("kill").args(["-s", name, &process.to_string()]));
    }

    /// Stops it, which has to be a clean stop.
    pub fn stop(self) {
        let process = self.child.id();
        self.stop_as(process);
    }

    /// The same, where another process is the broker.
    pub fn stop_as(mut self, process: u32) {
        self.signal("TERM", process);
        let mut status = None;
        eventually("the broker ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It has ended, unless the test has failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits for a condition.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a deadline for a test")]
    let now = Instant::now;
    let deadline = now() + PATIENCE;
    while !condition() {
        assert!(now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The `Key=value` lines of a systemd unit, those of one key together.
pub fn unit() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("packaging/systemd/hermitmq.service")).unwrap();
    let mut unit = BTreeMap::<String, Vec<String>>::new();
    for (key, value) in text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')) {
        unit.entry(key.to_owned()).or_default().push(value.to_owned());
    }
    unit
}

//! What the scripts of the Debian package do where systemd runs: with a systemd, a `runuser` and folders that are the test's own.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use support::{Broker, binaries, root};

/// Notes what it is asked for. The broker runs, and is enabled.
const SYSTEMCTL: &str = "echo \"$*\" >>\"$MACHINE/asked\"";
/// Everything belongs to whoever runs the test.
const RUNUSER: &str = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";

/// A machine, as far as the scripts look at it.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["bin", "run/systemd/system", "etc/hermitmq", "etc/default", "usr/sbin", "var/lib/hermitmq"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
        }
        let nothing = ["systemd-sysusers", "adduser", "deb-systemd-helper"].map(|name| (name, ":"));
        for (name, script) in [("systemctl", SYSTEMCTL), ("runuser", RUNUSER)].into_iter().chain(nothing) {
            machine.program(&format!("bin/{name}"), script);
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn program(&self, path: &str, script: &str) {
        fs::write(self.path(path), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// An upgrade: what systemd is asked for, without questions, and what the administrator is told.
    fn upgrade(&self, settings: &str, variables: &str) -> (Vec<String>, String) {
        fs::write(self.path("etc/hermitmq/hermitd.toml"), settings).unwrap();
        fs::write(self.path("etc/default/hermitmq"), variables).unwrap();
        fs::write(self.path("asked"), "").unwrap();
        let mut script = fs::read_to_string(root().join("packaging/deb/postinst")).unwrap();
        for path in ["/run/systemd/system", "/etc/hermitmq/", "/etc/default/", "/usr/sbin/", "/var/lib/hermitmq"] {
            assert!(script.contains(path), "{path}");
            script = script.replace(path, &format!("{}{path}", self.folder.path().display()));
        }
        script = script.replace("/usr/bin/hermitd", binaries().join("hermitd").to_str().unwrap());
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script, "postinst", "configure", "1.0.0"])
            .env_clear()
            .env("PATH", path)
            .env("MACHINE", self.folder.path());
        let output = shell.output().unwrap();
        support::told(&shell, &output);
        let asked = fs::read_to_string(self.path("asked")).unwrap();
        let asked = asked.lines().filter(|line| !line.contains(" is-") && !line.contains("daemon-reload"));
        (asked.map(str::to_owned).collect(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn an_upgrade_restarts_a_broker_that_would_start_and_leaves_another_at_work() {
    let machine = Machine::new();
    let data = machine.path("var/lib/hermitmq");
    let mut command = Command::new(binaries().join("hermitd"));
    command.args(["--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--log=error", "--data-dir"]).arg(&data).env_clear();
    let broker = Broker::start(command, &binaries().join("hermit-cli"));

    // The old broker has the directory, and everything stays as it is.
    let good = format!("data_dir = {data:?}\nlisten = \"127.0.0.1:0\"\nhttp = \"off\"\n");
    let variables = "# ours\nHERMITD_RETENTION_AGE=\"3d\"\nHERMITD_TLS_NAMES_OF_NOBODY\nOTHER=$(false) `false`\n";
    let (asked, said) = machine.upgrade(&good, variables);
    assert_eq!(asked, ["--no-block restart hermitmq.service"], "{said}");
    assert!(said.contains("being restarted"), "{said}");

    let bad = format!("{good}max_connections = \"many\"\n");
    for (settings, variables, at_fault) in
        [(&bad, "", "max_connections"), (&good, "HERMITD_RETENTION_AGE='for ever'", "HERMITD_RETENTION_AGE")]
    {
        let (asked, said) = machine.upgrade(settings, variables);
        assert!(asked.is_empty(), "{asked:?}");
        assert!(said.contains(at_fault) && said.contains("NOT restarted"), "{said}");
    }

    // As while an image is made.
    machine.program("usr/sbin/policy-rc.d", "exit 101");
    assert!(machine.upgrade(&good, "").0.is_empty());
    broker.stop();
}

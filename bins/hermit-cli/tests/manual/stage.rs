//! Where a page plays: a directory of its own, addresses of its own, and the machine's commands that a page may name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::copy::copy;
use crate::pages::{Page, root};

/// The ports that pages name, in the order in which a stage has its own.
const PORTS: [u16; 4] = [9092, 15672, 9093, 15673];
/// Below what the kernel gives out by itself, and none that is known for anything.
const FIRST_PORT: usize = 21_700;
/// What pages call the directories of an installation; on a stage they lie in its own.
const MACHINE_DIRS: [&str; 5] = ["/etc/hermit", "/var/lib", "/var/backups", "/mnt/", "/srv/"];

/// Pages whose commands are for a broker that runs already.
const WITH_A_BROKER: [&str; 3] = ["docs/http.md", "docs/monitoring/README.md", "bins/hermit-cli/README.md"];

/// The page that is written for an installation, which has records already.
const OPERATIONS: &str = "docs/operations.md";

/// Numbers that a page gives for a reader's machine, and smaller ones for a test.
const SHORTER: [(&str, &str); 2] = [("--records 1000000", "--records 5000"), ("--duration 30s", "--duration 1s")];

/// Helpers by which a page's commands are watched: what is started in the background is used once it serves, as a reader would.
const PRELUDE: &str = "await_ready() {
  until grep -q '^ready ' \"$1\" || ! kill -0 \"$2\" 2>/dev/null || [ \"$(cut -d' ' -f3 /proc/$2/stat)\" = Z ]; do sleep 0.02; done
}
";

/// `hermitd` under a service manager, as far as pages use one. The unit itself is tested with the package.
const SYSTEMCTL: &str = r#"
pid=$STAGE/service.pid
log=$STAGE/service.log
gone() { ! kill -0 "$1" 2>/dev/null || [ "$(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null)" = Z ]; }
case "$1 $2" in
"stop hermitmq"|"restart hermitmq")
  if [ -e "$pid" ]; then
    kill "$(cat "$pid")" 2>/dev/null
    until gone "$(cat "$pid")"; do sleep 0.02; done
    rm "$pid"
  fi ;;
esac
case "$1 $2" in
"start hermitmq"|"restart hermitmq")
  : >"$log"
  hermitd --config "$STAGE/system/etc/hermitmq/hermitd.toml" >>"$log" 2>&1 &
  echo $! >"$pid"
  until grep -q '^ready ' "$log"; do
    gone "$(cat "$pid")" && { echo "Job for hermitmq.service failed" >&2; exit 1; }
    sleep 0.02
  done ;;
"reload hermitmq") kill -HUP "$(cat "$pid")" ;;
"stop hermitmq") ;;
*) echo "systemctl $*: no page should need that" >&2; exit 1 ;;
esac
"#;

/// The programs are built already; what else cargo is asked for must be a task that there is.
const CARGO: &str = r#"
case "$*" in
"build --release") ;;
"run --release -p hermitd")
  # A reader sees that it serves, and stops it.
  hermitd >"$STAGE/run.log" 2>&1 &
  until grep -q '^ready ' "$STAGE/run.log"; do kill -0 $! || exit 1; sleep 0.02; done
  kill $!; wait $! ;;
"xtask "*) grep -qiE "^    ($(echo "$2" | tr -d -))[ ,({]" "$REPOSITORY"/xtask/src/*.rs ;;
*) echo "cargo $*: not known to the test of the manual" >&2; exit 1 ;;
esac
"#;

/// The user is nobody special here, and everything is his.
const SUDO: &str = r#"
while [ "${1#-}" != "$1" ]; do [ "$1" = -u ] && shift; shift; done
exec "$@"
"#;

/// What is in a package are the programs that are tested.
const DPKG: &str = r#"
[ "$1" = -x ] && [ -e "$2" ] || { echo "dpkg $*: no page should need that" >&2; exit 1; }
mkdir -p "$3/usr/bin"
ln -s "$(command -v hermitd)" "$(command -v hermit-cli)" "$3/usr/bin"
"#;

/// The package restarts the broker.
const APT: &str = r#"
[ "$1" = install ] && [ -e "$2" ] || { echo "apt $*: no page should need that" >&2; exit 1; }
systemctl restart hermitmq
"#;

const JOURNALCTL: &str = "cat \"$STAGE/service.log\"\n";

pub struct Stage {
    dir: tempfile::TempDir,
    address: String,
    first_port: usize,
}

impl Stage {
    pub fn set(number: usize, page: &Page) -> Self {
        // An address for each page of each run of this test: what else runs on this machine does not meet it.
        let mixed = (u64::from(std::process::id()) * 32 + number as u64) % (250 * 250 * 250);
        let address = format!("127.{}.{}.{}", 1 + mixed / 62_500, 1 + mixed / 250 % 250, 1 + mixed % 250);
        let stage = Self { dir: tempfile::tempdir().unwrap(), address, first_port: FIRST_PORT + number * PORTS.len() };
        for dir in [
            "work",
            "home",
            "bin",
            "system/etc/hermit",
            "system/etc/hermitmq",
            "system/var/lib",
            "system/var/backups",
            "system/mnt",
            "system/srv",
        ] {
            fs::create_dir_all(stage.path(dir)).unwrap();
        }
        for (name, text) in [
            ("systemctl", SYSTEMCTL),
            ("journalctl", JOURNALCTL),
            ("cargo", CARGO),
            ("sudo", SUDO),
            ("chown", ":\n"),
            ("dpkg", DPKG),
            ("apt", APT),
        ] {
            let path = stage.path(&format!("bin/{name}"));
            fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        set_up(page, &stage);
        stage
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// What comes before the first command: pages that speak of a broker which runs find one.
    pub fn prelude(&self, page: &Page) -> String {
        let log = self.path("first.log");
        let first = format!("hermitd --data-dir \"$STAGE/first\" >{log} 2>&1 &\nawait_ready {log} $!\n");
        let service = "systemctl start hermitmq && hermit-cli topic create orders --partitions 2 >/dev/null && seq 1 400 | sed 's/^/a melon /' | hermit-cli produce orders\n";
        if page.path == OPERATIONS {
            return format!("trap 'kill $(jobs -p) 2>/dev/null' EXIT\n{PRELUDE}{service}");
        }
        let first = if WITH_A_BROKER.contains(&page.path.as_str()) { &first } else { "" };
        format!("trap 'kill $(jobs -p) 2>/dev/null' EXIT\n{PRELUDE}{first}")
    }

    /// With the names that a page has for places replaced by those of the stage.
    pub fn here(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (nth, port) in PORTS.iter().enumerate() {
            for host in ["127.0.0.1", "localhost", "0.0.0.0"] {
                text = text.replace(&format!("{host}:{port}"), &format!("{}:{}", self.address, self.first_port + nth));
            }
        }
        text = text.replace("IP:127.0.0.1", &format!("IP:{}", self.address));
        for (long, short) in SHORTER {
            text = text.replace(long, short);
        }
        for dir in MACHINE_DIRS {
            text = text.replace(dir, &format!("{}{dir}", self.path("system")));
        }
        text
    }

    /// The other way round, for what was printed.
    pub fn as_shown(&self, text: &str) -> String {
        let mut text = text.replace(&self.path("system"), "").replace(&self.path("work"), "/work");
        for (nth, port) in PORTS.iter().enumerate() {
            text = text.replace(&format!("{}:{}", self.address, self.first_port + nth), &format!("127.0.0.1:{port}"));
        }
        text.replace(&self.address, "127.0.0.1")
    }

    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let path = format!("{}:{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", self.path("bin"), programs().display());
        vec![
            ("PATH", path),
            ("HOME", self.path("home")),
            ("STAGE", self.path("")),
            ("REPOSITORY", root().to_str().unwrap().to_owned()),
            ("TZ", "UTC".to_owned()),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("no_proxy", "*".to_owned()),
            ("HERMITD_LISTEN", format!("{}:{}", self.address, self.first_port)),
            ("HERMITD_HTTP", format!("{}:{}", self.address, self.first_port + 1)),
            ("HERMIT_SERVER", format!("{}:{}", self.address, self.first_port)),
            // Where this is built the disk may be nearly full.
            ("HERMITD_DISK_LOW_BYTES", "0".to_owned()),
            ("HERMITD_DISK_HIGH_BYTES", "0".to_owned()),
        ]
    }
}

/// What a page takes for granted.
fn set_up(page: &Page, stage: &Stage) {
    match page.path.as_str() {
        // The tour is shown in a clone of the repository.
        "README.md" => link(&root().join("bins"), &stage.path("work/bins")),
        "bins/hermit-cli/README.md" => fs::write(stage.path("work/orders.csv"), "alice,3 apples\nbob,1 pear\n").unwrap(),
        OPERATIONS => {
            let settings = stage.here("data_dir = \"/var/lib/hermitmq\"\nhttp = \"127.0.0.1:15672\"\n");
            fs::write(stage.path("system/etc/hermitmq/hermitd.toml"), settings).unwrap();
        }
        // An installation of the older program, recorded from it.
        "docs/migrating.md" => {
            copy(
                &root().join("crates/hermit-broker/tests/data/vectors/data_after_clean_stop"),
                Path::new(&stage.path("system/var/lib/hermitmq")),
            );
            let settings = r#"{"storage": {"data_dir": "/var/lib/hermitmq", "max_segment_mb": 64, "retention_hours": 168}}"#;
            fs::write(stage.path("system/etc/hermitmq/hermitmq.json"), stage.here(settings)).unwrap();
        }
        _ => {}
    }
}

fn link(to: &Path, name: &str) {
    std::os::unix::fs::symlink(to, name).unwrap();
}

/// The directory with `hermitd` and `hermit-cli`.
pub fn programs() -> PathBuf {
    let bin = Path::new(env!("CARGO_BIN_EXE_hermit-cli")).parent().unwrap().to_owned();
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        if bin.join("hermitd").exists() {
            return;
        }
        // The whole workspace's tests have built it; `cargo test -p hermit-cli` has not.
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--locked", "--package", "hermitd", "--target-dir"]).arg(bin.parent().unwrap());
        build.args(bin.ends_with("release").then_some("--release"));
        assert!(build.current_dir(root()).status().unwrap().success(), "hermitd cannot be built");
    });
    bin
}

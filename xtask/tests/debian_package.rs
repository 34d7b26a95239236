//! The `.deb` as an administrator has it: installed, run, upgraded, removed and purged, in a root of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{Broker, dist, good, is_there, told};

const DATA: &str = "var/lib/hermitmq";
const CONFIG: &str = "etc/hermitmq/hermitd.toml";

/// A root in which a Debian that has what the package needs pretends to be installed.
struct Scratch {
    folder: tempfile::TempDir,
    is_root: bool,
}

impl Scratch {
    /// `None`, with a word about it, where this machine cannot do that.
    fn new() -> Option<Self> {
        if !is_there("dpkg", "dpkg") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
        // Whoever is not root pretends to be.
        if !is_root && !is_there("fakeroot", "fakeroot") {
            return None;
        }
        for path in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        for file in ["etc/passwd", "etc/group"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        // As they are on this machine, with their versions: the programs were linked here.
        let needed = ["libc6", "libgcc-s1", "adduser", "init-system-helpers"];
        let status = good(Command::new("dpkg-query").arg("--status").args(needed));
        fs::write(folder.path().join("var/lib/dpkg/status"), status).unwrap();
        Some(Self { folder, is_root })
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn dpkg(&self, args: &[&str], purge_data: bool) -> Output {
        let mut command = if self.is_root { Command::new("dpkg") } else { Command::new("fakeroot") };
        if !self.is_root {
            command.args(["dpkg", "--force-not-root"]);
        }
        // Scripts run here, without a chroot, and are told the root: there is no shell in it. What they need may stand in folders of root's.
        let path = format!("{}:/usr/local/sbin:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        // What is missing of what those packages need themselves is no matter: only ours is configured.
        command.arg(format!("--root={}", self.folder.path().display())).args([
            "--force-script-chrootless",
            // Nobody cuts the power here.
            "--force-unsafe-io",
            "--log=/dev/null",
        ]);
        command.args(args).env("PATH", path).env("LC_ALL", "C").env_remove("HERMITMQ_PURGE_DATA");
        if purge_data {
            command.env("HERMITMQ_PURGE_DATA", "yes");
        }
        let output = command.output().unwrap();
        told(&command, &output);
        output
    }

    fn install(&self, package: &Path) {
        self.dpkg(&["--install", package.to_str().unwrap()], false);
    }

    /// What the package said of it: the package manager has words of its own about what else is in this root, and what is not.
    fn purge(&self, purge_data: bool) -> String {
        let said = String::from_utf8(self.dpkg(&["--purge", "hermitmq"], purge_data).stderr).unwrap();
        said.lines().filter(|line| !line.starts_with("dpkg: warning: ")).collect()
    }

    /// What an administrator sees of the package: `install ok installed 1.2.3`.
    fn status(&self) -> String {
        let admin = format!("--admindir={}", self.path("var/lib/dpkg").display());
        good(Command::new("dpkg-query").args([&admin, "--show", "--showformat=${Status} ${Version}", "hermitmq"]))
    }

    /// The settings that the installed file comes to, with where each is from.
    fn settings(&self) -> serde_json::Value {
        let config = self.path(CONFIG);
        let output = good(self.program("hermitd").args(["config", "--output", "json", "--config"]).arg(config));
        serde_json::from_str(&output).unwrap()
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.path(&format!("usr/bin/{name}")));
        command.env_clear();
        command
    }

    /// The installed broker with its installed settings, but for the data directory's root and the ports, which others may have.
    fn start(&self) -> Broker {
        let mut command = self.program("hermitd");
        command.arg("--config").arg(self.path(CONFIG)).env("HERMITD_DATA_DIR", self.path(DATA)).env("HERMITD_LOG", "error");
        for (variable, name) in [("HERMITD_LISTEN", "listen"), ("HERMITD_HTTP", "http")] {
            let address = value(&self.settings(), name);
            command.env(variable, format!("{}:0", address.rsplit_once(':').unwrap().0));
        }
        Broker::start(command, &self.path("usr/bin/hermit-cli"))
    }

    /// All that is not a folder, by its path, without the package manager's own and the lists of users; the data directory stands for all in it.
    fn files(&self) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.folder.path()).unwrap().display().to_string();
                if path.is_dir() && !path.is_symlink() && name != DATA {
                    folders.push(path);
                } else {
                    files.insert(name);
                }
            }
        }
        // The user stays.
        let users = ["etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/.pwd"];
        files.retain(|file| !file.starts_with("var/lib/dpkg/") && !users.iter().any(|list| file.starts_with(list)));
        files
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().permissions().mode() & 0o7777
    }
}

/// The value of a setting, from the list of `hermitd config --output json`.
fn value(settings: &serde_json::Value, name: &str) -> String {
    let all = settings["settings"].as_array().unwrap();
    let setting = all.iter().find(|setting| setting["name"] == name).unwrap_or_else(|| panic!("{name}: {settings}"));
    assert!(setting.to_string().contains("hermitd.toml"), "{name} does not come from the installed file: {setting}");
    setting["value"].as_str().unwrap().trim_matches('"').to_owned()
}

/// The addresses at which a process listens, in the kernel's words.
fn listens_at(process: u32) -> Vec<String> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: BTreeSet<_> = descriptors.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok()).collect();
    let mut addresses = Vec::new();
    for table in ["tcp", "tcp6"] {
        let Ok(table) = fs::read_to_string(format!("/proc/{process}/net/{table}")) else { continue };
        for line in table.lines().skip(1) {
            let columns: Vec<_> = line.split_whitespace().collect();
            // State 0A is listening.
            if columns[3] == "0A" && sockets.contains(Path::new(&format!("socket:[{}]", columns[9]))) {
                addresses.push(columns[1].split(':').next().unwrap().to_owned());
            }
        }
    }
    addresses
}

#[test]
fn it_installs_serves_this_machine_alone_upgrades_and_leaves_messages_to_their_owner() {
    let Some(scratch) = Scratch::new() else { return };
    let packages = tempfile::tempdir().unwrap();
    dist(packages.path(), &["--only", "deb", "--version", "1.0.0-rc.1"]);
    dist(packages.path(), &["--only", "deb", "--version", "1.0.0"]);
    let package = |version: &str| {
        let mut files = fs::read_dir(packages.path()).unwrap().map(|file| file.unwrap().path());
        files.find(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&format!("hermitmq_{version}_"))).unwrap()
    };
    assert_eq!(scratch.files(), BTreeSet::new());

    scratch.install(&package("1.0.0~rc.1"));
    assert_eq!(scratch.status(), "install ok installed 1.0.0~rc.1");
    assert_eq!(
        good(Command::new("dpkg").arg(format!("--root={}", scratch.folder.path().display())).args(["--verify", "hermitmq"])),
        ""
    );
    looks_as_it_should(&scratch);

    let broker = scratch.start();
    let listens = listens_at(broker.id());
    assert!(listens.len() == 2 && listens.iter().all(|address| address == "0100007F"), "{listens:?}");
    broker.cli(&["topic", "create", "orders"]);
    broker.cli_with(&["produce", "orders"], b"paid\n");
    assert_eq!(broker.cli(&["consume", "orders", "--until", "end", "--format", "%s\n"]), "paid\n");
    broker.stop();

    // The administrator's own settings and the messages outlive an upgrade.
    let config = fs::read_to_string(scratch.path(CONFIG)).unwrap() + "retention_age = \"3d\"\n";
    fs::write(scratch.path(CONFIG), &config).unwrap();
    scratch.install(&package("1.0.0"));
    assert_eq!(scratch.status(), "install ok installed 1.0.0");
    assert_eq!(fs::read_to_string(scratch.path(CONFIG)).unwrap(), config);
    let broker = scratch.start();
    broker.cli_with(&["produce", "orders"], b"sent\n");
    assert_eq!(broker.cli(&["consume", "orders", "--until", "end", "--format", "%s\n"]), "paid\nsent\n");
    assert_eq!(value(&scratch.settings(), "retention_age"), "3d");
    broker.stop();

    scratch.dpkg(&["--remove", "hermitmq"], false);
    assert!(
        !scratch.path("usr/bin/hermitd").exists() && scratch.path(CONFIG).exists() && scratch.path(DATA).join("manifest").exists()
    );
    let said = scratch.purge(false);
    assert!(said.contains("/var/lib/hermitmq is left as it is"), "{said}");
    assert!(scratch.path(DATA).join("manifest").exists());
    assert_eq!(scratch.files(), BTreeSet::from([DATA.to_owned()]));

    // Installed again it has the old messages; then they go, as that is asked for.
    scratch.install(&package("1.0.0"));
    let broker = scratch.start();
    assert_eq!(broker.cli(&["consume", "orders", "--until", "end", "--format", "%s\n"]), "paid\nsent\n");
    broker.stop();
    // What the manual has an administrator put there goes as well; what he has besides stays.
    fs::create_dir_all(scratch.path("etc/default")).unwrap();
    for file in ["etc/default/hermitmq", "etc/hermitmq/admin.password", "etc/hermitmq/key.pem"] {
        fs::write(scratch.path(file), "").unwrap();
    }
    let said = scratch.purge(true);
    assert!(said.contains("/etc/hermitmq is left"), "{said}");
    assert_eq!(scratch.files(), BTreeSet::from(["etc/hermitmq/key.pem".to_owned()]));
    fs::remove_file(scratch.path("etc/hermitmq/key.pem")).unwrap();

    // Where nothing was ever written, nothing is left to tell of.
    scratch.install(&package("1.0.0"));
    assert_eq!(scratch.purge(false), "");
    assert_eq!(scratch.files(), BTreeSet::new());
}

fn looks_as_it_should(scratch: &Scratch) {
    let passwd = fs::read_to_string(scratch.path("etc/passwd")).unwrap();
    let user: Vec<_> = passwd.lines().find(|line| line.starts_with("hermitmq:")).unwrap().split(':').collect();
    assert_eq!((user[5], user[6]), ("/var/lib/hermitmq", "/usr/sbin/nologin"));
    assert_eq!(scratch.mode(DATA), 0o750);
    if scratch.is_root {
        let data = fs::metadata(scratch.path(DATA)).unwrap();
        assert_eq!((data.uid().to_string(), data.gid().to_string()), (user[2].to_owned(), user[3].to_owned()));
    }
    for (path, mode) in [("usr/bin/hermitd", 0o755), ("usr/bin/hermit-cli", 0o755), (CONFIG, 0o644)] {
        assert_eq!(scratch.mode(path), mode, "{path}");
    }
    for path in
        ["usr/lib/systemd/system/hermitmq.service", "usr/share/doc/hermitmq/copyright", "usr/share/doc/hermitmq/changelog.gz"]
    {
        assert!(scratch.path(path).is_file(), "{path}");
    }
    let conffiles = fs::read_to_string(scratch.path("var/lib/dpkg/info/hermitmq.conffiles")).unwrap();
    assert_eq!(conffiles, format!("/{CONFIG}\n"));
    if is_there("deb-systemd-helper", "init-system-helpers") {
        assert!(scratch.path("etc/systemd/system/multi-user.target.wants/hermitmq.service").is_symlink());
    }
}

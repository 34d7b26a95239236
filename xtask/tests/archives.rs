//! What `cargo xtask dist` hands out to everybody: the same bytes each time, with sums that hold.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::{dist, good};

#[test]
fn packages_come_out_the_same_and_their_sums_hold() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    dist(one.path(), &[]);
    dist(other.path(), &[]);
    let sums = fs::read_to_string(one.path().join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 2, "{sums}");
    assert_eq!(sums, fs::read_to_string(other.path().join("SHA256SUMS")).unwrap());
    good(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(one.path()));

    let tarball =
        sums.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name).find(|name| name.ends_with("-linux.tar.gz"));
    let tarball = tarball.unwrap();
    good(Command::new("tar").args(["--extract", "--file"]).arg(one.path().join(tarball)).current_dir(other.path()));
    is_complete(&other.path().join(tarball.trim_end_matches(".tar.gz")));
}

fn is_complete(folder: &Path) {
    let version = good(Command::new(folder.join("bin/hermitd")).arg("--version"));
    assert_eq!(version.trim(), format!("hermitd {}", env!("CARGO_PKG_VERSION")));
    let cli = good(Command::new(folder.join("bin/hermit-cli")).arg("--version"));
    assert_eq!(cli.trim(), format!("hermit-cli {}", env!("CARGO_PKG_VERSION")));
    for file in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "LICENSES-THIRD-PARTY",
        "README.md",
        "docs/configuration.md",
        "docs/monitoring/README.md",
        "hermitd.toml",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    // By hand it goes to /usr/local, and its unit knows that.
    let unit = fs::read_to_string(folder.join("systemd/hermitmq.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/hermitd"), "{unit}");
    // Its settings are valid, also some of those that it proposes.
    let config = fs::read_to_string(folder.join("hermitd.toml")).unwrap();
    let opened = config.replace("#retention", "retention");
    fs::write(folder.join("opened.toml"), opened).unwrap();
    let mut check = Command::new(folder.join("bin/hermitd"));
    good(
        check
            .args(["--check", "--config"])
            .arg(folder.join("opened.toml"))
            .env_clear()
            .env("HERMITD_DATA_DIR", folder.join("data")),
    );
}

//! What is done with each block, by its language.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::pages::{Block, Page, root};
use crate::stage::{Stage, programs};

const AT_INSTALLING: &str =
    "changes the machine; the packages are unpacked, installed and removed by the tests of `cargo xtask dist`";

const IN_A_CONTAINER: &str = "needs docker and the network; the image is looked at with the packages";

/// Blocks that are not run, by page and by what they begin with.
const NOT_RUN: [(&str, &str, &str); 12] = [
    ("docs/installing.md", "sha256sum --check", AT_INSTALLING),
    ("docs/installing.md", "sudo apt install ./hermitmq_", AT_INSTALLING),
    (
        "docs/installing.md",
        "sudoedit /etc/hermitmq/hermitd.toml",
        "an editor for people; operations.md checks and reloads settings",
    ),
    ("docs/installing.md", "sudo HERMITMQ_PURGE_DATA=yes", AT_INSTALLING),
    (
        "docs/installing.md",
        "[Unit]\n# Without the disk",
        "a drop-in for systemd; xtask's tests/service.rs looks at it with the unit",
    ),
    ("docs/installing.md", "sudo chown hermitmq: /srv", AT_INSTALLING),
    ("docs/installing.md", "tar xzf hermitmq-", AT_INSTALLING),
    ("docs/installing.md", "cd hermitmq-", AT_INSTALLING),
    ("docs/installing.md", "docker build --file packaging/Dockerfile", IN_A_CONTAINER),
    ("docs/installing.md", "sudo chown -R 10001", IN_A_CONTAINER),
    (
        "bins/hermit-cli/README.md",
        "set -o pipefail\nhermit-cli --server a:9092",
        "needs two machines; tests/transfer.rs moves a topic",
    ),
    (
        "docs/monitoring/README.md",
        "# prometheus.yml",
        "Prometheus reads it, in hermit-http's tests/monitoring.rs where promtool is there",
    ),
];

pub fn has_commands(page: &Page) -> bool {
    !to_run(page).is_empty()
}

pub fn to_run(page: &Page) -> Vec<Block> {
    let runs = |block: &Block| matches!(block.language.as_str(), "sh" | "console") && listed(page, block).is_none();
    page.blocks().into_iter().filter(runs).collect()
}

/// Settings files by `hermitd --check`, JSON by parsing it, programs by being part of an example that is compiled and run.
pub fn check_files(page: &Page, number: usize) -> Vec<String> {
    let blocks = page.blocks();
    let checked = blocks.iter().filter(|block| listed(page, block).is_none()).filter_map(|block| {
        let wrong = match block.language.as_str() {
            "toml" if is_manifest(block) => None,
            "toml" => check_settings(page, number, block),
            "json" => serde_json::from_str::<serde_json::Value>(&block.text()).err().map(|error| error.to_string()),
            "rust" => (!is_in_an_example(block)).then(|| "is not in any example, line by line".to_owned()),
            _ => None,
        };
        wrong.map(|wrong| format!("{}:{}: {wrong}", page.path, block.line))
    });
    checked.collect()
}

pub fn unaccounted(pages: &[Page]) -> Vec<String> {
    let mut problems = Vec::new();
    for page in pages {
        for block in page.blocks() {
            let place = format!("{}:{}", page.path, block.line);
            // What is not run names at least what there is.
            let words = block.lines.iter().flat_map(|line| line.split_whitespace());
            let packed = words.filter(|word| word.starts_with("systemd/") || *word == "hermitd.toml");
            problems.extend(
                packed
                    .filter(|word| !root().join("packaging").join(word).exists())
                    .map(|word| format!("{place}: there is no packaging/{word}")),
            );
            match block.language.as_str() {
                // Bytes are compared by hermit-proto's tests/spec_examples.rs; text is to be read.
                "sh" | "console" | "toml" | "json" | "rust" | "hex" | "text" => {}
                "" => problems
                    .push(format!("{place}: say what it is: sh, console, toml, json, rust, or text where it is to be read only")),
                _ if listed(page, &block).is_some() => {}
                other => problems.push(format!("{place}: {other} is neither run nor on the list of what is not")),
            }
        }
    }
    for (path, beginning, _) in NOT_RUN {
        let there =
            pages.iter().any(|page| page.path == path && page.blocks().iter().any(|block| block.text().starts_with(beginning)));
        if !there {
            problems.push(format!("{path}: nothing begins with {beginning:?} any more: take it off the list"));
        }
    }
    problems
}

fn listed(page: &Page, block: &Block) -> Option<&'static str> {
    let mut entries = NOT_RUN.iter();
    entries.find(|(path, beginning, _)| *path == page.path && block.text().starts_with(beginning)).map(|(_, _, reason)| *reason)
}

fn is_manifest(block: &Block) -> bool {
    block.lines.iter().any(|line| line.starts_with('[') && line.contains("dependencies"))
}

fn check_settings(page: &Page, number: usize, block: &Block) -> Option<String> {
    let stage = Stage::set(number, page);
    for line in block.lines.iter().filter(|line| line.starts_with("tls_cert ")) {
        let cert = stage.here(line.split('"').nth(1).unwrap_or_default());
        certificate(Path::new(&cert));
    }
    let file = stage.path("settings.toml");
    fs::write(&file, stage.here(&block.text())).unwrap();
    let mut check = Command::new(programs().join("hermitd"));
    check.args(["--check", "--config", &file]).current_dir(stage.path("work"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMIT")) {
        check.env_remove(name);
    }
    let output = check.output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A certificate, and beside it its key, and one of the authority, by the names that the manual gives them.
fn certificate(cert: &Path) {
    fs::create_dir_all(cert.parent().unwrap()).unwrap();
    let key = cert.with_file_name(cert.file_name().unwrap().to_str().unwrap().replace("cert", "key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=broker"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=DNS:localhost"]);
    let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(cert).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::copy(cert, cert.with_file_name("ca.pem")).unwrap();
}

/// Whether its lines stand in an example one behind the other, whatever they are indented by.
fn is_in_an_example(block: &Block) -> bool {
    let trimmed = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect::<String>()
    };
    let wanted = trimmed(&block.text());
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("examples"));
    let examples = crates.filter_map(|dir| fs::read_dir(dir).ok()).flatten().map(|entry| entry.unwrap().path());
    examples
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .any(|path| trimmed(&fs::read_to_string(path).unwrap()).contains(&wanted))
}

//! Data directories without a broker.

mod support;

use std::path::{Path, PathBuf};

use support::{Run, TestBroker, run};

/// A recorded data directory of the older program.
fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/hermit-broker/tests/data/vectors").join(name)
}

/// Runs without a broker to reach.
fn offline(arguments: &[&str]) -> Run {
    run(support::command("127.0.0.1:1", arguments), b"")
}

/// Copies a directory of files and directories of files.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn an_old_data_directory_is_looked_at_and_imported() {
    let old = tempfile::tempdir().unwrap();
    copy(&vectors("data_torn_before"), old.path());
    let new = tempfile::tempdir().unwrap();
    let (old_dir, new_dir) = (old.path().to_str().unwrap(), new.path().join("data"));
    let import = ["log", "import", old_dir, "--data-dir", new_dir.to_str().unwrap()];
    let dry = offline(&[&import[..], &["--dry-run"]].concat());
    let told = String::from_utf8(dry.stdout).unwrap();
    assert_eq!((dry.status, dry.stderr.as_str()), (0, ""), "{told}");
    assert!(told.contains("note: ") && told.contains("the last 32 bytes are no whole frame"), "{told}");
    assert!(told.ends_with("nothing was imported: this was a dry run\n") && !new_dir.exists(), "{told}");

    let done = offline(&[&import[..], &["--output", "json"]].concat());
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let plan: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let partition = &plan["topics"][0]["partitions"][0];
    assert_eq!((&plan["topics"][0]["topic"], &partition["first"]), (&"golden".into(), &0.into()));
    let broker = TestBroker::start_in(&new_dir);
    let consumed = broker.run(&["consume", "golden", "--until", "end", "--format", "%o\n"], b"").stdout;
    assert!(!consumed.is_empty());

    let again = offline(&import);
    assert_eq!(again.status, 1);
    assert!(again.stderr.contains("is in use by process "), "{}", again.stderr);
    let empty = tempfile::tempdir().unwrap();
    let nothing = offline(&["log", "import", empty.path().to_str().unwrap()]);
    assert!(nothing.status == 1 && nothing.stderr.contains("holds no data of an older HermitMQ"), "{}", nothing.stderr);
}

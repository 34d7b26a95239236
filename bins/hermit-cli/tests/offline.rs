//! Data directories without a broker.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::path::PathBuf;

use support::{Run, TestBroker, run};

/// Runs without a broker to reach.
fn offline(arguments: &[&str]) -> Run {
    run(support::command("127.0.0.1:1", arguments), b"")
}

#[test]
fn an_old_data_directory_is_looked_at_and_imported() {
    let old = tempfile::tempdir().unwrap();
    support::older_data(old.path());
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

fn json_lines(out: &[u8]) -> Vec<serde_json::Value> {
    out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[test]
fn a_data_directory_is_inspected_verified_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut broker = TestBroker::start_in(dir.path());
    broker.ok(&["topic", "create", "t", "--partitions", "2"], b"");
    for line in ["first\n", "second\n", "third\n"] {
        broker.ok(&["produce", "t", "--partition", "0"], line.as_bytes());
    }
    for command in ["inspect", "verify", "repair"] {
        let busy = offline(&["log", command, path]);
        assert!(busy.status == 1 && busy.stderr.contains("is in use by process "), "{}", busy.stderr);
    }
    broker.stop();

    let inspected = offline(&["log", "inspect", path, "--topic", "t", "--output", "json"]);
    assert_eq!((inspected.status, inspected.stderr.as_str()), (0, ""));
    let partitions = json_lines(&inspected.stdout);
    assert_eq!(partitions.len(), 2);
    assert_eq!(
        (&partitions[0]["records"], &partitions[0]["log_end"], &partitions[0]["clean"]),
        (&3.into(), &3.into(), &true.into())
    );
    let shown = offline(&["log", "verify", path]);
    assert_eq!((shown.status, shown.stderr.as_str()), (0, ""));
    assert!(String::from_utf8_lossy(&shown.stdout).starts_with("the last broker stopped cleanly\n"));

    // A bit of the second record's value turns.
    let partition = PathBuf::from(partitions[0]["dir"].as_str().unwrap());
    let segment = partition.join("00000000000000000000.wal");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(6).position(|window| window == b"second").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();

    let damaged = offline(&["log", "verify", path, "--topic", "t", "--partition", "0"]);
    let told = String::from_utf8_lossy(&damaged.stdout).into_owned();
    assert_eq!(damaged.status, 1);
    assert!(told.contains("a damaged key or value; offsets 1 to 2 (exclusive) are lost"), "{told}");
    assert!(damaged.stderr.starts_with("error: 1 range damaged; "), "{}", damaged.stderr);
    assert_eq!(offline(&["log", "verify", path, "--topic", "t", "--partition", "1"]).status, 0);

    let left = offline(&["log", "repair", path, "--topic", "t"]);
    assert!(left.status == 1 && left.stderr.starts_with("error: 1 damaged range left in place"), "{}", left.stderr);
    let dry = offline(&["log", "repair", path, "--topic", "t", "--drop-damage", "--dry-run"]);
    assert_eq!((dry.status, std::fs::read(&segment).unwrap() == bytes), (0, true), "{}", dry.stderr);
    let dropped = offline(&["log", "repair", path, "--topic", "t", "--drop-damage", "--output", "json"]);
    assert_eq!((dropped.status, dropped.stderr.as_str()), (0, ""));
    let actions = &json_lines(&dropped.stdout)[0]["actions"];
    assert!(actions.as_array().unwrap().iter().any(|action| action["action"] == "dropped" && action["next"] == 2), "{actions}");
    let after = offline(&["log", "verify", path]);
    assert_eq!((after.status, after.stderr.as_str()), (0, ""));

    let broker = TestBroker::start_in(dir.path());
    assert_eq!(broker.ok(&["consume", "t", "--until", "end"], b""), "first\nthird\n");
    let nowhere = offline(&["log", "inspect", "/no/such/dir"]);
    assert!(nowhere.status == 1 && nowhere.stderr.lines().count() == 1, "{}", nowhere.stderr);
}

#[test]
fn what_cannot_be_read_of_a_partition_keeps_no_other_from_being_verified_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut broker = TestBroker::start_in(dir.path());
    broker.ok(&["topic", "create", "t", "--partitions", "3"], b"");
    for partition in ["0", "1", "2"] {
        broker.ok(&["produce", "t", "--partition", partition], b"a value\n");
    }
    broker.stop();
    let partitions = json_lines(&offline(&["log", "inspect", path, "--topic", "t", "--output", "json"]).stdout);
    let file = |partition: usize, name: &str| PathBuf::from(partitions[partition]["dir"].as_str().unwrap()).join(name);
    let index = file(0, "00000000000000000000.idx");
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    std::fs::write(file(1, "00000000000000000000.idx"), b"damaged").unwrap();
    let segment = file(2, "00000000000000000000.wal");
    let mut bytes = std::fs::read(&segment).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&segment, &bytes).unwrap();

    let verified = offline(&["log", "verify", path, "--topic", "t"]);
    let told = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status == 1 && told.contains("t 2: segment 0"), "{told} {}", verified.stderr);
    let repaired = offline(&["log", "repair", path, "--topic", "t", "--drop-damage"]);
    assert!(repaired.status == 1 && repaired.stderr.contains("topic t, partition 0: "), "{}", repaired.stderr);
    std::fs::remove_dir(&index).unwrap();
    assert_eq!(offline(&["log", "repair", path, "--topic", "t", "--partition", "0"]).status, 0);
    let after = offline(&["log", "verify", path, "--topic", "t"]);
    assert_eq!((after.status, after.stderr.as_str()), (0, ""), "the others were repaired all the same");
}

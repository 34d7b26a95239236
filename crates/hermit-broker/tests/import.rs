//! Old data directories, recorded from the older broker: after the import version-1 clients go on exactly where they were.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermit_broker::import::{self, Finding, Found, ImportError};
use hermit_broker::{Broker, BrokerConfig, BrokerError};
use support::{Server, config, v1, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors")
}

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(vectors().join(name)).unwrap()
}

/// A copy of a recorded data directory.
fn recorded(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for partition in std::fs::read_dir(vectors().join(name)).unwrap() {
        let from = partition.unwrap().path();
        let to = dir.path().join(from.file_name().unwrap());
        std::fs::create_dir(&to).unwrap();
        for file in std::fs::read_dir(&from).unwrap() {
            let file = file.unwrap().path();
            std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
    dir
}

/// All old files with their bytes.
fn originals(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for partition in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if !partition.is_dir() || partition.ends_with("partitions") {
            continue;
        }
        for file in std::fs::read_dir(&partition).unwrap().map(|entry| entry.unwrap().path()) {
            files.insert(file.clone(), std::fs::read(&file).unwrap());
        }
    }
    files
}

async fn expect(server: &Server, sent: &[u8], expected: &[u8]) {
    let mut stream = server.connect().await;
    stream.write_all(sent).await.unwrap();
    let mut answered = vec![0; expected.len()];
    within(stream.read_exact(&mut answered)).await.unwrap();
    assert!(answered == expected, "other bytes came");
}

#[tokio::test]
async fn after_the_import_every_group_resumes_where_it_was_byte_for_byte() {
    let dir = recorded("data_after_clean_stop");
    let before = originals(dir.path());
    assert_eq!(import::look(dir.path()).unwrap(), Found::Older);
    let refused = Broker::open(config(dir.path())).unwrap_err();
    assert!(matches!(refused, BrokerError::NotImported { begun: false, .. }), "{refused}");

    let plan = import::run(dir.path(), &config(dir.path()), |_| ()).unwrap();
    assert_eq!((plan.topics.len(), plan.frames(), plan.positions), (1, 8, 2));
    assert!(plan.findings.is_empty(), "{:?}", plan.findings);
    assert_eq!(import::look(dir.path()).unwrap(), Found::Current);

    let all = vector("08_consumer_after_restart.b2c.bin");
    for round in 0..2 {
        let server = Server::start(dir.path()).await;
        assert!(server.broker.report().clean, "round {round}: {:?}", server.broker.report());
        expect(&server, &vector("08_consumer_after_restart.c2b.bin"), &all).await;
        // `grp` has committed 1, `grp2` 5.
        expect(&server, &vector("05_consumer_resume_midbatch.c2b.bin"), &all[39..]).await;
        let group_2 = b"\x02\x04grp2\x06golden\0\0\0\0";
        let at_5 = all.windows(17).position(|at| at[0] == 1 && at[9..17] == 5u64.to_be_bytes()).unwrap();
        expect(&server, group_2, &all[at_5..]).await;
        server.stop().await;
    }
    let again = import::run(dir.path(), &config(dir.path()), |_| ()).unwrap_err();
    assert!(matches!(again, ImportError::Occupied { .. }), "{again}");
    assert!(originals(dir.path()) == before, "an old file changed");
}

#[tokio::test]
async fn a_torn_tail_is_left_out_and_the_next_append_goes_on_behind_the_last_whole_frame() {
    let dir = recorded("data_torn_before");
    let before = originals(dir.path());
    let new = tempfile::tempdir().unwrap();
    let plan = import::plan(dir.path(), &config(new.path())).unwrap();
    assert!(matches!(&plan.findings[..], [Finding::TornTail { position: 241, lost_bytes: 32, .. }]), "{:?}", plan.findings);
    assert_eq!(std::fs::read_dir(new.path()).unwrap().count(), 0, "a plan writes nothing");

    import::run(dir.path(), &config(new.path()), |_| ()).unwrap();
    let server = Server::start(new.path()).await;
    let all = vector("08_consumer_after_restart.b2c.bin");
    let consumer = vector("08_consumer_after_restart.c2b.bin");
    expect(&server, &consumer, &all[..241]).await;
    let mut producer = v1::producer(&server, "golden").await;
    producer.write_all(&v1::frame(1, b"", b"next", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 9));
    server.stop().await;
    assert!(originals(dir.path()) == before, "an old file changed");
}

/// The bytes of the recorded log in three segments, made from its listing: one repeated letter as payload.
fn rotated(dir: &Path) -> Vec<u8> {
    let listing = String::from_utf8(vector("data_rotated_1MiB/LISTING.txt")).unwrap();
    let (mut all, mut segment): (Vec<u8>, Option<(PathBuf, Vec<u8>)>) = (Vec::new(), None);
    let partition = dir.join("big_0");
    std::fs::create_dir_all(&partition).unwrap();
    let mut write = |segment: Option<(PathBuf, Vec<u8>)>| {
        if let Some((path, bytes)) = segment {
            std::fs::write(path, &bytes).unwrap();
            all.extend_from_slice(&bytes);
        }
    };
    for line in listing.lines() {
        if let Some((_, hex)) = line.split_once("header ") {
            let header: Vec<_> = (0..58).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
            let payload = u32::from_be_bytes(header[21..25].try_into().unwrap()) as usize;
            let bytes = &mut segment.as_mut().unwrap().1;
            bytes.extend_from_slice(&header);
            bytes.resize(bytes.len() + payload, b'z');
            continue;
        }
        let (name, size) = line.split_once(' ').unwrap();
        if name.ends_with(".wal") {
            write(segment.replace((partition.join(name), Vec::new())));
        } else {
            std::fs::copy(vectors().join("data_rotated_1MiB").join(name), partition.join(name)).unwrap();
            assert_eq!(std::fs::metadata(partition.join(name)).unwrap().len(), size.trim().parse::<u64>().unwrap());
        }
    }
    write(segment);
    all
}

#[tokio::test]
async fn a_log_in_several_segments_keeps_its_offsets_also_after_its_oldest_was_deleted() {
    let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let all = rotated(dir.path());
    let mut last = 0;
    let plan = import::run(dir.path(), &config(new.path()), |progress| last = progress.done_bytes).unwrap();
    let partition = &plan.topics[0].partitions[0];
    assert_eq!((partition.segments, partition.first.0, partition.end.0, partition.frames), (3, 0, 13, 9));
    assert_eq!(last, plan.body_bytes());
    let server = Server::start(new.path()).await;
    expect(&server, b"\x02\x01g\x03big\0\0\0\0", &all).await;
    server.stop().await;

    let new = tempfile::tempdir().unwrap();
    for suffix in ["wal", "idx"] {
        std::fs::remove_file(dir.path().join(format!("big_0/00000000000000000000.{suffix}"))).unwrap();
    }
    import::run(dir.path(), &config(new.path()), |_| ()).unwrap();
    let server = Server::start(new.path()).await;
    expect(&server, b"\x02\x01g\x03big\0\0\0\0", &all[1_228_916..]).await;
    let topic = server.broker.topic(&"big".parse().unwrap()).unwrap();
    let bounds = topic.partitions()[0].bounds().unwrap();
    assert_eq!((bounds.log_start.0, bounds.log_end.0), (6, 13));
    server.stop().await;
}

#[tokio::test]
async fn a_consumer_passes_over_what_was_lost_in_the_middle_and_offsets_stay() {
    let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let all = rotated(dir.path());
    // The third frame of the first segment is no frame any more.
    let path = dir.path().join("big_0/00000000000000000000.wal");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[614_458] = 9;
    std::fs::write(&path, bytes).unwrap();
    let plan = import::run(dir.path(), &config(new.path()), |_| ()).unwrap();
    assert!(matches!(&plan.findings[..], [Finding::Damaged { .. }]), "{:?}", plan.findings);
    let server = Server::start(new.path()).await;
    let expected = [&all[..614_458], &all[1_228_916..]].concat();
    expect(&server, b"\x02\x01g\x03big\0\0\0\0", &expected).await;
    server.stop().await;
}

#[test]
fn without_enough_space_nothing_is_written_and_the_message_says_what_is_needed() {
    let dir = recorded("data_after_clean_stop");
    let mut tight = config(dir.path());
    tight.limits.disk_high_bytes = u64::MAX / 2;
    let error = import::run(dir.path(), &tight, |_| ()).unwrap_err();
    assert!(matches!(error, ImportError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("hermit-cli log import"), "{error}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "lock" || name.to_string_lossy().ends_with("_0")), "{left:?}");
    assert_eq!(import::look(dir.path()).unwrap(), Found::Older);
}

#[test]
fn problems_are_listed_and_nothing_is_imported() {
    let dir = recorded("data_after_clean_stop");
    std::fs::create_dir(dir.path().join("orders_1")).unwrap();
    let mut config = BrokerConfig::new(dir.path());
    config.limits.max_record_count = 2;
    let error = import::run(dir.path(), &config, |_| ()).unwrap_err().to_string();
    assert!(error.contains("orders_0") && error.contains("`max_record_count`"), "{error}");
    assert_eq!(import::look(dir.path()).unwrap(), Found::Older);
}

#[test]
fn a_directory_without_old_data_is_told_so() {
    let (dir, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let error = import::plan(dir.path(), &config(new.path())).unwrap_err();
    assert!(matches!(error, ImportError::NothingThere { .. }), "{error}");
    assert_eq!(import::look(dir.path()).unwrap(), Found::Nothing);
}

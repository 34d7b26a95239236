//! The state of idempotent producers, where appends fail, segments go and memory is short.

use std::time::Duration;

use hermit_log::disk::sim::{Fault, Op, Survival};
use hermit_log::{Appended, CompactionConfig, Log, LogConfig, LogError, ProducerConfig, ProducerError};
use hermit_proto::{ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence};
use rustix::io::Errno;

use crate::rig::{Bench, append, append_many, batch, dir, keyed};

fn frame(id: i64, epoch: i16, sequence: i32) -> ProducedFrame<'static> {
    let first_sequence = Sequence(sequence);
    let producer = ProducerStamp { id: ProducerId(id), epoch: ProducerEpoch(epoch), first_sequence };
    ProducedFrame { producer: Some(producer), ..ProducedFrame::message(7, Some(b"key"), &[b'x'; 31]) }
}

fn send(log: &Log, id: i64, sequence: i32) -> Result<Appended, LogError> {
    log.append(&mut batch(&[frame(id, 0, sequence)]))
}

fn is_unknown(result: &Result<Appended, LogError>) -> bool {
    matches!(result, Err(LogError::Producer(ProducerError::Unknown { .. })))
}

fn remembers(max: usize) -> LogConfig {
    LogConfig { producers: ProducerConfig { expiry: Duration::from_secs(100), max }, ..LogConfig::default() }
}

#[test]
fn an_append_that_fails_forgets_nobody() {
    let bench = Bench::new();
    let (log, _) = bench.open(&remembers(3), false, 0);
    for id in 5..8 {
        send(&log, id, 0).unwrap();
    }
    for many in [1, 3] {
        bench.disk.fail(Fault::error(Op::Write, Errno::IO).on(".wal"));
        let newcomers: Vec<_> = (10..10 + many).map(|id| frame(id, 0, 0)).collect();
        log.append(&mut batch(&newcomers)).unwrap_err();
        bench.disk.heal();
        for id in 5..8 {
            assert_eq!(send(&log, id, 0).unwrap().duplicates, 1, "producer {id} is forgotten, and its batch is there twice");
        }
        // A sequence that is refused at the end of a batch that made room is no append either.
        let refused = log.append(&mut batch(&[frame(10, 0, 0), frame(11, 0, 0), frame(12, 0, 5)]));
        assert!(is_unknown(&refused), "{refused:?}");
        for id in 5..8 {
            assert_eq!(send(&log, id, 0).unwrap().duplicates, 1);
        }
    }
    assert_eq!(log.bounds().log_end.0, 3);
    // Nobody was forgotten: who has a lower id, and was never here, is new.
    send(&log, 1, 0).unwrap();
    assert_eq!(send(&log, 1, 0).unwrap().duplicates, 1);
}

#[test]
fn who_made_room_is_told_so_and_not_taken_for_new() {
    let bench = Bench::new();
    let (mut log, _) = bench.open(&remembers(2), false, 0);
    for id in 0..4 {
        send(&log, id, 0).unwrap();
        bench.clock.advance(Duration::from_secs(1));
    }
    log.flush().unwrap();
    for epoch in 1..4 {
        // The first batch, sent again, and the second: nobody can tell, and nobody pretends to.
        for (id, sequence) in [(0, 0), (0, 1), (1, 0)] {
            let told = send(&log, id, sequence);
            assert!(is_unknown(&told), "{id}/{sequence}: {told:?}");
        }
        assert_eq!(send(&log, 3, 0).unwrap().duplicates, 1);
        if epoch == 2 {
            log.close().unwrap();
        }
        drop(log);
        bench.disk.crash_with(Survival::Nothing, 0);
        log = bench.open(&remembers(2), epoch == 2, epoch).0;
    }
    // A new id is all it takes.
    assert_eq!(send(&log, 4, 0).unwrap().duplicates, 0);
}

#[test]
fn who_was_idle_for_too_long_is_told_so() {
    let bench = Bench::new();
    let (log, _) = bench.open(&remembers(10), false, 0);
    send(&log, 1, 0).unwrap();
    bench.clock.advance(Duration::from_secs(100));
    assert_eq!(send(&log, 1, 0).unwrap().duplicates, 1);
    bench.clock.advance(Duration::from_secs(1));
    for sequence in [0, 1] {
        let told = send(&log, 1, sequence);
        assert!(is_unknown(&told), "{told:?}");
    }
    // A second incarnation of it knows that nothing of its own is there.
    assert_eq!(log.append(&mut batch(&[frame(1, 1, 0)])).unwrap().duplicates, 0);
}

#[test]
fn a_snapshot_is_there_at_each_roll() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig { segment_bytes: 1000, ..remembers(10) }, false, 0);
    for sequence in 0..35 {
        send(&log, 1, sequence).unwrap();
        log.flush().unwrap();
    }
    let names: Vec<_> = bench.disk.files().into_iter().map(|(path, _)| path).collect();
    let newest = names.iter().rfind(|path| path.extension().is_some_and(|extension| extension == "producers"));
    let last = names.iter().rfind(|path| path.extension().is_some_and(|extension| extension == "wal"));
    assert_eq!(newest.map(|path| path.with_extension("")), last.map(|path| path.with_extension("")));
    assert!(newest.is_some_and(|path| path.starts_with(dir())));
}

/// However the frames go: the state stays, also where nothing was loaded since the start that found them.
#[test]
fn what_was_appended_is_known_after_its_frames_are_gone() {
    for way in ["trim", "age", "bytes", "compaction"] {
        for restarted in [false, true] {
            let bench = Bench::new();
            let config = LogConfig { segment_bytes: 1000, ..remembers(10) };
            let (mut log, _) = bench.open(&config, false, 0);
            send(&log, 1, 0).unwrap();
            send(&log, 1, 1).unwrap();
            log.flush().unwrap();
            if restarted {
                drop(log);
                bench.disk.crash_with(Survival::Nothing, 0);
                log = bench.open(&config, false, 1).0;
            }
            for _ in 0..30 {
                keyed(&log, "key", &"x".repeat(28));
            }
            log.flush().unwrap();
            let mut altered = config.clone();
            match way {
                "trim" => drop(log.trim(log.bounds().high_watermark).unwrap()),
                "age" => {
                    altered.retention_age = Some(Duration::from_secs(10));
                    bench.clock.advance(Duration::from_secs(20));
                }
                "bytes" => altered.retention_bytes = Some(1),
                _ => altered.compaction = Some(CompactionConfig::default()),
            }
            log.set_config(altered).unwrap();
            log.apply_retention().unwrap();
            log.compact().unwrap();
            assert!(log.segment_count() < 3, "{way}: the frames are still there");
            drop(log);
            bench.disk.crash_with(Survival::Nothing, 0);
            let (log, _) = bench.open(&config, false, 2);
            for sequence in 0..2 {
                let again = send(&log, 1, sequence).unwrap();
                assert_eq!((again.base_offset.0, again.duplicates), (u64::try_from(sequence).unwrap(), 1), "{way}, {restarted}");
            }
            assert_eq!(send(&log, 1, 2).unwrap().duplicates, 0);
            append_many(&log, 1);
            append(&log);
        }
    }
}

/// `count` frames, that is so many sequences, in one batch.
fn send_several(log: &Log, id: i64, sequence: i32, count: i32) -> Result<(Appended, Vec<u64>), LogError> {
    let mut several = batch(&(sequence..sequence + count).map(|sequence| frame(id, 0, sequence)).collect::<Vec<_>>());
    let appended = log.append(&mut several)?;
    Ok((appended, several.frames().iter().map(|frame| frame.offset.0).collect()))
}

#[test]
fn a_batch_that_the_power_cut_tore_is_made_whole_by_its_repetition() {
    let bench = Bench::new();
    let config = remembers(10);
    let (log, _) = bench.open(&config, false, 0);
    let (whole, _) = send_several(&log, 1, 0, 3).unwrap();
    assert_eq!((whole.base_offset.0, whole.next_offset.0), (0, 3));
    drop(log);
    // Only the first frame came to the disk.
    bench.disk.kill();
    let frame_bytes = u64::try_from(batch(&[frame(1, 0, 0)]).as_bytes().len()).unwrap();
    bench.rot(0, frame_bytes);
    let (log, _) = bench.open(&config, false, 1);
    assert_eq!(log.bounds().log_end.0, 1);
    assert_eq!(append(&log), 1);

    // Each frame has its place, and the answer waits for all of them; its offsets show that they do not follow one another.
    let (again, offsets) = send_several(&log, 1, 0, 3).unwrap();
    assert_eq!((again.duplicates, offsets), (1, vec![0, 2, 3]));
    assert_eq!((again.base_offset.0, again.next_offset.0), (0, 4));
    let (again, offsets) = send_several(&log, 1, 0, 3).unwrap();
    assert_eq!((again.duplicates, again.next_offset.0, offsets), (3, 4, vec![0, 2, 3]));

    // It counts as two: behind four more it is not known any more, but that it is there is told.
    for sequence in 3..7 {
        append(&log);
        send(&log, 1, sequence).unwrap();
    }
    let passed = send_several(&log, 1, 0, 3);
    let Err(LogError::Producer(ProducerError::OutOfSequence { expected, got, .. })) = passed else { panic!("{passed:?}") };
    assert_eq!((expected, got), (Sequence(7), Sequence(0)));
    assert_eq!(log.bounds().log_end.0, 12);
}

//! Logs that begin behind 0, and offsets that are left out on purpose.

use std::sync::Arc;

use hermit_log::disk::sim::Survival;
use hermit_log::{CompactionConfig, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity};
use hermit_proto::Offset;

use crate::rig::{Bench, append_many, consume, dir, idx, keyed, numbers, stamped, wal};

fn create_at(bench: &Bench, first: u64) -> Result<(), LogError> {
    let clock = Arc::clone(&bench.clock);
    let env = LogEnv::new(Arc::new(bench.disk.clone()), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
    Log::create_at(&env, dir(), LogIdentity::default(), Offset(first))
}

#[test]
fn a_log_may_begin_behind_0_and_does_so_after_any_crash() {
    let whole = Bench::new();
    whole.disk.keep_images();
    create_at(&whole, 1000).unwrap();
    for (mutations, image) in whole.disk.take_images() {
        for seed in 0..4 {
            let bench = Bench { disk: image.fork(), clock: Arc::clone(&whole.clock) };
            bench.disk.crash(seed);
            // Whoever was not answered asks again.
            create_at(&bench, 1000).unwrap_or_else(|error| panic!("{mutations}: {error:?}"));
            let (log, report) = bench.open(&LogConfig::default(), false, 0);
            assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(1000), Offset(1000)), "{report:?}");
        }
    }
    for survival in [Survival::Nothing, Survival::Everything] {
        for (clean, damaged) in
            [(false, ""), (true, ""), (false, "start"), (true, "start"), (false, "checkpoint"), (true, "checkpoint")]
        {
            let bench = Bench { disk: whole.disk.fork(), clock: Arc::clone(&whole.clock) };
            bench.disk.crash_with(survival, 0);
            if !damaged.is_empty() {
                assert!(bench.disk.overwrite(&dir().join(damaged), 8, b"damaged!"));
            }
            for epoch in 0..3 {
                let (log, report) = bench.open(&LogConfig::default(), clean, epoch);
                assert_eq!(report.fenced, vec![], "{damaged}");
                assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(1000), Offset(1000)), "{damaged}");
                assert_eq!(consume(&log, 0, 100).frames, []);
                drop(log);
                bench.disk.crash_with(survival, 0);
            }
            let (log, _) = bench.open(&LogConfig { segment_bytes: 300, ..LogConfig::default() }, clean, 3);
            append_many(&log, 10);
            log.flush().unwrap();
            drop(log);
            bench.disk.crash_with(survival, 0);
            let (log, report) = bench.open(&LogConfig::default(), false, 4);
            assert_eq!(report.fenced, vec![], "{damaged}");
            assert_eq!(log.bounds().log_start, Offset(1000));
            assert_eq!(consume(&log, 0, 100).frames, (1000..1010).collect::<Vec<_>>());
            drop(log);
            assert!(matches!(create_at(&bench, 5), Err(LogError::InUse { .. })));
        }
    }
}

#[test]
fn what_is_left_out_is_told_of_and_passed_in_every_state_of_the_files() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 1000, ..LogConfig::default() };
    create_at(&bench, 5).unwrap();
    let (log, _) = bench.open(&config, false, 0);
    log.skip_to(Offset(10)).unwrap();
    assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(10), Offset(10)), "nothing was there to be lost");
    append_many(&log, 15);
    let mut waiting = log.cursor(Offset(10)).unwrap();
    log.skip_to(Offset(40)).unwrap();
    log.skip_to(Offset(40)).unwrap();
    assert!(matches!(log.skip_to(Offset(39)), Err(LogError::OutOfRange { .. })));
    while waiting.next_offset() < Offset(25) {
        waiting.next(1 << 20).unwrap().unwrap();
    }
    assert!(matches!(waiting.next(100), Err(LogError::Corrupt { from: Offset(25), next: Offset(40) })));
    log.skip_to(Offset(50)).unwrap();
    assert!(log.cursor(Offset(50)).unwrap().next(100).unwrap().is_none());
    append_many(&log, 15);
    log.flush().unwrap();
    let frames = numbers(&[10..25, 50..65]);
    // Side by side they are two: who is told of the first is told of the second at once.
    let corrupt = vec![(25, 40), (40, 50)];
    for clean in [false, true] {
        for remove in [vec![], vec![idx(20)], vec![idx(40)], vec![dir().join("checkpoint")], vec![dir().join("fenced")]] {
            if clean {
                log.close().ok();
            }
            let bench = Bench { disk: bench.disk.fork(), clock: Arc::clone(&bench.clock) };
            for path in &remove {
                assert!(bench.disk.remove(path), "{path:?}");
            }
            for epoch in 1..3 {
                bench.disk.crash_with(Survival::Nothing, 0);
                let (log, report) = bench.open(&config, clean && epoch == 1, epoch);
                assert_eq!(report.cut, None, "{remove:?}");
                let is_known = !remove.contains(&dir().join("fenced"));
                assert!(report.fenced.is_empty() || !is_known, "{remove:?}: {report:?}");
                let seen = consume(&log, 0, 500);
                assert_eq!((seen.frames, seen.corrupt), (frames.clone(), corrupt.clone()), "{remove:?}");
                assert_eq!(log.bounds().log_end, Offset(65));
                if epoch == 2 {
                    log.trim(Offset(30)).unwrap();
                    assert_eq!(consume(&log, 0, 500).corrupt, vec![(30, 40), (40, 50)]);
                }
            }
        }
    }
}

#[test]
fn an_idempotent_producer_goes_on_past_what_was_left_out() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    stamped(&log, 0).unwrap();
    log.skip_to(Offset(10)).unwrap();
    assert_eq!(stamped(&log, 1).unwrap().base_offset, Offset(10));
    log.flush().unwrap();
    drop(log);
    bench.disk.kill();
    let (log, _) = bench.open(&LogConfig::default(), false, 1);
    assert_eq!(stamped(&log, 0).unwrap().base_offset, Offset(0));
    assert_eq!(stamped(&log, 1).unwrap().base_offset, Offset(10));
    assert_eq!(stamped(&log, 2).unwrap().base_offset, Offset(11));
}

#[test]
fn compaction_leaves_what_was_left_out_told_of() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 300, compaction: Some(CompactionConfig::default()), ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    for i in 0..12 {
        keyed(&log, "a", &format!("{i:40}"));
    }
    log.skip_to(Offset(20)).unwrap();
    for i in 0..12 {
        keyed(&log, "a", &format!("{i:40}"));
    }
    log.flush().unwrap();
    log.compact().unwrap();
    assert_eq!(consume(&log, 0, 500).corrupt, vec![(12, 20)]);
    drop(log);
    bench.disk.crash_with(Survival::Nothing, 0);
    for file in bench.disk.files() {
        if file.0.extension().is_some_and(|extension| extension == "idx") {
            bench.disk.remove(&file.0);
        }
    }
    for epoch in 1..3 {
        let (log, _) = bench.open(&config, false, epoch);
        assert_eq!(consume(&log, 0, 500).corrupt, vec![(12, 20)]);
        assert_eq!(append_keyed_end(&log), 32 + u64::from(epoch) - 1);
    }
    assert!(bench.disk.bytes(&wal(22)).is_none(), "what is behind was compacted");
}

fn append_keyed_end(log: &Log) -> u64 {
    let offset = keyed(log, "b", "");
    log.flush().unwrap();
    offset
}

use super::*;

const LIMITS: SessionLimits = SessionLimits {
    max_frame_bytes: 1 << 20,
    max_records: 1000,
    max_request_bytes: 2 << 20,
    max_subscriptions: 16,
    heartbeat_interval_ms: 0,
};

const FULL_BYTES: usize = 128 << 10;

/// Slots of a producer whose open batches may have `ahead_bytes` that nothing is charged for.
fn slots(count: u32, ahead_bytes: usize) -> Vec<Slot> {
    let config = GatherConfig {
        codec: Codec::None,
        zstd_level: 3,
        batch_bytes: FULL_BYTES,
        linger: Duration::from_millis(5),
        delivery_timeout: Duration::from_secs(60),
        keyless: Keyless::Sticky,
        limits: LIMITS,
    };
    let mut shared = TopicState::default();
    shared.ahead = Arc::new(Ahead::new(ahead_bytes));
    let shared = Arc::new(shared);
    let slot = |number: u32| Slot::new(TopicId(1), "t".into(), PartitionId(number), number as usize, shared.clone(), config);
    (0..count).map(slot).collect()
}

fn append(slot: &Slot, record: ProducerRecord<'_>) -> Appended {
    slot.append([Incoming { record: &record, timestamp: 0, cost_bytes: record.data_bytes() + 36 }], false, |_completer, _index| {})
}

fn taken(slot: &Slot) -> Vec<Batch> {
    let mut batches = Vec::new();
    slot.take(|_begun| true, &mut batches);
    batches
}

#[test]
fn a_record_that_cannot_be_encoded_leaves_no_batch_and_the_next_one_is_announced() {
    let slot = &slots(1, 0)[0];
    // Over 2 GiB, of the same memory again and again.
    let large = vec![0; 64 << 20];
    let headers: Vec<_> = (0..40).map(|_| ("h", Some(&large[..]))).collect();
    let appended = append(slot, ProducerRecord::new("").headers(&headers));
    assert!(matches!(appended.not_taken.as_deref(), Some(NotTaken::Invalid(_))), "{appended:?}");
    assert!(!appended.announce && taken(slot).is_empty());

    assert!(append(slot, ProducerRecord::new("first")).announce);
    let appended = append(slot, ProducerRecord::new("").headers(&headers));
    assert!(matches!(appended.not_taken.as_deref(), Some(NotTaken::Invalid(_))), "{appended:?}");
    let batches = taken(slot);
    assert_eq!(batches.iter().map(Batch::record_count).collect::<Vec<_>>(), [1]);
}

#[test]
fn lone_records_behind_full_batches_have_no_full_batch_of_memory_each() {
    const SLOTS: u32 = 100;
    const AHEAD_BYTES: usize = 4 * FULL_BYTES;
    let slots = slots(SLOTS, AHEAD_BYTES);
    let full = vec![0; FULL_BYTES - 1000];
    let round = || {
        for slot in &slots {
            append(slot, ProducerRecord::new(&full));
            assert_eq!(taken(slot).len(), 1);
        }
        slots.iter().for_each(|slot| assert!(append(slot, ProducerRecord::new("lone")).announce));
    };
    for _ in 0..3 {
        round();
        let batches: Vec<_> = slots.iter().flat_map(taken).collect();
        assert_eq!(batches.len(), SLOTS as usize);
        let held_bytes: usize = batches.into_iter().map(Batch::memory_bytes).sum();
        assert!(held_bytes <= SLOTS as usize * 100, "{held_bytes} while they are on their way");
    }
    round();
    let held_bytes: usize = slots.iter().filter_map(|slot| slot.state().open.take()).map(OpenBatch::memory_bytes).sum();
    assert!(held_bytes <= AHEAD_BYTES + SLOTS as usize * 100, "{held_bytes} while they are open");
    assert!(held_bytes >= AHEAD_BYTES, "{held_bytes}: the first have room for what they are likely to take");
}

use super::*;
use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::{BrokerStamp, Codec, LeaderEpoch, ProducedFrame, TopicId};

const TOPIC: TopicId = TopicId(77);
const PARTITION: PartitionId = PartitionId(3);

fn source() -> Source {
    Source {
        topic: "t".into(),
        topic_id: TOPIC,
        partition: PARTITION,
        salt: FrameSalt::new(TOPIC, PARTITION),
        max_unpacked_bytes: 1 << 20,
    }
}

fn stamped(frame: &ProducedFrame<'_>, offset: u64) -> Vec<u8> {
    let mut bytes = frame.to_vec().unwrap();
    let stamp = BrokerStamp { offset: Offset(offset), leader_epoch: LeaderEpoch(4), append_time: 99, flushed_distance: 0 };
    FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(TOPIC, PARTITION));
    bytes
}

fn message(value: &str, offset: u64) -> Vec<u8> {
    stamped(&ProducedFrame::message(1, Some(b"k"), value.as_bytes()), offset)
}

fn set_of(values: &[&str], codec: Codec, count: u32, offset: u64) -> Vec<u8> {
    let mut builder = RecordSetBuilder::new(0);
    for value in values {
        builder.append(&NewRecord { timestamp_ms: 5, key: None, value: Some(value.as_bytes()), headers: &[] }).unwrap();
    }
    stamped(&ProducedFrame::record_set(0, codec, count, &builder.finish(codec).unwrap()), offset)
}

/// What comes out: values with their offsets, and errors, with the position following the skip policy. One by one and whole it is the same.
fn read(bytes: Vec<u8>, position: u64, next: u64) -> Vec<Result<(u64, String), Error>> {
    let each = read_each(bytes.clone(), position, next);
    assert_eq!(format!("{:?}", read_whole(bytes, position, next)), format!("{each:?}"));
    each
}

fn read_whole(bytes: Vec<u8>, position: u64, next: u64) -> Vec<Result<(u64, String), Error>> {
    let mut chunk = Chunk::new(bytes.into(), Offset(next));
    let mut position = Offset(position);
    let mut out = Vec::new();
    loop {
        match chunk.take(&source(), position) {
            Ok(None) => return out,
            Ok(Some(records)) => {
                assert_eq!(records.iter().len(), records.iter().count(), "all can be read again");
                assert_eq!(records.iter().next().unwrap().offset, records.first_offset());
                for record in &records {
                    let value = record.value.unwrap_or(b"(null)");
                    out.push(Ok((record.offset.0, String::from_utf8(value.to_vec()).unwrap())));
                    position = record.next_offset();
                }
                assert_eq!(position, records.next_offset());
            }
            Err(error) => {
                if let Error::Corrupt { next, .. } | Error::BadRecordSet { next, .. } = error {
                    position = position.max(next);
                }
                out.push(Err(error));
            }
        }
    }
}

fn read_each(bytes: Vec<u8>, position: u64, next: u64) -> Vec<Result<(u64, String), Error>> {
    let mut chunk = Chunk::new(bytes.into(), Offset(next));
    let mut position = Offset(position);
    let mut out = Vec::new();
    loop {
        let mut records = VecDeque::new();
        match chunk.decode(&source(), position, &mut records) {
            Ok(false) => return out,
            Ok(true) => {
                for record in records {
                    position = record.next_offset();
                    let value = record.value.as_deref().unwrap_or(b"(null)");
                    out.push(Ok((record.offset.0, String::from_utf8(value.to_vec()).unwrap())));
                }
            }
            Err(error) => {
                if let Error::Corrupt { next, .. } | Error::BadRecordSet { next, .. } = error {
                    position = position.max(next);
                }
                out.push(Err(error));
            }
        }
    }
}

fn values(read: &[Result<(u64, String), Error>]) -> Vec<(u64, &str)> {
    read.iter().filter_map(|item| item.as_ref().ok()).map(|(offset, value)| (*offset, value.as_str())).collect()
}

#[test]
fn messages_and_sets_come_out_in_order_from_the_exact_position() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let bytes = [message("a", 10), set_of(&["b", "c", "d"], codec, 3, 11), message("e", 20)].concat();
        assert_eq!(values(&read(bytes.clone(), 10, 21)), [(10, "a"), (11, "b"), (12, "c"), (13, "d"), (20, "e")]);
        assert_eq!(values(&read(bytes.clone(), 12, 21)), [(12, "c"), (13, "d"), (20, "e")]);
        assert_eq!(values(&read(bytes, 14, 21)), [(20, "e")]);
    }
}

#[test]
fn control_frames_are_passed_over_and_tombstones_are_told() {
    let control =
        ProducedFrame { attributes: Attributes(Attributes::CONTROL), record_count: 0, ..ProducedFrame::message(1, None, b"x") };
    let bytes = [stamped(&control, 5), stamped(&ProducedFrame::tombstone(1, b"k"), 5)].concat();
    assert_eq!(values(&read(bytes, 0, 6)), [(5, "(null)")]);
}

#[test]
fn an_opaque_block_is_one_record_that_takes_its_offsets() {
    let block = ProducedFrame { record_count: 3, ..ProducedFrame::message(1, None, b"block") };
    let bytes = [stamped(&block, 5), message("next", 8)].concat();
    assert_eq!(values(&read(bytes.clone(), 6, 9)), [(5, "block"), (8, "next")]);
    assert_eq!(values(&read(bytes, 8, 9)), [(8, "next")]);
}

#[test]
fn every_flipped_bit_is_reported_with_a_range_and_costs_no_other_frame_but_where_sizes_are_lost() {
    let frames = [message("aa", 0), set_of(&["b", "c"], Codec::Zstd, 2, 1), message("dd", 3)];
    let whole = frames.concat();
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        let read = read(bytes, 0, 4);
        let errors: Vec<_> = read.iter().filter_map(|item| item.as_ref().err()).collect();
        assert_eq!(errors.len(), 1, "bit {at}: {read:?}");
        let Error::Corrupt { first, next, .. } = errors[0] else { panic!("bit {at}: {:?}", errors[0]) };
        let intact =
            [(0, "aa"), (1, "b"), (2, "c"), (3, "dd")].into_iter().filter(|(offset, _)| *offset < first.0 || *offset >= next.0);
        assert_eq!(values(&read), intact.collect::<Vec<_>>(), "bit {at}");
    }
}

#[test]
fn frames_of_another_partition_are_refused() {
    let mut foreign = ProducedFrame::message(1, None, b"x").to_vec().unwrap();
    let stamp = BrokerStamp { offset: Offset(0), leader_epoch: LeaderEpoch(4), append_time: 99, flushed_distance: 0 };
    FramePrefix::stamp(foreign.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(TOPIC, PartitionId(4)));
    let read = read(foreign, 0, 1);
    assert!(matches!(&read[..], [Err(Error::Corrupt { source: Some(FrameError::FrameCrc { .. }), .. })]), "{read:?}");
}

#[test]
fn a_cut_delivery_is_reported() {
    let whole = [message("a", 0), message("b", 1)].concat();
    let first = message("a", 0).len();
    for cut in first + 1..whole.len() {
        let read = read(whole[..cut].to_vec(), 0, 2);
        assert!(matches!(&read[..], [Ok(_), Err(Error::Corrupt { first: Offset(1), next: Offset(2), .. })]), "{cut}: {read:?}");
    }
}

#[test]
fn a_set_that_does_not_hold_what_its_frame_names_is_reported_and_passed() {
    for codec in [Codec::None, Codec::Zstd] {
        let bytes = [set_of(&["a", "b"], codec, 5, 0), message("c", 5)].concat();
        let found = read(bytes, 0, 6);
        assert_eq!(values(&found), [(0, "a"), (1, "b"), (5, "c")]);
        assert!(matches!(found[2], Err(Error::BadRecordSet { first: Offset(2), next: Offset(5), .. })), "{found:?}");

        let bytes = [set_of(&["a", "b", "x"], codec, 2, 0), message("c", 2)].concat();
        let found = read(bytes, 0, 3);
        assert_eq!(values(&found), [(0, "a"), (1, "b"), (2, "c")]);
        assert!(matches!(found[2], Err(Error::BadRecordSet { .. })), "{found:?}");
    }
}

#[test]
fn a_payload_that_is_no_set_is_reported_and_passed() {
    let garbage = [
        stamped(&ProducedFrame::record_set(0, Codec::Zstd, 2, b"no zstd"), 0),
        stamped(&ProducedFrame::record_set(0, Codec::Lz4, 2, b""), 2),
        stamped(&ProducedFrame::record_set(0, Codec::None, 2, &[0xFF; 40]), 4),
        message("z", 6),
    ];
    let found = read(garbage.concat(), 0, 7);
    assert_eq!(values(&found), [(6, "z")]);
    assert_eq!(found.iter().filter(|item| matches!(item, Err(Error::BadRecordSet { .. }))).count(), 3, "{found:?}");
}

#[test]
fn a_set_that_unpacks_to_too_much_is_reported() {
    let large = "x".repeat(2 << 20);
    let found = read([set_of(&[&large], Codec::Zstd, 1, 0), message("z", 1)].concat(), 0, 2);
    assert_eq!(values(&found), [(1, "z")]);
    assert!(matches!(found[0], Err(Error::BadRecordSet { .. })));
}

#[test]
fn large_sets_are_decoded_piece_by_piece() {
    let values = vec!["v"; MAX_DECODED * 2 + 5];
    let bytes = set_of(&values, Codec::Lz4, u32::try_from(values.len()).unwrap(), 0);
    let mut chunk = Chunk::new(bytes.into(), Offset(values.len() as u64));
    let (mut position, mut pieces) = (Offset(0), Vec::new());
    loop {
        let mut records = VecDeque::new();
        if !chunk.decode(&source(), position, &mut records).unwrap() {
            break;
        }
        pieces.push(records.len());
        assert_eq!(records[0].offset, position);
        position = records.back().unwrap().next_offset();
    }
    assert_eq!(pieces, [MAX_DECODED, MAX_DECODED, 5]);
}

#[test]
fn what_is_left_of_a_set_is_taken_whole_and_messages_are_gathered() {
    let count = MAX_DECODED + 7;
    let set = set_of(&vec!["v"; count], Codec::None, u32::try_from(count).unwrap(), 0);
    let behind = count as u64;
    let frames = [set, message("a", behind), message("b", behind + 1), set_of(&["c", "d"], Codec::None, 2, behind + 2)];
    let mut chunk = Chunk::new(frames.concat().into(), Offset(behind + 4));
    let mut records = VecDeque::new();
    assert!(chunk.decode(&source(), Offset(0), &mut records).unwrap());
    let mut position = records.back().unwrap().next_offset();
    let mut pieces = Vec::new();
    while let Some(records) = chunk.take(&source(), position).unwrap() {
        assert_eq!(records.first_offset(), position);
        position = records.next_offset();
        pieces.push(records.len());
    }
    assert_eq!((pieces, position), (vec![7, 2, 2], Offset(behind + 4)));
}

#[test]
fn records_can_be_cut_at_an_offset_and_parted() {
    for frames in [set_of(&["a", "b", "c"], Codec::Lz4, 3, 4), [message("a", 4), message("b", 5), message("c", 6)].concat()] {
        let mut chunk = Chunk::new(frames.into(), Offset(7));
        let mut records = chunk.take(&source(), Offset(4)).unwrap().unwrap();
        records.cut_at(Offset(6));
        assert_eq!((records.len(), records.iter().count(), records.next_offset()), (2, 2, Offset(6)));
        let each = records.into_each();
        assert_eq!(each.iter().map(|record| record.offset.0).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(each[1].value.as_deref(), Some(&b"b"[..]));
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let mut random = 0x1234_5678_9ABC_DEFFu64;
    for _ in 0..2000 {
        let mut bytes = [message("aa", 0), set_of(&["b", "c"], Codec::Lz4, 2, 1)].concat();
        for _ in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = usize::try_from(random % bytes.len() as u64).unwrap();
            bytes[at] = random.to_be_bytes()[3];
        }
        // The broker vouches for what it stored, whatever that is.
        let stamp = BrokerStamp { offset: Offset(0), leader_epoch: LeaderEpoch(4), append_time: 99, flushed_distance: 0 };
        FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(TOPIC, PARTITION));
        read(bytes, 0, 4);
    }
}

/// Memory that is too large to be used again goes with the record.
#[test]
fn who_has_the_last_record_of_a_large_delivery_has_its_memory() {
    let source = || Source { max_unpacked_bytes: 4 << 20, ..source() };
    let large = "v".repeat(*SPARE_BYTES.end());
    for frames in [message(&large, 0), set_of(&[&large], Codec::None, 1, 0)] {
        let mut chunk = Chunk::new(frames.into(), Offset(1));
        let mut records = VecDeque::new();
        assert!(chunk.decode(&source(), Offset(0), &mut records).unwrap());
        let value = records.pop_front().unwrap().value.unwrap();
        assert_eq!(value.len(), large.len());
        value.try_into_mut().unwrap();
        assert!(!chunk.decode(&source(), Offset(1), &mut records).unwrap());
    }
    // What can be used again is kept.
    let small = message("v", 0);
    let mut chunk = Chunk::new(small.clone().into(), Offset(1));
    assert!(chunk.decode(&source(), Offset(0), &mut VecDeque::new()).unwrap());
    assert_eq!(chunk.into_bytes(), small);
}

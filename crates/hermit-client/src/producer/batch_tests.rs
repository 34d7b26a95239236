use super::*;
use hermit_proto::record_set::{RecordSet, unpack};
use hermit_proto::{Attributes, FrameLimits, FrameView, PartitionId, ProducerEpoch, ProducerId, Sequence};

impl OpenBatch {
    /// What it holds of memory.
    pub(in crate::producer) fn memory_bytes(self) -> usize {
        match self.gathered {
            Gathered::Set(builder) => builder.into_bytes().capacity(),
            Gathered::Singles { frames_bytes, .. } => frames_bytes,
        }
    }
}

impl Batch {
    /// What it holds of memory.
    pub(in crate::producer) fn memory_bytes(self) -> usize {
        match self.body {
            Body::Set { payload, .. } => payload.try_into_mut().unwrap().capacity(),
            Body::Singles(records) => records.iter().filter_map(|record| record.value.as_ref()).map(Bytes::len).sum(),
        }
    }
}

fn frames(batch: &Batch, stamp: Option<ProducerStamp>) -> Vec<u8> {
    let encoded = batch.encode(stamp).unwrap();
    [&encoded.head[..], &encoded.tail].concat()
}

fn stamp(first: i32) -> ProducerStamp {
    ProducerStamp { id: ProducerId(3), epoch: ProducerEpoch(1), first_sequence: Sequence(first) }
}

fn result() -> Completer {
    Completer::new("t".into(), PartitionId(0))
}

#[test]
fn a_set_is_one_frame_with_all_records() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let mut open = OpenBatch::set(5_000_000_007, Instant::now(), result());
        for _ in 0..100 {
            open.append(&ProducerRecord::new("value value value").key(""), 6_000_000_000, 20).unwrap();
        }
        open.append(&ProducerRecord::tombstone("gone").headers(&[("h", None)]), 5_000_000_007, 20).unwrap();
        let batch = open.seal(codec, 3, Instant::now());
        assert_eq!((batch.record_count(), batch.cost_bytes()), (101, 2020));
        let bytes = frames(&batch, Some(stamp(9)));
        let (view, rest) = FrameView::split(&bytes, &FrameLimits::default()).unwrap();
        assert!(rest.is_empty());
        view.verify_body().unwrap();
        assert_eq!(view.prefix.producer(), Some(stamp(9)));
        assert_eq!(view.prefix.header.record_count, 101);
        assert!(view.prefix.has(Attributes::RECORD_SET));
        assert_eq!(view.prefix.extension.attributes.codec(), Some(codec));
        let set = unpack(view.prefix.extension.attributes, view.payload(), 1 << 20).unwrap();
        let records: Vec<_> = RecordSet::new(&set).records().map(Result::unwrap).collect();
        assert_eq!(records[0].key, Some(&b""[..]));
        assert_eq!(records[0].timestamp_ns(5_000_000_007), 6_000_000_000);
        assert_eq!((records[100].key, records[100].value), (Some(&b"gone"[..]), None));
        assert_eq!(records[100].headers.collect::<Vec<_>>(), [("h", None)]);
    }
}

#[test]
fn what_does_not_shrink_is_not_compressed() {
    let mut open = OpenBatch::set(0, Instant::now(), result());
    open.append(&ProducerRecord::new(&[7u8, 201]), 0, 2).unwrap();
    let bytes = frames(&open.seal(Codec::Zstd, 3, Instant::now()), None);
    let (view, _) = FrameView::split(&bytes, &FrameLimits::default()).unwrap();
    assert_eq!(view.prefix.extension.attributes.codec(), Some(Codec::None));
}

#[test]
fn singles_are_a_frame_each_with_sequences_that_count_on() {
    let mut open = OpenBatch::singles(Instant::now(), result());
    let records = [ProducerRecord::new("a").key("k"), ProducerRecord::tombstone("k"), ProducerRecord::new("").key("")];
    for record in &records {
        let added = open.added_bytes(record, 7);
        let before = open.len_bytes();
        open.append(record, 7, 1).unwrap();
        assert_eq!(open.len_bytes(), before + added);
    }
    let mut batch = open.seal(Codec::Zstd, 3, Instant::now());
    let check = |bytes: &[u8], from: usize| {
        let mut rest = bytes;
        for (at, record) in records.iter().enumerate().skip(from) {
            let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
            view.verify_body().unwrap();
            assert_eq!(view.prefix.producer().unwrap().first_sequence, Sequence(i32::MAX - 1).advance(u32::try_from(at).unwrap()));
            assert_eq!(view.key(), record.key);
            assert_eq!(view.payload(), record.value.unwrap_or_default());
            assert_eq!(view.prefix.has(Attributes::TOMBSTONE), record.value.is_none());
            assert_eq!(view.prefix.header.record_count, 1);
            rest = behind;
        }
        assert!(rest.is_empty());
    };
    check(&frames(&batch, Some(stamp(i32::MAX - 1))), 0);
    assert!(batch.cut_front(2));
    check(&frames(&batch, Some(stamp(0))), 2);
    assert_eq!(batch.record_count(), 1);
    assert!(!batch.cut_front(1), "nothing would be left");
}

#[test]
fn a_set_cannot_be_cut() {
    let mut open = OpenBatch::set(0, Instant::now(), result());
    open.append(&ProducerRecord::new("a"), 0, 1).unwrap();
    open.append(&ProducerRecord::new("b"), 0, 1).unwrap();
    assert!(!open.seal(Codec::None, 3, Instant::now()).cut_front(1));
}

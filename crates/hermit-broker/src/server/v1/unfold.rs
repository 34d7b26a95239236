//! What a version-1 consumer gets for a stored frame. No I/O.

use hermit_proto::record_set::{RecordSet, unpack};
use hermit_proto::v1::{consumer_header, record_header};
use hermit_proto::{Attributes, FrameView, Offset};

use super::outgoing::{Left, Outgoing, Place};

/// What becomes of what was unfolded.
pub(super) struct Sink<'a> {
    /// Takes bytes; answers how many.
    pub(super) take: &'a dyn Fn(&[u8]) -> usize,
    /// From so many bytes on they are offered.
    pub(super) most_bytes: usize,
}

/// Appends to `out` what a consumer gets for `frame`: nothing for control frames, one frame for each record of a set from `from` on, else
/// the frame itself. Both checksums have been checked. A set may unpack to much more than its bytes: where the sink does not take it,
/// the answer is the place behind what is kept in `out`.
///
/// A set that cannot be read, or does not have the records that it claims, is told; the records before the fault are there.
pub(super) fn unfold(
    frame: &FrameView<'_>,
    from: Place,
    max_set_bytes: usize,
    out: &mut Outgoing,
    sink: &Sink<'_>,
) -> Result<Option<Place>, String> {
    if let Some(header) = consumer_header(&frame.prefix) {
        out.push(frame.prefix.offset(), [&header, frame.key().unwrap_or_default(), frame.payload()]);
        return Ok(None);
    }
    if !frame.prefix.has(Attributes::RECORD_SET) {
        return Ok(None);
    }
    let set = unpack(frame.prefix.extension.attributes, frame.payload(), max_set_bytes).map_err(|error| error.to_string())?;
    let (count, mut found) = (frame.prefix.header.record_count, 0);
    for record in RecordSet::new(&set).records() {
        let record = record.map_err(|error| error.to_string())?;
        if record.offset_delta >= count || record.offset_delta != found {
            return Err(format!("record {found} has offset delta {}, the set has {count} records", record.offset_delta));
        }
        found += 1;
        let offset = Offset(frame.prefix.header.offset.saturating_add(record.offset_delta.into()));
        if offset < from.offset {
            continue;
        }
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        let time = record.timestamp_ns(frame.prefix.header.timestamp);
        let header = record_header(time, offset, key.len(), value.len()).ok_or("a record is larger than a frame can be")?;
        out.push(offset, [&header, key, value]);
        if out.as_bytes().len() >= sink.most_bytes {
            match out.offer(sink.take) {
                Left::Nothing => {}
                Left::All => return Ok(Some(Place::at(Offset(offset.0.saturating_add(1))))),
                Left::Until(place) => return Ok(Some(place)),
            }
        }
    }
    if found == count { Ok(None) } else { Err(format!("the set has {found} records where its frame says {count}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
    use hermit_proto::{Codec, FrameLimits, Header, ProducedFrame};

    /// Offset, key, payload, record count.
    type Sent = (u64, Vec<u8>, Vec<u8>, u32);

    fn unfolded(frame: &ProducedFrame<'_>, from: u64) -> (Vec<Sent>, bool) {
        let mut bytes = frame.to_vec().unwrap();
        // As the broker stamps it: offset 10.
        bytes[9..17].copy_from_slice(&10u64.to_be_bytes());
        let (view, _) = FrameView::split(&bytes, &FrameLimits::default()).unwrap();
        // Whatever the sink takes or leaves, the same bytes come out.
        let mut outs = [1, 40, usize::MAX].map(|most_bytes| {
            let sink = Sink { take: &|_| 0, most_bytes };
            let (mut all, mut place) = (Vec::new(), Place::at(Offset(from)));
            loop {
                let mut out = Outgoing::default();
                out.begin(place);
                let unfolded = unfold(&view, place, 1 << 20, &mut out, &sink);
                all.extend_from_slice(out.as_bytes());
                match unfolded {
                    Ok(Some(next)) => place = next,
                    whole => return (all, whole.is_ok()),
                }
            }
        });
        outs.sort();
        assert_eq!(outs[0], outs[2]);
        let (out, sound) = outs[0].clone();
        let mut frames = Vec::new();
        let mut rest = &out[..];
        while !rest.is_empty() {
            let header = Header::peek(rest).unwrap();
            assert_eq!(header.magic, 1);
            let key = 29 + header.key_size as usize;
            let end = key + header.payload_size as usize;
            frames.push((header.offset, rest[29..key].to_vec(), rest[key..end].to_vec(), header.record_count));
            rest = &rest[end..];
        }
        (frames, sound)
    }

    fn set(codec: Codec) -> Vec<u8> {
        let mut builder = RecordSetBuilder::new(0);
        for (key, value) in [(Some(&b"a"[..]), Some(&b"1"[..])), (None, Some(b"2")), (Some(b"c"), None)] {
            builder.append(&NewRecord { timestamp_ms: 5, key, value, headers: &[] }).unwrap();
        }
        builder.finish(codec).unwrap()
    }

    #[test]
    fn sets_become_single_frames_from_the_record_asked_for() {
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
            let payload = set(codec);
            let (frames, sound) = unfolded(&ProducedFrame::record_set(0, codec, 3, &payload), 11);
            assert!(sound);
            assert_eq!(frames, [(11, vec![], b"2".to_vec(), 1), (12, b"c".to_vec(), vec![], 1)]);
        }
    }

    #[test]
    fn opaque_frames_stay_whole_and_tombstones_become_empty() {
        let opaque = ProducedFrame { record_count: 3, ..ProducedFrame::message(0, None, b"abc") };
        assert_eq!(unfolded(&opaque, 12).0, [(10, vec![], b"abc".to_vec(), 3)]);
        assert_eq!(unfolded(&ProducedFrame::tombstone(0, b"k"), 0).0, [(10, b"k".to_vec(), vec![], 1)]);
    }

    #[test]
    fn a_set_that_claims_other_records_is_told() {
        let payload = set(Codec::Zstd);
        for claimed in [2, 4] {
            let (frames, sound) = unfolded(&ProducedFrame::record_set(0, Codec::Zstd, claimed, &payload), 0);
            assert!(!sound);
            assert_eq!(frames.len(), 3.min(claimed as usize));
        }
    }
}

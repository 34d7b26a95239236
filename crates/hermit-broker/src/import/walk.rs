//! Reading a whole old partition: its segments in order, with what is missing between them.

use std::io;
use std::path::{Path, PathBuf};

use hermit_log::disk::{Disk, Open};
use hermit_proto::{FrameLimits, Header, Offset, PartitionId, TopicName};

use super::ImportError;
use super::findings::{Finding, Problem};
use super::old_dir::{OldPartition, OldSegment};
use super::segment::{Broken, Next, SegmentReader};

/// Takes what [`walk`] reads.
pub(super) trait Visitor {
    /// Whether [`Visitor::frame`] gets key and payload. Without them most of a log of large frames is not read.
    const BODIES: bool;

    /// The next frame has the offset `to`.
    fn skip_to(&mut self, to: Offset) -> Result<(), ImportError>;

    /// The next frame: its header, with a record count of at least 1, and key and payload, back to back.
    fn frame(&mut self, header: &Header, body: &[u8]) -> Result<(), ImportError>;
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walked {
    /// The first offset.
    pub(super) first: Offset,
    /// The offset behind the last frame.
    pub(super) end: Offset,
    pub(super) frames: u64,
    /// Bytes of all keys and payloads.
    pub(super) body_bytes: u64,
    pub(super) findings: Vec<Finding>,
    /// What ended the reading early.
    pub(super) problem: Option<Problem>,
}

/// Which partition is read, for findings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Which<'a> {
    pub(super) topic: &'a TopicName,
    pub(super) partition: PartitionId,
}

/// Reads all frames of a partition, in order.
pub(super) fn walk<V: Visitor>(
    disk: &dyn Disk,
    which: Which<'_>,
    partition: &OldPartition,
    limits: FrameLimits,
    visitor: &mut V,
) -> Result<Walked, ImportError> {
    let first = partition.segments.first().map_or(Offset::ZERO, |segment| segment.base);
    let mut walk = Walk {
        disk,
        which,
        limits,
        visitor,
        body: Vec::new(),
        walked: Walked { first, end: first, frames: 0, body_bytes: 0, findings: Vec::new(), problem: None },
    };
    if first > Offset::ZERO {
        walk.visitor.skip_to(first)?;
    }
    for (at, segment) in partition.segments.iter().enumerate() {
        let following = partition.segments.get(at + 1).map(|next| next.base);
        if !walk.segment(&partition.wal(segment), segment, following)? {
            break;
        }
    }
    Ok(walk.walked)
}

struct Walk<'a, V> {
    disk: &'a dyn Disk,
    which: Which<'a>,
    limits: FrameLimits,
    visitor: &'a mut V,
    body: Vec<u8>,
    walked: Walked,
}

impl<V: Visitor> Walk<'_, V> {
    /// Reads one segment. `false`: a problem keeps what follows from being read.
    fn segment(&mut self, path: &Path, segment: &OldSegment, following: Option<Offset>) -> Result<bool, ImportError> {
        let io = |error| ImportError::io("read", path, error);
        let file = self.disk.open(path, Open::Read).map_err(io)?;
        let mut reader = SegmentReader::new(&*file, segment.len_bytes, segment.base, self.limits);
        let broken = loop {
            match reader.advance().map_err(io)? {
                Next::Frame(header) => self.frame(&mut reader, &header, path)?,
                Next::OverLimit(header) => {
                    self.walked.problem = Some(self.over_limit(&header));
                    return Ok(false);
                }
                Next::End => break None,
                Next::Broken(why) => break Some(why),
            }
        };
        let (end, position) = (reader.next_offset(), reader.position());
        self.walked.end = end;
        let Some(next) = following else {
            if let Some(why) = broken {
                let lost_bytes = segment.len_bytes.saturating_sub(position);
                self.walked.findings.push(Finding::TornTail { path: path.to_owned(), position, lost_bytes, end, why });
            }
            return Ok(true);
        };
        if next < end {
            let path = path.with_file_name(super::old_dir::wal_name(next));
            self.walked.problem = Some(Problem::Overlap { path, end });
            return Ok(false);
        }
        self.leave_out(path, position, segment, next, broken)?;
        Ok(true)
    }

    /// Goes on at the offset of the next segment.
    fn leave_out(
        &mut self,
        path: &Path,
        position: u64,
        segment: &OldSegment,
        next: Offset,
        broken: Option<Broken>,
    ) -> Result<(), ImportError> {
        let from = self.walked.end;
        let path: PathBuf = path.to_owned();
        match broken {
            Some(why) => {
                let lost_bytes = segment.len_bytes.saturating_sub(position);
                self.walked.findings.push(Finding::Damaged { path, position, lost_bytes, from, next, why });
            }
            None if from < next => {
                let (topic, partition) = (self.which.topic.clone(), self.which.partition);
                self.walked.findings.push(Finding::OffsetsMissing { topic, partition, from, next });
            }
            None => {}
        }
        if from < next {
            self.visitor.skip_to(next)?;
            self.walked.end = next;
        }
        Ok(())
    }

    fn frame(&mut self, reader: &mut SegmentReader<'_>, header: &Header, path: &Path) -> Result<(), ImportError> {
        self.body.clear();
        if V::BODIES {
            reader.read_body(&mut self.body).map_err(|error: io::Error| ImportError::io("read", path, error))?;
        }
        self.visitor.frame(header, &self.body)?;
        self.walked.frames += 1;
        self.walked.body_bytes = self.walked.body_bytes.saturating_add(header.body_bytes());
        Ok(())
    }

    fn over_limit(&self, header: &Header) -> Problem {
        let (topic, partition, offset) = (self.which.topic.clone(), self.which.partition, Offset(header.offset));
        if header.body_bytes() > self.limits.max_body_bytes {
            return Problem::FrameTooLarge { topic, partition, offset, bytes: header.body_bytes() };
        }
        Problem::TooManyRecords { topic, partition, offset, count: header.record_count }
    }
}

#[cfg(test)]
mod tests {
    use hermit_log::disk::sim::SimDisk;

    use super::super::testing::{frame, put};
    use super::*;

    #[derive(Debug, Default)]
    struct Seen(Vec<String>);

    impl Visitor for Seen {
        const BODIES: bool = true;

        fn skip_to(&mut self, to: Offset) -> Result<(), ImportError> {
            self.0.push(format!("skip {to}"));
            Ok(())
        }

        fn frame(&mut self, header: &Header, body: &[u8]) -> Result<(), ImportError> {
            self.0.push(format!("{}+{} {}", header.offset, header.record_count, String::from_utf8_lossy(body)));
            Ok(())
        }
    }

    fn walked(segments: &[(u64, Vec<u8>)]) -> (Vec<String>, Walked) {
        let disk = SimDisk::new(1);
        let dir = Path::new("/old/t_0");
        for (base, bytes) in segments {
            put(&disk, &dir.join(super::super::old_dir::wal_name(Offset(*base))), bytes);
        }
        let list = super::super::old_dir::list(&disk, Path::new("/old")).unwrap();
        let (topic, partitions) = list.topics.iter().next().unwrap();
        let which = Which { topic, partition: PartitionId(0) };
        let limits = FrameLimits { max_body_bytes: 100, max_record_count: 100 };
        let mut seen = Seen::default();
        let walked = walk(&disk, which, &partitions[&PartitionId(0)], limits, &mut seen).unwrap();
        (seen.0, walked)
    }

    #[test]
    fn a_log_that_begins_later_and_rolls_keeps_its_offsets() {
        let (seen, walked) = walked(&[
            (6, [frame(6, b"", b"a", 1), frame(7, b"", b"b", 0)].concat()),
            (8, frame(8, b"k", b"c", 4)),
            (12, Vec::new()),
        ]);
        assert_eq!(seen, ["skip 6", "6+1 a", "7+1 b", "8+4 kc"]);
        assert_eq!((walked.first, walked.end, walked.frames, walked.body_bytes), (Offset(6), Offset(12), 3, 4));
        assert_eq!((walked.findings, walked.problem), (vec![], None));
    }

    #[test]
    fn a_torn_tail_is_cut_and_damage_in_the_middle_leaves_a_gap() {
        let torn = &frame(1, b"", b"torn", 1)[..31];
        let (seen, walked) = walked(&[(0, [frame(0, b"", b"a", 1), torn.to_vec()].concat())]);
        assert_eq!((seen, walked.end), (vec!["0+1 a".to_owned()], Offset(1)));
        let torn_tail = Finding::TornTail {
            path: "/old/t_0/00000000000000000000.wal".into(),
            position: 30,
            lost_bytes: 31,
            end: Offset(1),
            why: Broken::Cut,
        };
        assert_eq!(walked.findings, [torn_tail]);

        let (seen, walked) =
            self::walked(&[(0, [frame(0, b"", b"a", 1), vec![9; 40]].concat()), (5, frame(5, b"", b"b", 1)), (9, Vec::new())]);
        assert_eq!(seen, ["0+1 a", "skip 5", "5+1 b", "skip 9"]);
        assert_eq!(walked.end, Offset(9));
        assert!(matches!(walked.findings[0], Finding::Damaged { from: Offset(1), next: Offset(5), lost_bytes: 40, .. }));
        assert!(matches!(walked.findings[1], Finding::OffsetsMissing { from: Offset(6), next: Offset(9), .. }));
    }

    #[test]
    fn segments_that_contradict_each_other_and_frames_over_a_limit_are_problems() {
        let (_, walked) = walked(&[(0, frame(0, b"", b"a", 3)), (2, frame(2, b"", b"b", 1))]);
        assert!(matches!(walked.problem, Some(Problem::Overlap { end: Offset(3), .. })));
        let (_, walked) = self::walked(&[(0, frame(0, b"", &[0; 101], 1))]);
        assert!(matches!(walked.problem, Some(Problem::FrameTooLarge { bytes: 101, .. })));
        let (_, walked) = self::walked(&[(0, frame(0, b"", b"", 101))]);
        assert!(matches!(walked.problem, Some(Problem::TooManyRecords { count: 101, .. })));
    }
}

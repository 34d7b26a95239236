//! Server-sent events of live streams, and their ids.

use std::io::{self, Write};

use hermit_broker::Topic;
use hermit_broker::proto::TopicId;
use serde::Serialize;

use super::followed::Followed;
use crate::problem::Problem;
use crate::records::RecordOut;
use crate::untold::Why;

/// With more partitions than this an id is too long to be told with each record.
const FEW_PARTITIONS: usize = 16;
/// Digits of an offset, and a comma.
const OFFSET_BYTES: usize = 21;
/// What a further line of a record begins with.
const NEXT_LINE: &[u8] = b"\ndata: ";
/// What a line break of a record takes more than itself.
pub(super) const BREAK_BYTES: usize = NEXT_LINE.len() - 1;

/// What the ids of events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// The record's offset; the last one, where it has several.
    Offset,
    /// Which topic, so that another one of the same name is not taken for it, and the next offset of each of its partitions.
    OfTopic(TopicId),
}

impl Ids {
    /// Writes the id of an event of the partition `at`.
    fn write(self, at: usize, followed: &[Followed], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Offset => match followed.get(at).and_then(|followed| followed.next?.checked_sub(1)) {
                Some(last) => writeln!(out, "id: {last}"),
                // Nothing came, and nothing is there any more: what was told before still holds.
                None => Ok(()),
            },
            Self::OfTopic(topic) => {
                write!(out, "id: {}", name_of(topic))?;
                for followed in followed {
                    match followed.next {
                        Some(next) => write!(out, ",{next}")?,
                        None => out.write_all(b",-")?,
                    }
                }
                out.write_all(b"\n")
            }
        }
    }

    /// Most bytes of an event besides its record's JSON, but for an id of many partitions.
    pub(super) fn around_bytes(self, followed: usize) -> usize {
        const REST_BYTES: usize = 64;
        match self {
            Self::Offset => REST_BYTES,
            Self::OfTopic(_) => REST_BYTES + followed.min(FEW_PARTITIONS) * OFFSET_BYTES,
        }
    }

    /// Most bytes of an id.
    pub(super) const fn long_bytes(self, followed: usize) -> usize {
        match self {
            Self::Offset => 0,
            Self::OfTopic(_) => followed * OFFSET_BYTES,
        }
    }

    /// The next offsets that an id tells; none, where it is that of another topic, whose records are all new. Of a partition of which nothing was known it tells none.
    pub(super) fn parse(id: &str, topic: &Topic) -> Result<Vec<Option<u64>>, Problem> {
        let bad = || Problem::bad("last-event-id", "it must be the id of the last event that came");
        let mut parts = id.split(',');
        if parts.next() != Some(&name_of(topic.meta.id)) {
            return if id.contains(',') { Ok(Vec::new()) } else { Err(bad()) };
        }
        let next = |next: &str| if next == "-" { Ok(None) } else { next.parse().map(Some).map_err(|_other| bad()) };
        parts.map(next).collect()
    }
}

/// So much of a topic's id as tells it from an earlier one of the same name.
fn name_of(topic: TopicId) -> String {
    topic.to_string().get(..8).unwrap_or_default().to_owned()
}

/// Writes a record of the partition `at`.
pub(super) fn record(
    ids: Ids,
    at: usize,
    mut record: RecordOut,
    is_last: bool,
    followed: &[Followed],
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    let of = followed.get(at).filter(|_| ids != Ids::Offset);
    record.partition = of.map(|followed| followed.partition.id().0);
    let failed = |_impossible| Problem::internal();
    if is_last || ids == Ids::Offset || followed.len() <= FEW_PARTITIONS {
        ids.write(at, followed, out).map_err(failed)?;
    }
    out.extend_from_slice(b"data: ");
    let written =
        if record.breaks() == 0 { serde_json::to_writer(&mut *out, &record) } else { serde_json::to_writer(Lines(out), &record) };
    written.map_err(|_impossible| Problem::internal())?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// JSON as it was stored may have several lines, and then has them in the event.
struct Lines<'a>(&'a mut Vec<u8>);

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (number, line) in bytes.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
            if number > 0 {
                self.0.extend_from_slice(NEXT_LINE);
            }
            self.0.extend_from_slice(line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records that are left out.
#[derive(Debug, Serialize)]
struct Gap {
    partition: u32,
    from: Option<u64>,
    next: Option<u64>,
    reason: &'static str,
}

/// Says that the records of the partition `at` from `from` on, up to where it is gone on at, do not come. Its id tells so, too: who comes again does not meet them again.
pub(super) fn gap(ids: Ids, at: usize, from: Option<u64>, why: Why, followed: &[Followed]) -> Result<Vec<u8>, Problem> {
    let of = followed.get(at).ok_or_else(Problem::internal)?;
    let reason = match why {
        Why::Damaged => "damaged",
        Why::TooLarge => "too_large",
        Why::Deleted => "deleted",
        Why::Lost => "lost",
    };
    let mut out = Vec::new();
    ids.write(at, followed, &mut out).map_err(|_impossible| Problem::internal())?;
    named("gap", &Gap { partition: of.partition.id().0, from, next: of.next, reason }, &mut out)?;
    Ok(out)
}

#[derive(Debug, Serialize)]
struct Down<'a> {
    partition: u32,
    problem: &'a Problem,
}

/// Says that nothing more will come of a partition, while others go on.
pub(super) fn down(partition: u32, problem: &Problem) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::new();
    named("down", &Down { partition, problem }, &mut out)?;
    Ok(out)
}

/// Says why a stream ends.
pub(super) fn error(problem: &Problem) -> Vec<u8> {
    let mut out = Vec::new();
    // A problem can be told as JSON.
    let _told = named("error", problem, &mut out);
    out
}

fn named(name: &str, data: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Problem> {
    let json = serde_json::to_string(data).map_err(|_impossible| Problem::internal())?;
    write!(out, "event: {name}\ndata: {json}\n\n").map_err(|_impossible| Problem::internal())
}

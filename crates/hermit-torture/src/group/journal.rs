//! The journal of a member: a line of text for each event, written before what it tells of can be seen elsewhere. A process that is killed loses
//! nothing of it but perhaps half of its last line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};

use crate::check::{Event, Journal, Stamped};

/// Nanoseconds of the machine's monotonic clock, the same for all its processes.
pub(super) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Writer(File);

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path);
        Ok(Self(file.with_context(|| format!("the journal {} cannot be created", path.display()))?))
    }

    /// Writes an event, in one call.
    pub(super) fn note(&self, event: Event) -> Result<()> {
        let at = now();
        let line = match event {
            Event::Assigned { partition } => format!("{at} assigned {partition}\n"),
            Event::Released { partition, generation } => format!("{at} released {partition} {generation}\n"),
            Event::Lost { partition } => format!("{at} lost {partition}\n"),
            Event::Began { partition, offset, generation, fingerprint } => {
                format!("{at} began {partition} {offset} {generation} {fingerprint}\n")
            }
            Event::Ended { partition, offset } => format!("{at} ended {partition} {offset}\n"),
            Event::Committed { partition, offset, generation } => format!("{at} committed {partition} {offset} {generation}\n"),
        };
        (&self.0).write_all(line.as_bytes()).context("the journal cannot be written")
    }
}

/// Reads a journal back.
pub(super) fn read(path: &Path) -> Result<Journal> {
    let text = std::fs::read_to_string(path).with_context(|| format!("the journal {} cannot be read", path.display()))?;
    parse(&text).with_context(|| format!("the journal {}", path.display()))
}

fn parse(text: &str) -> Result<Journal> {
    // Behind the last line break stands what a kill left of a line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(parse_line).collect::<Result<_>>().map(Journal)
}

fn parse_line(line: &str) -> Result<Stamped> {
    let mut words = line.split(' ');
    let at = words.next().unwrap_or_default().parse().with_context(|| format!("no time: {line:?}"))?;
    let kind = words.next().unwrap_or_default();
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().with_context(|| format!("no number: {line:?}"))?;
    let number = |index: usize| numbers.get(index).copied().with_context(|| format!("too short: {line:?}"));
    let partition = u32::try_from(number(0)?).with_context(|| format!("no partition: {line:?}"))?;
    let event = match kind {
        "assigned" => Event::Assigned { partition },
        "released" => Event::Released { partition, generation: number(1)? },
        "lost" => Event::Lost { partition },
        "began" => Event::Began { partition, offset: number(1)?, generation: number(2)?, fingerprint: number(3)? },
        "ended" => Event::Ended { partition, offset: number(1)? },
        "committed" => Event::Committed { partition, offset: number(1)?, generation: number(2)? },
        _ => bail!("no event: {line:?}"),
    };
    Ok((at, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back_and_half_a_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let events = [
            Event::Assigned { partition: 1 },
            Event::Began { partition: 1, offset: 2, generation: 3, fingerprint: u64::MAX },
            Event::Ended { partition: 1, offset: 2 },
            Event::Committed { partition: 1, offset: 3, generation: 3 },
            Event::Released { partition: 1, generation: 3 },
            Event::Lost { partition: 0 },
        ];
        let writer = Writer::create(&path).unwrap();
        events.iter().for_each(|event| writer.note(*event).unwrap());
        let read = read(&path).unwrap();
        assert_eq!(read.0.iter().map(|(_, event)| *event).collect::<Vec<_>>(), events);
        assert!(read.0.is_sorted_by_key(|(at, _)| *at));

        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(parse(&text[..text.len() - 1]).unwrap().0.len(), events.len() - 1);
        assert_eq!(parse("").unwrap().0.len(), 0);
        for bad in ["x began 1 2 3 4\n", "1 began 1 2 3\n", "1 sang 1\n", "1 lost\n", "1 lost x\n"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}

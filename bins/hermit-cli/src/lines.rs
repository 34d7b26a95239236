//! Pieces of files and standard input, read by a thread of their own so that slow input holds up nothing else.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc;

/// Bytes that are read before they are handed on.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that may wait.
const WAITING_BLOCKS: usize = 4;

/// Where a record ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Behind these bytes, of which there is at least one.
    Delimiter(Vec<u8>),
    /// With its source.
    Whole,
}

impl Split {
    pub(crate) fn line_break() -> Self {
        Self::Delimiter(b"\n".to_vec())
    }

    /// What a record is called.
    fn word(&self) -> &'static str {
        match self {
            Self::Delimiter(bytes) if bytes == b"\n" => "line",
            Self::Delimiter(_) | Self::Whole => "record",
        }
    }

    /// Splits behind the first delimiter: what stands before it, and what behind.
    fn first<'a>(&self, text: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let Self::Delimiter(delimiter) = self else { return None };
        let first = *delimiter.first()?;
        let mut from = 0;
        loop {
            let at = from + text.get(from..)?.iter().position(|byte| *byte == first)?;
            let (record, rest) = text.split_at_checked(at)?;
            if let Some(behind) = rest.strip_prefix(delimiter.as_slice()) {
                return Some((record, behind));
            }
            from = at + 1;
        }
    }

    /// How many of the last bytes may be the beginning of a delimiter.
    fn overlap(&self) -> usize {
        match self {
            Self::Delimiter(delimiter) => delimiter.len().saturating_sub(1),
            Self::Whole => 0,
        }
    }
}

/// Whole records of one source.
#[derive(Debug)]
pub(crate) struct Block {
    /// The source's name, for messages.
    source: String,
    /// The number of the first record, from 1.
    first: u64,
    /// The records, each ended by the delimiter but perhaps the last of the source.
    pub(crate) text: Vec<u8>,
}

impl Block {
    /// The records without their ends, and their numbers. Carriage returns stay: a record is what stands in the line.
    pub(crate) fn records<'a>(&'a self, split: &'a Split) -> impl Iterator<Item = (u64, &'a [u8])> {
        // A file that is one record is one also if it is empty.
        let mut rest = (!self.text.is_empty() || *split == Split::Whole).then_some(&*self.text);
        let records = std::iter::from_fn(move || {
            let text = rest?;
            match split.first(text) {
                Some((record, behind)) => {
                    rest = Some(behind).filter(|behind| !behind.is_empty());
                    Some(record)
                }
                None => rest.take(),
            }
        });
        (self.first..).zip(records)
    }

    /// Where the record of this number is, for messages.
    pub(crate) fn place(&self, number: u64, split: &Split) -> String {
        place(&self.source, number, split)
    }
}

fn place(source: &str, number: u64, split: &Split) -> String {
    match split {
        Split::Whole => source.to_owned(),
        Split::Delimiter(_) => format!("{} {number} of {source}", split.word()),
    }
}

/// Reads the files one after another; `-`, or none at all, is standard input. Ends after the first error.
pub(crate) fn read(files: Vec<PathBuf>, split: Split, max_record_bytes: u64) -> mpsc::Receiver<Result<Block>> {
    let (sender, blocks) = mpsc::channel(WAITING_BLOCKS);
    std::thread::spawn(move || {
        let standard_input = [PathBuf::from("-")];
        let files = if files.is_empty() { &standard_input[..] } else { &files };
        for file in files {
            let read = if file.as_os_str() == "-" {
                Source { name: "standard input", split: &split, max_record_bytes }.read(io::stdin().lock(), &sender)
            } else {
                let name = file.display().to_string();
                open(file).and_then(|opened| Source { name: &name, split: &split, max_record_bytes }.read(opened, &sender))
            };
            match read {
                Ok(true) => {}
                // Whoever takes the records has stopped.
                Ok(false) => return,
                Err(error) => return drop(sender.blocking_send(Err(error))),
            }
        }
    });
    blocks
}

fn open(file: &Path) -> Result<File> {
    File::open(file).with_context(|| format!("cannot read {}", file.display()))
}

struct Source<'a> {
    name: &'a str,
    split: &'a Split,
    max_record_bytes: u64,
}

impl Source<'_> {
    /// Hands on what each read brought, up to its last delimiter, so that records do not wait for more input. `false` when nobody
    /// takes them any more.
    fn read(&self, mut input: impl Read, blocks: &mpsc::Sender<Result<Block>>) -> Result<bool> {
        let mut number = 1;
        // A record without its end yet: it has no delimiter, so only what is read next needs to be searched.
        let mut begun = Vec::new();
        let mut buffer = vec![0; BLOCK_BYTES];
        loop {
            let read = match input.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.with_context(|| format!("cannot read {}", place(self.name, number, self.split)))?,
            };
            let searched = begun.len().saturating_sub(self.split.overlap());
            begun.extend_from_slice(buffer.get(..read).unwrap_or_default());
            let (ended_bytes, ended) = self.ended(&begun, searched);
            if ended > 0 || (read == 0 && (!begun.is_empty() || *self.split == Split::Whole)) {
                let next = begun.split_off(if read == 0 { begun.len() } else { ended_bytes });
                let block = Block { source: self.name.to_owned(), first: number, text: std::mem::replace(&mut begun, next) };
                number += ended;
                if blocks.blocking_send(Ok(block)).is_err() {
                    return Ok(false);
                }
            }
            if read == 0 {
                return Ok(true);
            }
            let bytes = begun.len();
            if bytes as u64 > self.max_record_bytes {
                let place = place(self.name, number, self.split);
                bail!("{place} is too long: it has {bytes} bytes or more, and the broker takes {} at most", self.max_record_bytes);
            }
        }
    }

    /// The bytes and the number of the records that have ended.
    fn ended(&self, begun: &[u8], searched: usize) -> (usize, u64) {
        let mut rest = begun.get(searched..).unwrap_or_default();
        let mut ended = (0, 0);
        while let Some((_, behind)) = self.split.first(rest) {
            rest = behind;
            ended = (begun.len() - behind.len(), ended.1 + 1);
        }
        ended
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;

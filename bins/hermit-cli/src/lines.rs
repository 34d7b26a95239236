//! Lines of files and standard input, read by a thread of their own so that slow input holds up nothing else.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc;

/// Bytes that are read before they are handed on.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that may wait.
const WAITING_BLOCKS: usize = 4;

/// Whole lines of one source.
#[derive(Debug)]
pub(crate) struct Block {
    /// The source's name, for messages.
    pub(crate) source: String,
    /// The number of the first line, from 1.
    pub(crate) first_line: u64,
    /// The lines, each ended by `\n` but perhaps the last of the source.
    pub(crate) text: Vec<u8>,
}

impl Block {
    /// The lines without their ends, and their numbers. Carriage returns stay: a record is what stands in the line.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let text = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        let empty = self.text.is_empty();
        (self.first_line..).zip(text.split(|byte| *byte == b'\n')).filter(move |_| !empty)
    }
}

/// Reads the files one after another; `-`, or none at all, is standard input. Ends after the first error.
pub(crate) fn read(files: Vec<PathBuf>, max_line_bytes: u64) -> mpsc::Receiver<Result<Block>> {
    let (sender, blocks) = mpsc::channel(WAITING_BLOCKS);
    std::thread::spawn(move || {
        let standard_input = [PathBuf::from("-")];
        let files = if files.is_empty() { &standard_input[..] } else { &files };
        for file in files {
            let read = if file.as_os_str() == "-" {
                read_source("standard input", io::stdin().lock(), max_line_bytes, &sender)
            } else {
                open(file).and_then(|opened| read_source(&file.display().to_string(), opened, max_line_bytes, &sender))
            };
            match read {
                Ok(true) => {}
                // Whoever takes the lines has stopped.
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

/// Hands on what each read brought, up to its last line break, so that lines do not wait for more input. `false` when nobody
/// takes them any more.
fn read_source(name: &str, mut input: impl Read, max_line_bytes: u64, blocks: &mpsc::Sender<Result<Block>>) -> Result<bool> {
    let mut line = 1;
    // A line without its end yet: it has no line break, so only what is read next needs to be searched.
    let mut begun = Vec::new();
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        let read = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.with_context(|| format!("cannot read {name}, line {line}"))?,
        };
        let fresh = buffer.get(..read).unwrap_or_default();
        let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (ended, next) = fresh.split_at_checked(whole).unwrap_or((fresh, &[]));
        if read == 0 || !ended.is_empty() {
            let first_line = line;
            line += ended.iter().filter(|byte| **byte == b'\n').count() as u64;
            let mut text = std::mem::take(&mut begun);
            text.extend_from_slice(ended);
            if !text.is_empty() && blocks.blocking_send(Ok(Block { source: name.to_owned(), first_line, text })).is_err() {
                return Ok(false);
            }
        }
        if read == 0 {
            return Ok(true);
        }
        begun.extend_from_slice(next);
        let bytes = begun.len();
        if bytes as u64 > max_line_bytes {
            bail!("line {line} of {name} is too long: it has {bytes} bytes or more, and the broker takes {max_line_bytes} at most");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines_of(content: &[u8], max_line_bytes: u64) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut blocks = read(vec![file.path().to_owned()], max_line_bytes);
        let mut lines = Vec::new();
        while let Some(block) = blocks.blocking_recv() {
            lines.extend(block?.lines().map(|(number, line)| (number, line.to_vec())));
        }
        Ok(lines)
    }

    #[test]
    fn every_line_is_a_record_byte_for_byte() {
        let lines = lines_of(b"a\n\n\xFF\x00\r\nlast", 100).unwrap();
        assert_eq!(lines, [(1, b"a".to_vec()), (2, vec![]), (3, vec![0xFF, 0, b'\r']), (4, b"last".to_vec())]);
        assert_eq!(lines_of(b"a\n", 100).unwrap(), [(1, b"a".to_vec())]);
        assert_eq!(lines_of(b"\n", 100).unwrap(), [(1, vec![])]);
        assert_eq!(lines_of(b"", 100).unwrap(), []);
    }

    #[test]
    fn line_numbers_go_on_over_blocks() {
        let content = b"0123456789\n".repeat(100_000);
        let lines = lines_of(&content, 100).unwrap();
        assert_eq!(lines.len(), 100_000);
        assert!(lines.iter().zip(1..).all(|((number, line), expected)| *number == expected && line == b"0123456789"));
    }

    #[test]
    fn a_line_that_is_too_long_is_named() {
        assert!(lines_of(b"ok\n12345", 5).is_ok());
        let error = lines_of(b"ok\n123456", 5).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("line 2 of "), "{error}");
        assert!(error.ends_with(" is too long: it has 6 bytes or more, and the broker takes 5 at most"), "{error}");
    }

    /// Gives a little at each read, as a pipe does.
    struct Trickle<R>(R);

    impl<R: Read> Read for Trickle<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(4096);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn a_long_line_in_small_reads_takes_time_in_proportion() {
        const LIMIT: u64 = 50 << 20;
        let begun = tokio::time::Instant::now();
        let (sender, mut blocks) = mpsc::channel(WAITING_BLOCKS);
        let input = io::repeat(b'x').take(40 << 20).chain(&b"\nnext"[..]);
        assert!(read_source("x", Trickle(input), LIMIT, &sender).unwrap());
        let first = blocks.blocking_recv().unwrap().unwrap();
        assert_eq!((first.first_line, first.text.len()), (1, (40 << 20) + 1));
        let second = blocks.blocking_recv().unwrap().unwrap();
        assert_eq!((second.first_line, &second.text[..]), (2, &b"next"[..]));

        // A line without end is refused as soon as it is over the limit.
        let error = read_source("x", Trickle(io::repeat(b'x')), LIMIT, &sender).unwrap_err();
        assert!(error.to_string().starts_with("line 1 of x is too long: it has 52432896 bytes or more"), "{error}");
        // Searching all of it again after each read would take many minutes.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(vec!["/no/such/file".into()], 5).blocking_recv().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "cannot read /no/such/file");
    }
}

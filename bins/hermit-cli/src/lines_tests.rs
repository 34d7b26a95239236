use super::*;
use std::io::Write;

fn records_of(content: &[u8], split: &Split, max_record_bytes: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    let mut blocks = read(vec![file.path().to_owned()], split.clone(), max_record_bytes);
    let mut records = Vec::new();
    while let Some(block) = blocks.blocking_recv() {
        records.extend(block?.records(split).map(|(number, record)| (number, record.to_vec())));
    }
    Ok(records)
}

fn lines_of(content: &[u8], max_line_bytes: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    records_of(content, &Split::line_break(), max_line_bytes)
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
fn other_delimiters_and_whole_files() {
    let bytes = |records: Vec<(u64, Vec<u8>)>| records.into_iter().map(|(_, record)| record).collect::<Vec<_>>();
    let at = |delimiter: &[u8]| Split::Delimiter(delimiter.to_vec());
    assert_eq!(bytes(records_of(b"a\nb\0c\0\0", &at(b"\0"), 9).unwrap()), [&b"a\nb"[..], b"c", b""]);
    assert_eq!(bytes(records_of(b"a--b---c", &at(b"--"), 9).unwrap()), [&b"a"[..], b"b", b"-c"]);
    assert_eq!(bytes(records_of(b"\0\n\xFF\n", &Split::Whole, 9).unwrap()), [b"\0\n\xFF\n"]);
    assert_eq!(bytes(records_of(b"", &Split::Whole, 9).unwrap()), [b""]);
    let error = records_of(b"0123456789", &Split::Whole, 9).unwrap_err().to_string();
    assert!(error.contains(" is too long: it has 10 bytes"), "{error}");
}

/// Gives a little at each read, as a pipe does.
struct Trickle<R>(R, usize);

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.1);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn a_delimiter_that_two_reads_share_is_found() {
    let split = Split::Delimiter(b"<=>".to_vec());
    let content = b"a<=>b<=<=>=>c<=>";
    for step in 1..content.len() {
        let (sender, mut blocks) = mpsc::channel(100);
        let source = Source { name: "x", split: &split, max_record_bytes: 100 };
        assert!(source.read(Trickle(&content[..], step), &sender).unwrap());
        drop(sender);
        let (mut records, mut count) = (Vec::new(), 0);
        while let Some(block) = blocks.blocking_recv() {
            let block = block.unwrap();
            count += 1;
            records.extend(block.records(&split).map(|(number, record)| (number, record.to_vec())));
        }
        assert_eq!(records, [(1, b"a".to_vec()), (2, b"b<=".to_vec()), (3, b"=>c".to_vec())], "{step} bytes at a time");
        // None waits for what comes after it.
        assert!(step > 1 || count == 3, "{count} blocks");
    }
}

#[test]
fn a_line_that_is_too_long_is_named() {
    assert!(lines_of(b"ok\n12345", 5).is_ok());
    let error = lines_of(b"ok\n123456", 5).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("line 2 of "), "{error}");
    assert!(error.ends_with(" is too long: it has 6 bytes or more, and the broker takes 5 at most"), "{error}");
}

#[test]
fn a_long_line_in_small_reads_takes_time_in_proportion() {
    const LIMIT: u64 = 50 << 20;
    let begun = tokio::time::Instant::now();
    let (sender, mut blocks) = mpsc::channel(WAITING_BLOCKS);
    let input = io::repeat(b'x').take(40 << 20).chain(&b"\nnext"[..]);
    let split = Split::line_break();
    let source = Source { name: "x", split: &split, max_record_bytes: LIMIT };
    assert!(source.read(Trickle(input, 4096), &sender).unwrap());
    let first = blocks.blocking_recv().unwrap().unwrap();
    assert_eq!((first.first, first.text.len()), (1, (40 << 20) + 1));
    let second = blocks.blocking_recv().unwrap().unwrap();
    assert_eq!((second.first, &second.text[..]), (2, &b"next"[..]));

    // A line without end is refused as soon as it is over the limit.
    let error = source.read(Trickle(io::repeat(b'x'), 4096), &sender).unwrap_err();
    assert!(error.to_string().starts_with("line 1 of x is too long: it has 52432896 bytes or more"), "{error}");
    // Searching all of it again after each read would take many minutes.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(vec!["/no/such/file".into()], Split::Whole, 5).blocking_recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "cannot read /no/such/file");
}

//! The event stream that is sent: the lines of a CSV file, with the key that a column holds.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;

/// One line of the file, without its line break, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What the key column holds.
    pub key: Bytes,
    /// The whole line.
    pub text: Bytes,
}

/// Reads the lines behind the header line, at most `limit` of them. `column` counts from 1. A name ending in `.gz` is unpacked.
///
/// The file is plain CSV: no field of it is quoted.
///
/// # Errors
///
/// When the file cannot be read, or a line has no such column.
pub fn read_csv(path: &Path, column: usize, limit: Option<usize>) -> Result<Vec<Line>> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(BufReader::new(file)).read_to_end(&mut bytes)
    } else {
        BufReader::new(file).read_to_end(&mut bytes)
    }
    .with_context(|| format!("{} cannot be read", path.display()))?;
    parse(Bytes::from(bytes), column, limit).with_context(|| path.display().to_string())
}

fn parse(bytes: Bytes, column: usize, limit: Option<usize>) -> Result<Vec<Line>> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().skip(1).filter(|(_, line)| !line.is_empty());
    let parsed = lines.take(limit.unwrap_or(usize::MAX)).map(|(at, line)| {
        let Some(key) = column.checked_sub(1).and_then(|column| line.split(|byte| *byte == b',').nth(column)) else {
            bail!("line {} has no column {column}", at + 1);
        };
        Ok(Line { key: bytes.slice_ref(key), text: bytes.slice_ref(line) })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_left_out_and_the_last_line_needs_no_break() {
        let lines = parse(Bytes::from_static(b"a,b\n1,x\n2,y"), 2, None).unwrap();
        let expected = [("x", "1,x"), ("y", "2,y")].map(|(key, text)| Line { key: key.into(), text: text.into() });
        assert_eq!(lines, expected);
        assert_eq!(parse(Bytes::from_static(b"a,b\n1,x\n2,y\n"), 2, Some(1)).unwrap(), expected[..1]);
    }

    #[test]
    fn a_line_without_the_column_is_an_error_with_its_number() {
        for column in [0, 3] {
            let error = parse(Bytes::from_static(b"a,b\n1,x\n"), column, None).unwrap_err();
            assert!(error.to_string().starts_with("line 2 has no column"), "{error}");
        }
    }
}

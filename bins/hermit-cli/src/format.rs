//! Formats in kcat's manner.

use std::io::{self, Write};
use std::str::FromStr;

use hermit_client::Record;

use crate::escape::escape;

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    TimestampMs,
    Key,
    KeySize,
    Value,
    ValueSize,
    Headers,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(format: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => pieces.push(directive(characters.next())?),
                '\\' => {
                    let byte = escape(&mut characters)?;
                    push_text(&mut pieces, &[byte]);
                }
                other => push_text(&mut pieces, other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Ok(Self(pieces))
    }
}

fn push_text(pieces: &mut Vec<Piece>, bytes: &[u8]) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.extend_from_slice(bytes),
        _ => pieces.push(Piece::Text(bytes.to_vec())),
    }
}

fn directive(letter: Option<char>) -> Result<Piece, String> {
    Ok(match letter {
        Some('t') => Piece::Topic,
        Some('p') => Piece::Partition,
        Some('o') => Piece::Offset,
        Some('T') => Piece::TimestampMs,
        Some('k') => Piece::Key,
        Some('K') => Piece::KeySize,
        Some('s') => Piece::Value,
        Some('S') => Piece::ValueSize,
        Some('h') => Piece::Headers,
        Some('%') => Piece::Text(b"%".to_vec()),
        Some(other) => return Err(format!("%{other} is not known; there are %t %p %o %T %k %K %s %S %h %%")),
        None => return Err("a single % at the end; write %% for a percent sign".to_owned()),
    })
}

impl Format {
    /// Writes a record; keys, values and headers byte for byte, and nothing for those that are not there.
    pub(crate) fn write(&self, record: &Record, out: &mut impl Write) -> io::Result<()> {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.write_all(text)?,
                Piece::Topic => out.write_all(record.topic.as_bytes())?,
                Piece::Partition => write!(out, "{}", record.partition)?,
                Piece::Offset => write!(out, "{}", record.offset)?,
                Piece::TimestampMs => write!(out, "{}", record.timestamp / 1_000_000)?,
                Piece::Key => out.write_all(record.key.as_deref().unwrap_or_default())?,
                Piece::KeySize => write_size(record.key.as_deref(), out)?,
                Piece::Value => out.write_all(record.value.as_deref().unwrap_or_default())?,
                Piece::ValueSize => write_size(record.value.as_deref(), out)?,
                Piece::Headers => write_headers(record, out)?,
            }
        }
        Ok(())
    }
}

fn write_size(bytes: Option<&[u8]>, out: &mut impl Write) -> io::Result<()> {
    match bytes {
        Some(bytes) => write!(out, "{}", bytes.len()),
        None => out.write_all(b"-1"),
    }
}

fn write_headers(record: &Record, out: &mut impl Write) -> io::Result<()> {
    for (at, (name, value)) in record.headers.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        out.write_all(name.as_bytes())?;
        if let Some(value) = value {
            out.write_all(b"=")?;
            out.write_all(value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(format: &str) -> Result<Vec<Piece>, String> {
        format.parse().map(|Format(pieces)| pieces)
    }

    #[test]
    fn directives_and_escapes_are_told_from_text() {
        let text = |bytes: &[u8]| Piece::Text(bytes.to_vec());
        assert_eq!(
            parse(r"%t[%p]:%o@%T\t%k=%s\n"),
            Ok(vec![
                Piece::Topic,
                text(b"["),
                Piece::Partition,
                text(b"]:"),
                Piece::Offset,
                text(b"@"),
                Piece::TimestampMs,
                text(b"\t"),
                Piece::Key,
                text(b"="),
                Piece::Value,
                text(b"\n"),
            ])
        );
        assert_eq!(parse(r"\x00\xFFé\\"), Ok(vec![text(&[0, 0xFF, 0xC3, 0xA9, b'\\'])]));
        assert_eq!(parse("100%%"), Ok(vec![text(b"100"), text(b"%")]));
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn mistakes_are_named() {
        for (format, part) in
            [("%", "single %"), ("%y", "%y"), ("\\", r"single \"), (r"\q", r"\q"), (r"\x4", "two"), (r"\xzz", "zz")]
        {
            let error = parse(format).unwrap_err();
            assert!(error.contains(part), "{format}: {error}");
        }
    }
}

//! Files that settings name and that are read as a whole.

use std::io::{self, Read as _};

/// Reads a file to its end, if that comes before `most` bytes. Otherwise it is told that it may not be `what`.
pub(crate) fn read_small(file: std::fs::File, most: u64, what: &str) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes: is it {what}?")));
    }
    Ok(text)
}

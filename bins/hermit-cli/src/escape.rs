//! Bytes as people write them on a command line.

use std::str::Chars;

/// Text with `\n`, `\t`, `\r`, `\0`, `\\` and `\xHH`, as bytes.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => bytes.push(escape(&mut characters)?),
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(bytes)
}

/// The byte that an escape stands for, from behind its backslash.
pub(crate) fn escape(characters: &mut Chars<'_>) -> Result<u8, String> {
    Ok(match characters.next() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('r') => b'\r',
        Some('0') => 0,
        Some('\\') => b'\\',
        Some('x') => {
            let digits: String = characters.take(2).collect();
            if digits.len() != 2 {
                return Err(r"\x needs two hexadecimal digits".to_owned());
            }
            let byte = u8::from_str_radix(&digits, 16).ok().filter(|_byte| !digits.contains('+'));
            byte.ok_or_else(|| format!(r"\x{digits} is not hexadecimal"))?
        }
        Some(other) => return Err(format!(r"\{other} is not known; there are \n \t \r \0 \\ \xHH")),
        None => return Err(r"a single \ at the end; write \\ for a backslash".to_owned()),
    })
}

/// Bytes of which there is at least one.
pub(crate) fn unescape_some(text: &str) -> Result<Vec<u8>, String> {
    let bytes = unescape(text)?;
    if bytes.is_empty() { Err("it is empty".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(r"\x1e\0é\\n\n"), Ok(vec![0x1E, 0, 0xC3, 0xA9, b'\\', b'n', b'\n']));
        assert_eq!(unescape(""), Ok(vec![]));
        for bad in ["\\", r"\q", r"\x4", r"\xzz", r"\x+1"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
        assert!(unescape_some("").is_err());
    }
}

//! The key of a line.

use std::fmt;

/// Where the key stands in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyRule {
    /// There is none.
    None,
    /// Before the first separator; the value stands behind it.
    Separator(Vec<u8>),
    /// In this column of CSV, from 1; the value is the whole line.
    Column(usize),
}

/// A line that has no such column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoColumn {
    pub(crate) wanted: usize,
    pub(crate) found: usize,
}

impl fmt::Display for NoColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.found == 1 { "" } else { "s" };
        write!(f, "has {} column{plural}, and no column {}", self.found, self.wanted)
    }
}

/// A key that is not the same as in the line is put together in `unquoted`.
impl KeyRule {
    /// Key and value of a line without its line break.
    pub(crate) fn apply<'a>(&self, line: &'a [u8], unquoted: &'a mut Vec<u8>) -> Result<(Option<&'a [u8]>, &'a [u8]), NoColumn> {
        match self {
            Self::None => Ok((None, line)),
            Self::Separator(separator) => {
                let at = line.windows(separator.len()).position(|window| window == separator);
                let split = at.and_then(|at| Some((line.get(..at)?, line.get(at + separator.len()..)?)));
                Ok(split.map_or((None, line), |(key, value)| (Some(key), value)))
            }
            Self::Column(wanted) => csv_field(line, *wanted, unquoted).map(|key| (Some(key), line)),
        }
    }
}

/// A field by RFC 4180: a quoted one may hold commas, and quotes written twice.
fn csv_field<'a>(line: &'a [u8], wanted: usize, unquoted: &'a mut Vec<u8>) -> Result<&'a [u8], NoColumn> {
    // Files from elsewhere end their lines with CR LF; the CR belongs to no field.
    let mut rest = line.strip_suffix(b"\r").unwrap_or(line);
    let mut found = 1;
    loop {
        let end = field_end(rest);
        let (field, behind) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        if found == wanted {
            return Ok(unquote(field, unquoted));
        }
        match behind {
            [b',', next @ ..] => rest = next,
            _ => return Err(NoColumn { wanted, found }),
        }
        found += 1;
    }
}

/// Where the field at the start of `rest` ends: at a comma outside quotes, or with the line.
fn field_end(rest: &[u8]) -> usize {
    if rest.first() != Some(&b'"') {
        return rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
    }
    let mut quoted = false;
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            // A doubled quote ends and begins again, with nothing in between.
            b'"' => quoted = !quoted,
            b',' if !quoted => return at,
            _ => {}
        }
    }
    rest.len()
}

fn unquote<'a>(field: &'a [u8], unquoted: &'a mut Vec<u8>) -> &'a [u8] {
    let Some(inner) = field.strip_prefix(b"\"") else { return field };
    let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
    if !inner.contains(&b'"') {
        return inner;
    }
    unquoted.clear();
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b'"' {
            bytes.next_if_eq(&b'"');
        }
        unquoted.push(byte);
    }
    unquoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(line: &str, wanted: usize) -> Result<String, NoColumn> {
        let mut unquoted = Vec::new();
        let (key, value) = KeyRule::Column(wanted).apply(line.as_bytes(), &mut unquoted)?;
        assert_eq!(value, line.as_bytes());
        Ok(String::from_utf8(key.unwrap().to_vec()).unwrap())
    }

    #[test]
    fn a_separator_splits_once() {
        let rule = KeyRule::Separator(b"::".to_vec());
        let mut unquoted = Vec::new();
        assert_eq!(rule.apply(b"k::v::w", &mut unquoted), Ok((Some(&b"k"[..]), &b"v::w"[..])));
        assert_eq!(rule.apply(b"::v", &mut unquoted), Ok((Some(&b""[..]), &b"v"[..])));
        assert_eq!(rule.apply(b"k::", &mut unquoted), Ok((Some(&b"k"[..]), &b""[..])));
        assert_eq!(rule.apply(b"k:v", &mut unquoted), Ok((None, &b"k:v"[..])));
        assert_eq!(rule.apply(b"", &mut unquoted), Ok((None, &b""[..])));
    }

    #[test]
    fn columns_count_from_one() {
        assert_eq!(column("2013,1,UA,N14228", 3).as_deref(), Ok("UA"));
        assert_eq!(column("2013,1,UA,N14228", 4).as_deref(), Ok("N14228"));
        assert_eq!(column("a,,c", 2).as_deref(), Ok(""));
        assert_eq!(column("a,b,", 3).as_deref(), Ok(""));
        assert_eq!(column("", 1).as_deref(), Ok(""));
        assert_eq!(column("a,b\r", 2).as_deref(), Ok("b"));
        assert_eq!(column("a,b", 3), Err(NoColumn { wanted: 3, found: 2 }));
    }

    #[test]
    fn quoted_fields_hold_commas_and_quotes() {
        assert_eq!(column(r#""Newark, NJ",x"#, 1).as_deref(), Ok("Newark, NJ"));
        assert_eq!(column(r#""Newark, NJ",x"#, 2).as_deref(), Ok("x"));
        assert_eq!(column(r#"1,"say ""hi"", twice",x"#, 2).as_deref(), Ok(r#"say "hi", twice"#));
        assert_eq!(column(r#"1,"say ""hi"", twice",x"#, 3).as_deref(), Ok("x"));
        assert_eq!(column(r#""""","b""#, 1).as_deref(), Ok(r#"""#));
        assert_eq!(column(r#"5" disk,x"#, 1).as_deref(), Ok(r#"5" disk"#));
        // Never closed: it goes on to the end of the line, since a record is a line.
        assert_eq!(column(r#""open,x"#, 1).as_deref(), Ok("open,x"));
    }
}

//! Printing answers: aligned columns for people.

use std::borrow::Cow;
use std::io::{self, Write};

/// A table's first row.
pub(crate) fn headings<const N: usize>(columns: [&str; N]) -> Vec<Vec<String>> {
    vec![columns.map(str::to_owned).to_vec()]
}

/// Prints rows with their columns aligned, two blanks apart. Nothing stands behind the last column.
pub(crate) fn table(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A text of somebody else's, such as a name that a broker tells, without what would steer a terminal or turn the order of letters round.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| if steers(character) { char::REPLACEMENT_CHARACTER } else { character }).collect())
}

/// Control characters, and those that set the direction of a text.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `1 record`, `2 records`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_named_steers_no_terminal() {
        let rows = [["a\u{1b}[2Jb\n\u{9b}".to_owned(), "\u{202e}ö\u{2066}".to_owned()].to_vec()];
        let mut out = Vec::new();
        table(&mut out, &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\u{fffd}[2Jb\u{fffd}\u{fffd}  \u{fffd}ö\u{fffd}\n");
        assert!(matches!(clean("günstig"), Cow::Borrowed(_)));
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [["a", "bb", "c"], ["äöü", "b", ""]].map(|row| row.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        table(&mut out, &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a    bb  c\näöü  b\n");
    }
}

//! Where something stands in a file, and how a piece of it is shown.

/// The longest piece of a value that is shown.
const SHOWN_CHARACTERS: usize = 60;

/// Line and column of the byte at `position`; both count from 1, the column in characters.
#[must_use]
pub fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let before = text.get(..position).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// A value that somebody has given, as it is told: on one line, and not without end.
#[must_use]
pub fn excerpt(value: &str) -> String {
    let mut characters = value.chars();
    let shown: String = characters.by_ref().take(SHOWN_CHARACTERS).flat_map(plain).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

fn plain(character: char) -> impl Iterator<Item = char> {
    let escaped = character.is_control().then(|| character.escape_default());
    escaped.into_iter().flatten().chain((!character.is_control()).then_some(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_in_characters() {
        let text = "a\nöö b\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, text.find('b').unwrap()), (2, 4));
        // Behind the end, and within a character.
        assert_eq!(line_and_column(text, 99), (3, 1));
        assert_eq!(line_and_column(text, 3), (3, 1));
    }

    #[test]
    fn values_are_shown_on_one_line_and_not_without_end() {
        assert_eq!(excerpt("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(excerpt(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
    }
}

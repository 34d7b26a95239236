//! What clients call themselves.

/// Bytes of a client's name that are kept.
const CLIENT_NAME_BYTES: usize = 255;

/// A client's name as it may stand in logs, lists and terminals.
pub(crate) fn printable(name: &str) -> String {
    let end = name.floor_char_boundary(CLIENT_NAME_BYTES);
    let shown = name.get(..end).unwrap_or_default();
    shown.chars().map(|character| if is_unseen(character) { char::REPLACEMENT_CHARACTER } else { character }).collect()
}

/// Control characters, and those that change the order in which others are shown.
fn is_unseen(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clients_are_made_printable() {
        assert_eq!(printable("my app/1.0 ä"), "my app/1.0 ä");
        assert_eq!(printable("a\nb\x1b[2Jc\u{202e}d"), "a\u{fffd}b\u{fffd}[2Jc\u{fffd}d");
        assert_eq!(printable(&"ä".repeat(200)).len(), 254);
    }
}

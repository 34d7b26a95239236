//! The settings file: TOML. Everything that is wrong with it is found at once, with line, column and the nearest valid name.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::finding::{Origin, excerpt};
use super::gather::Gathered;
use super::names;
use super::value::{Raw, whole};

/// Takes what the text of the file that is called `path` says.
pub(super) fn take(path: &str, text: &str, gathered: &mut Gathered) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let at = |span: Option<Range<usize>>| place(path, text, span.map_or(0, |span| span.start));
    let (table, mut errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
        for error in errors {
            gathered.findings.add(at(error.span()), error.message().trim_end());
        }
        // What the parser made of the rest is guesswork.
        return;
    }
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let known = names::known();
    for (key, value) in entries {
        let (name, value_span) = (key.get_ref().as_ref(), value.span());
        let source = text.get(value_span.clone()).unwrap_or_default();
        let (place, value_place) = (at(Some(key.span())), at(Some(value_span)));
        let value = value.get_ref();
        if known.iter().any(|known| known == name) {
            gathered.take(name, Raw::Toml(value), value_place, source);
        } else if let Some((setting, unit)) = names::formerly(name) {
            match whole(value) {
                Some(number) => gathered.take(setting.name, Raw::Text(&format!("{number}{unit}")), value_place, source),
                None => gathered.take(setting.name, Raw::Toml(value), value_place, source),
            }
            gathered.note_former(&place, name, setting, unit);
        } else {
            gathered.findings.add(place, unknown(name, value, &known));
        }
    }
}

fn unknown(name: &str, value: &DeValue<'_>, known: &[String]) -> String {
    let name = excerpt(name);
    match value.as_table() {
        // As `http.listen`, or below a header in brackets.
        Some(_) => format!("`{name}` is a table: settings stand by themselves, without tables and dots in their names"),
        None => format!("`{name}` is no setting; {}", names::hint(&name, known)),
    }
}

/// Line and column of the byte at `position`.
pub(super) fn place(path: &str, text: &str, position: usize) -> Origin {
    let (line, column) = hermit_settings::line_and_column(text, position);
    Origin::File { path: path.to_owned(), line, column }
}

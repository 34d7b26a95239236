//! The settings file: TOML, refused with file, line and the nearest valid name.

use std::ops::Range;

use anyhow::{anyhow, bail};
use toml::de::DeTable;

use super::names;
use super::table::Given;

/// Parses the text of the file that is called `path`.
pub(super) fn parse(path: &str, text: &str) -> anyhow::Result<Given> {
    let at = |span: Option<Range<usize>>| format!("{path}:{}", line(text, span.map_or(0, |span| span.start)));
    let refuse = |error: toml::de::Error| anyhow!("{}: {}", at(error.span()), with_nearest(error.message()));
    let table = DeTable::parse(text).map_err(refuse)?;
    let refuse_value = |error: toml::de::Error| {
        let span = error.span().unwrap_or_default();
        let key = table.get_ref().iter().find(|(_, value)| value.span().contains(&span.start)).map(|(key, _)| key.get_ref());
        let key = key.map(|key| format!("`{key}`: ")).unwrap_or_default();
        let message = with_nearest(error.message());
        let message =
            ["usize", "u64", "u32"].iter().fold(message, |text, kind| match text.strip_suffix(&format!("expected {kind}")) {
                Some(before) => format!("{before}expected a whole number from 0 on"),
                None => text,
            });
        anyhow!("{}: {key}{message}", at(Some(span)))
    };
    let known = names::known();
    for key in table.get_ref().keys() {
        let name = key.get_ref();
        if !known.iter().any(|known| known == name.as_ref()) {
            let hint = match names::nearest(name, &known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`hermitd --help` lists them".to_owned(),
            };
            bail!("{}: `{name}` is no setting; {hint}", at(Some(key.span())));
        }
    }
    toml::from_str(text).map_err(refuse_value)
}

/// The line on which a setting is given, in a file that has been parsed.
pub(super) fn line_of(setting: &str, text: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let key = table.get_ref().keys().find(|key| key.get_ref() == setting)?;
    Some(line(text, key.span().start))
}

/// The number of the line of the byte at `position`.
fn line(text: &str, position: usize) -> usize {
    text.as_bytes().iter().take(position).filter(|byte| **byte == b'\n').count() + 1
}

/// Names the nearest of the values that the message lists in backquotes behind the wrong one.
fn with_nearest(message: &str) -> String {
    let quoted: Vec<String> = message.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    match quoted.split_first() {
        Some((wrong, allowed)) if message.starts_with("unknown variant") => match names::nearest(wrong, allowed) {
            Some(meant) => format!("{message}; did you mean `{meant}`?"),
            None => message.to_owned(),
        },
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse("h.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_mis_spelt_name_is_refused_with_its_line_and_the_nearest() {
        assert_eq!(
            refusal("listen = \"127.0.0.1:0\"\n\nretention_age_hrs = 1\n"),
            "h.toml:3: `retention_age_hrs` is no setting; did you mean `retention_age_ms`?"
        );
        assert_eq!(refusal("colour = 1\n"), "h.toml:1: `colour` is no setting; `hermitd --help` lists them");
    }

    #[test]
    fn a_value_that_is_none_is_refused_with_its_line() {
        let message = refusal("# durability\ndurability = \"snyc\"\n");
        assert!(
            message.starts_with("h.toml:2: `durability`: unknown variant `snyc`") && message.ends_with("did you mean `sync`?"),
            "{message}"
        );
        let message = refusal("threads = 2\nsegment_bytes = \"big\"\n");
        assert!(
            message.starts_with("h.toml:2: `segment_bytes`: ") && message.ends_with("expected a whole number from 0 on"),
            "{message}"
        );
        assert!(refusal("listen = \n").starts_with("h.toml:1: "));
    }

    #[test]
    fn every_setting_can_be_in_the_file() {
        for name in names::known() {
            assert_eq!(line_of(&name, &format!("# mine\n{name} = 1")), Some(2));
            let accepted = ["1", "\"x\"", "true", "\"sync\"", "\"auto\"", "\"off\"", "\"optional\""]
                .iter()
                .any(|value| parse("f", &format!("{name} = {value}")).is_ok());
            assert!(accepted, "{name}");
        }
    }
}

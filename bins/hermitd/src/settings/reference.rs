//! The manual's table of settings, made from the table in the code.

use super::Settings;
use super::gather::Gathered;
use super::table::settings;

/// All settings with their defaults, ranges, and when a change counts, in Markdown.
pub(super) fn reference() -> String {
    let defaults: Settings = Gathered::default().settle();
    let in_force = defaults.in_force(&defaults.broker);
    let mut table = String::from("| setting | default | meaning | a change counts |\n| --- | --- | --- | --- |\n");
    for setting in settings() {
        let default = in_force.iter().find(|(name, _)| *name == setting.name).and_then(|(_, value)| value.clone());
        let default = default.map_or_else(|| "none".to_owned(), |value| format!("`{value}`"));
        let range = match &setting.range {
            Some((least, Some(most))) => format!(" From `{least}` to `{most}`."),
            Some((least, None)) if *least != "1" && *least != "\"1ms\"" => format!(" At least `{least}`."),
            _ => String::new(),
        };
        let per_topic = if setting.is_per_topic { " Topics can have their own." } else { "" };
        let (name, meaning, change) = (setting.name, setting.meaning, setting.change.told());
        table.push_str(&format!("| `{name}` | {default} | {meaning}{range}{per_topic} | {change} |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BEGIN: &str = "<!-- settings: made by the tests of hermitd; UPDATE_DOCS=1 cargo test -p hermitd writes it anew -->\n";
    const END: &str = "<!-- end of settings -->\n";

    #[test]
    fn the_manual_has_every_setting_as_the_code_has_it() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (found, after) = rest.split_once(END).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, format!("{before}{BEGIN}\n{}\n{END}{after}", reference())).unwrap();
        } else {
            assert_eq!(found.trim(), reference().trim(), "run `UPDATE_DOCS=1 cargo test -p hermitd`");
        }
    }
}

//! The settings in force, as `hermitd config` prints them: what was given, and the defaults of all the rest, each with where it comes from.

use serde_json::{Map, Value, json};

use super::finding::Origin;
use super::first_administrator;
use super::table::settings;
use super::{Settings, names};

/// The column of the comments, where a value leaves room.
const COMMENTS_AT: usize = 48;

impl Settings {
    /// A settings file that says the same.
    pub(super) fn to_toml(&self) -> String {
        let mut text = format!("# The settings of hermitd {} in force, and where each comes from.\n", env!("CARGO_PKG_VERSION"));
        for (name, value) in self.in_force(&self.broker) {
            let origin = self.origins.of(name);
            let line = match value {
                Some(value) => {
                    let assignment = format!("{name} = {value}");
                    format!("{assignment:COMMENTS_AT$} # {}", one_line(&origin.to_string()))
                }
                None => format!("# {name} is not set"),
            };
            text.push_str(&line);
            text.push('\n');
        }
        if self.broker.access.enabled {
            let told = one_line(&first_administrator::told(&self.broker.access.first_administrator));
            text.push_str(&format!("# {told}\n"));
        }
        text
    }

    /// One object: `settings`, each with `name`, `value` (null where there is none), `origin` and `changes`.
    pub(super) fn to_json(&self) -> String {
        let table = settings();
        let told = self.in_force(&self.broker).into_iter().map(|(name, value)| {
            let change = table.iter().find(|setting| setting.name == name).map(|setting| setting.change.told());
            json!({
                "name": name,
                "value": value.map_or(Value::Null, |value| value_in_json(&value)),
                "origin": origin_in_json(name, &self.origins.of(name)),
                "changes": change,
            })
        });
        let whole = json!({ "version": env!("CARGO_PKG_VERSION"), "settings": told.collect::<Vec<_>>() });
        format!("{whole:#}\n")
    }
}

/// A value of the settings file, in JSON.
fn value_in_json(value: &str) -> Value {
    let read = toml::from_str::<Map<String, Value>>(&format!("value = {value}\n"));
    read.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(value.to_owned()))
}

fn origin_in_json(setting: &str, origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "kind": "default" }),
        Origin::File { path, line, column } => json!({ "kind": "file", "path": path, "line": line, "column": column }),
        Origin::Variable(_) => json!({ "kind": "environment", "variable": names::variable(setting) }),
        Origin::Flag(_) => json!({ "kind": "flag", "flag": names::flag(setting) }),
    }
}

/// Without what would end a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

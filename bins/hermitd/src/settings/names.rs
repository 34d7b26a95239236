//! Names of settings, and the ones that were probably meant.

pub(super) use hermit_settings::nearest;

use super::table::{Setting, settings};

/// What the environment variables of settings begin with.
pub(super) const PREFIX: &str = "HERMITD_";

/// All names of settings, as in the file.
pub(super) fn known() -> Vec<String> {
    settings().iter().map(|setting| setting.name.to_owned()).collect()
}

/// The setting that had this name before values had units, and the unit that its numbers were in.
pub(super) fn formerly(name: &str) -> Option<(&'static Setting, &'static str)> {
    let found = settings().iter().find(|setting| setting.former.is_some_and(|(former, _)| former == name))?;
    let (_, unit) = found.former?;
    Some((found, unit))
}

/// What to say of a name that is none.
pub(super) fn hint(name: &str, known: &[String]) -> String {
    match nearest(name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`hermitd config --reference` lists them".to_owned(),
    }
}

/// The environment variable of a setting.
pub(super) fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.to_uppercase())
}

/// The flag of a setting.
pub(super) fn flag(setting: &str) -> String {
    format!("--{}", setting.replace('_', "-"))
}

/// `a, b or c`.
pub(super) fn one_of(words: &[String]) -> String {
    match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_nothing_that_is_far_off() {
        for (name, meant) in [
            ("retention_hrs", Some("retention_age")),
            ("retention_age_hrs", Some("retention_age")),
            ("maxconnections", Some("max_connections")),
            ("heartbeat", Some("heartbeat_interval")),
            ("colour", None),
            ("max", None),
        ] {
            assert_eq!(nearest(name, &known()), meant, "{name}");
        }
    }
}

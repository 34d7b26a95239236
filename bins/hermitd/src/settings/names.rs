//! Names of settings, and the ones that were probably meant.

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

/// The known name that differs least, if it is near enough to have been meant.
pub(super) fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let letters = name.chars().count();
    // Of a short name half the letters must be right.
    let near = (letters / 3).max(2).min(letters / 2);
    let distances = known.iter().map(|candidate| (distance(name, candidate), candidate.as_str()));
    let near = distances.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= near);
    near.map(|(_, nearest)| nearest).or_else(|| only_with_more(name, known))
}

/// The only known name that has a word more, such as a unit, or a word less.
fn only_with_more<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let begins = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'));
    let mut found = known.iter().filter(|candidate| begins(candidate, name) || begins(name, candidate));
    found.next().filter(|_first| found.next().is_none()).map(String::as_str)
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

/// Letters to be changed, put in or left out to make one of the other (Levenshtein). Long names are compared by their beginnings: what is given may be of any length.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 100;
    let b: Vec<char> = b.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().take(LONGEST).enumerate() {
        let mut diagonal = i;
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
        for (j, to) in b.iter().enumerate() {
            let (left, above) = (row.get(j).copied().unwrap_or(0), row.get(j + 1).copied().unwrap_or(0));
            let best = (diagonal + usize::from(from != *to)).min(left + 1).min(above + 1);
            diagonal = above;
            if let Some(cell) = row.get_mut(j + 1) {
                *cell = best;
            }
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("retention_hrs", "retention_hrs"), 0);
    }

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

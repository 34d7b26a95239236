//! Names that nobody knows, and the ones that were probably meant.

use clap::CommandFactory as _;

use super::{Cli, first_administrator};

/// What the environment variables of settings begin with.
const PREFIX: &str = "HERMITD_";

/// All names of settings, as in the file.
pub(super) fn known() -> Vec<String> {
    let command = Cli::command();
    let flags = command.get_arguments().filter(|argument| argument.get_env().is_some()).filter_map(clap::Arg::get_long);
    flags.filter(|name| *name != "config").map(|name| name.replace('-', "_")).collect()
}

/// The known name that differs least, if it is near enough to have been meant.
pub(super) fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let letters = name.chars().count();
    // Of a short name half the letters must be right.
    let near = (letters / 3).max(2).min(letters / 2);
    let distances = known.iter().map(|candidate| (distance(name, candidate), candidate.as_str()));
    distances.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= near).map(|(_, nearest)| nearest)
}

/// The environment variable of a setting.
pub(super) fn variable(setting: &str) -> String {
    format!("{PREFIX}{}", setting.to_uppercase())
}

/// The message for the first environment variable that looks like a setting and is none.
pub(super) fn unknown_variable(environment: impl Iterator<Item = String>) -> Option<String> {
    let mut known: Vec<_> = known().iter().map(|name| name.to_uppercase()).collect();
    known.push("CONFIG".to_owned());
    known.extend(first_administrator::NAMES.map(str::to_owned));
    let unknown = environment.filter_map(|name| Some(name.strip_prefix(PREFIX)?.to_owned())).find(|name| !known.contains(name))?;
    let hint = match nearest(&unknown, &known) {
        Some(meant) => format!("did you mean {PREFIX}{meant}?"),
        None => "`hermitd --help` lists them".to_owned(),
    };
    Some(format!("the environment variable {PREFIX}{unknown} is no setting; {hint}"))
}

/// Letters to be changed, put in or left out to make one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
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
    fn a_mis_spelt_variable_is_told_with_the_one_that_was_meant() {
        let environment = ["PATH", "HERMITD_DATA_DIR", "HERMITD_DATADIR"].map(str::to_owned);
        let message = unknown_variable(environment.into_iter()).unwrap();
        assert!(message.contains("HERMITD_DATADIR") && message.ends_with("HERMITD_DATA_DIR?"), "{message}");
        let known = ["HERMITD_CONFIG", "HERMITD_ADMIN_USER", "HERMITD_ADMIN_PASSWORD", "HERMITD_ADMIN_PASSWORD_FILE"];
        assert_eq!(unknown_variable(known.map(str::to_owned).into_iter()), None);
        let message = unknown_variable(["HERMITD_FOO".to_owned()].into_iter()).unwrap();
        assert!(message.contains("HERMITD_FOO") && !message.contains("did you mean"), "{message}");
    }
}

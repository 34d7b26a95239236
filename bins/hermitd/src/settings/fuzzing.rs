//! The settings file, as the start reads it, up to where it looks at files, names and directories that the settings mean.

use super::table::Given;
use super::{Settings, file, older};

const PATH: &str = "hermitd.toml";

/// A settings file, of this release or an older one. What is refused names a line that is there, or a setting; what is accepted can be told, and says the same when
/// what was told is the settings file.
///
/// # Panics
/// Where that does not hold.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(given) = given(text) else { return };
    let settled = match given.settle() {
        Ok(settled) => settled,
        Err(error) => {
            let told = format!("{error:#}");
            assert!(told.starts_with('`'), "no setting is named: {told}");
            return;
        }
    };
    let again = told_and_read(&settled).settle().expect("what holds is allowed");
    assert_eq!(again.described(&again.broker), settled.described(&settled.broker));
    assert_eq!(format!("{:?}", again.broker), format!("{:?}", settled.broker));
}

fn given(text: &str) -> Option<Given> {
    let read =
        if older::is_older(PATH, text) { older::parse(PATH, text).map(|older| older.given) } else { file::parse(PATH, text) };
    read.map_err(|error| {
        let told = error.to_string();
        let line = told.strip_prefix(PATH).and_then(|rest| rest.strip_prefix(':')?.split(':').next()?.parse::<usize>().ok());
        let lines = text.split('\n').count();
        assert!(line.is_some_and(|line| (1..=lines).contains(&line)), "of {lines} lines: {told}");
    })
    .ok()
}

fn told_and_read(settings: &Settings) -> Given {
    let described = settings.described(&settings.broker);
    let set = described.iter().filter(|(_, value)| value != super::describe::UNSET);
    let text: String = set.map(|(name, value)| format!("{name} = {value}\n")).collect();
    file::parse(PATH, &text).expect("what is told of the settings is a settings file")
}

#[cfg(test)]
#[path = "../../../../fuzz/smoke.rs"]
mod smoke;

#[cfg(test)]
mod tests {
    #[test]
    fn settings_files() {
        super::smoke::run("settings", super::settings);
    }
}

//! The settings file, as the start reads it, up to where it looks at files, names and directories that the settings mean.

use super::finding::Origin;
use super::gather::Gathered;
use super::{Settings, file, in_force, older};

const PATH: &str = "hermitd.toml";

/// A settings file, of this release or an older one. What is refused names a place that is there, or a setting; what is accepted can be told, and says the same when
/// what was told is the settings file.
///
/// # Panics
/// Where that does not hold.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut gathered = Gathered::default();
    if older::is_older(PATH, text) {
        older::take(PATH, text, &mut gathered);
    } else {
        file::take(PATH, text, &mut gathered);
    }
    let settled = gathered.settle();
    let lines = text.split('\n').count();
    for finding in &gathered.findings.0 {
        let told = finding.to_string();
        assert!(!told.contains('\n'), "more than a line: {told}");
        match &finding.origin {
            Origin::File { line, .. } => assert!((1..=lines).contains(line), "of {lines} lines: {told}"),
            _ => assert!(told.starts_with('`'), "no setting is named: {told}"),
        }
    }
    if !gathered.findings.0.is_empty() {
        return;
    }
    let again = told_and_read(&settled);
    assert_eq!(again.described(&again.broker), settled.described(&settled.broker));
    assert_eq!(format!("{:?}", again.broker), format!("{:?}", settled.broker));
}

fn told_and_read(settings: &Settings) -> Settings {
    let described = settings.described(&settings.broker);
    let set = described.iter().filter(|(_, value)| value != in_force::UNSET);
    let mut gathered = Gathered::default();
    file::take(PATH, &set.map(|(name, value)| format!("{name} = {value}\n")).collect::<String>(), &mut gathered);
    let again = gathered.settle();
    assert!(gathered.findings.0.is_empty(), "what is told is no settings file: {:?}", gathered.findings);
    let mut printed = Gathered::default();
    file::take(PATH, &settings.to_toml(), &mut printed);
    assert!(
        printed.findings.0.is_empty() && printed.given == gathered.given,
        "what is printed is another file: {:?}",
        printed.findings
    );
    again
}

#[cfg(test)]
mod smoke;

#[cfg(test)]
mod tests {
    #[test]
    fn settings_files() {
        super::smoke::run("settings", super::settings);
    }
}

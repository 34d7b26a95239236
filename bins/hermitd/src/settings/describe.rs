//! Settings as clients see them who ask the broker.

use std::path::PathBuf;

use super::table::{ClientAuthName, DurabilityName, ImportName, SwitchName, TlsName};

/// Stands for a setting that nobody has set and that has no value then, such as an age that nothing reaches.
pub(super) const UNSET: &str = "unset";

/// A value as it could be written in the settings file.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_printed {
    ($($type:ty),+) => { $(impl Shown for $type { fn shown(&self) -> String { self.to_string() } })+ };
}

shown_as_printed!(bool, u32, u64, usize);

/// With its quotes.
fn quoted(text: impl Into<String>) -> String {
    toml::Value::String(text.into()).to_string()
}

impl Shown for String {
    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Shown for PathBuf {
    fn shown(&self) -> String {
        quoted(self.display().to_string())
    }
}

impl Shown for DurabilityName {
    fn shown(&self) -> String {
        match self {
            Self::Sync => quoted("sync"),
            Self::Os => quoted("os"),
        }
    }
}

impl Shown for TlsName {
    fn shown(&self) -> String {
        match self {
            Self::Off => quoted("off"),
            Self::Optional => quoted("optional"),
            Self::Required => quoted("required"),
        }
    }
}

impl Shown for ClientAuthName {
    fn shown(&self) -> String {
        match self {
            Self::Optional => quoted("optional"),
            Self::Required => quoted("required"),
        }
    }
}

impl Shown for SwitchName {
    fn shown(&self) -> String {
        match self {
            Self::Off => quoted("off"),
            Self::On => quoted("on"),
        }
    }
}

impl Shown for ImportName {
    fn shown(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::Never => quoted("never"),
        }
    }
}

pub(super) fn value(of: Option<&impl Shown>) -> String {
    of.map_or_else(|| UNSET.into(), Shown::shown)
}

#[cfg(test)]
mod tests {
    use super::super::table::Given;

    #[test]
    fn what_is_told_of_the_settings_could_be_written_into_the_settings_file() {
        let asked = Given { listen: Some("127.0.0.1:0".into()), retention_age_ms: Some(5), ..Given::default() };
        let settings = asked.settle().unwrap();
        let described = settings.described(&settings.broker);
        let set = described.iter().filter(|(_, value)| value != super::UNSET);
        let file: String = set.map(|(name, value)| format!("{name} = {value}\n")).collect();
        let read: Given = toml::from_str(&file).unwrap();
        assert_eq!((read.listen.as_deref(), read.retention_age_ms, read.retention_bytes), (Some("127.0.0.1:0"), Some(5), None));
        let again = read.settle().unwrap();
        assert_eq!(again.described(&again.broker), described);
    }
}

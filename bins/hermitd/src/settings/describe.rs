//! Settings as clients see them who ask the broker.

use std::path::PathBuf;

use super::table::{DurabilityName, ImportName};

/// Stands for a setting that nobody has set and that has no value then, such as an age that nothing reaches.
const UNSET: &str = "unset";

/// A value as it could be written in the settings file, without quotes.
pub(super) trait Shown {
    fn shown(&self) -> String;
}

macro_rules! shown_as_printed {
    ($($type:ty),+) => { $(impl Shown for $type { fn shown(&self) -> String { self.to_string() } })+ };
}

shown_as_printed!(String, bool, u32, u64, usize);

impl Shown for PathBuf {
    fn shown(&self) -> String {
        self.display().to_string()
    }
}

impl Shown for DurabilityName {
    fn shown(&self) -> String {
        match self {
            Self::Sync => "sync".into(),
            Self::Os => "os".into(),
        }
    }
}

impl Shown for ImportName {
    fn shown(&self) -> String {
        match self {
            Self::Auto => "auto".into(),
            Self::Never => "never".into(),
        }
    }
}

pub(super) fn value(of: Option<&impl Shown>) -> String {
    of.map_or_else(|| UNSET.into(), Shown::shown)
}

//! Where the file is.

use std::env::var_os;
use std::path::PathBuf;

/// Names the file, instead of the usual place.
pub(super) const VARIABLE: &str = "HERMIT_CONFIG";

/// Where the file is to be, and whether somebody said so: then it has to be there. `None` where not even a home is known.
pub(super) fn config_file() -> Option<(PathBuf, bool)> {
    let variable = |name| var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable(VARIABLE) {
        return Some((path, true));
    }
    // As the XDG specification has it, a relative path is none.
    let base = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| variable("HOME").map(|home| home.join(".config")))?;
    Some((base.join("hermit/config.toml"), false))
}

/// A path of the file: `~/` is the home, and what is relative counts from the file's directory.
pub(super) fn resolve(text: &str, file: &std::path::Path) -> PathBuf {
    if let (Some(below), Some(home)) = (text.strip_prefix("~/"), var_os("HOME")) {
        return PathBuf::from(home).join(below);
    }
    file.parent().map_or_else(|| PathBuf::from(text), |dir| dir.join(text))
}

//! What the programs make themselves, from the definition of their command lines: manual pages, and what shells need to complete them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The shells that are brought along, and what stands before and behind a program's name in the name of its file.
const SHELLS: [(&str, &str, &str); 3] = [("bash", "", ""), ("fish", "", ".fish"), ("zsh", "_", "")];

/// Manual pages and completions.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// File name, and text.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// Shell, file name, and text.
    pub(super) completions: Vec<(&'static str, String, Vec<u8>)>,
}

/// Asks each program.
pub(super) fn by(programs: &[PathBuf]) -> Result<Brought> {
    let mut brought = Brought::default();
    let folder = tempfile::tempdir()?;
    for program in programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        for (shell, before, behind) in SHELLS {
            let script = ask(program, &["completions".as_ref(), shell.as_ref()])?;
            brought.completions.push((shell, format!("{before}{name}{behind}"), script));
        }
        ask(program, &["man".as_ref(), folder.path().as_os_str()])?;
    }
    for page in fs::read_dir(&folder)? {
        let page = page?;
        brought.pages.push((page.file_name().to_string_lossy().into_owned(), fs::read(page.path())?));
    }
    Ok(brought)
}

fn ask(program: &Path, arguments: &[&OsStr]) -> Result<Vec<u8>> {
    let line = format!("{} {}", program.display(), arguments.join(OsStr::new(" ")).to_string_lossy());
    let output = Command::new(program).args(arguments).output().with_context(|| format!("`{line}` could not be run"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

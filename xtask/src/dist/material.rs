//! All that goes into packages, gathered once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;

use super::brought::{self, Brought};
use super::elf::{self, Needs};
use super::{PROGRAMS, date, notices};
use crate::workspace::Workspace;

/// Files of the root that go along.
const ROOT_PAGES: [&str; 5] = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// What packages are made of.
#[derive(Debug)]
pub(super) struct Material {
    pub(super) version: String,
    pub(super) time: u64,
    /// What making archives small is worth.
    pub(super) effort: Compression,
    pub(super) needs: Needs,
    /// Names and bytes, without what only a debugger reads.
    pub(super) programs: Vec<(String, Vec<u8>)>,
    pub(super) brought: Brought,
    /// README, changelog and licences, by their names.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// The manual, by paths below `docs/`.
    pub(super) manual: Vec<(String, Vec<u8>)>,
    /// The licences of all that is linked in.
    pub(super) notices: String,
    packaging: PathBuf,
}

impl Material {
    pub(super) fn gather(workspace: &Workspace, binaries: &Path, version: Option<String>, effort: Compression) -> Result<Self> {
        let of_hermitd = workspace.packages.iter().find(|package| package.name == "hermitd").map(|package| &package.version);
        let version = version.or_else(|| of_hermitd.cloned()).context("no version")?;
        ensure!(
            version.starts_with(|c: char| c.is_ascii_digit())
                && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c)),
            "{version:?} is no version: numbers with dots are wanted, such as 1.2.3"
        );
        let whole = PROGRAMS.map(|name| binaries.join(name));
        let needs = elf::of_all(whole.iter().map(|path| elf::needs(&read(path)?).with_context(|| path.display().to_string())))?;
        let programs = PROGRAMS.iter().zip(&whole).map(|(name, path)| Ok(((*name).to_owned(), stripped(path)?)));
        let mut manual = Vec::new();
        walk(&workspace.root.join("docs"), "", &mut manual)?;
        Ok(Self {
            version,
            effort,
            time: date::of_the_sources(&workspace.root)?,
            needs,
            programs: programs.collect::<Result<_>>()?,
            brought: brought::by(&whole)?,
            pages: ROOT_PAGES
                .iter()
                .map(|name| Ok(((*name).to_owned(), read(&workspace.root.join(name))?)))
                .collect::<Result<_>>()?,
            manual,
            notices: notices::of(workspace, &PROGRAMS)?,
            packaging: workspace.root.join("packaging"),
        })
    }

    /// A file of `packaging/`.
    pub(super) fn packaging(&self, path: &str) -> Result<String> {
        let path = self.packaging.join(path);
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// The program without what only a debugger reads.
fn stripped(path: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("stripped");
    let output = Command::new("strip")
        .args(["--strip-unneeded", "--remove-section=.comment", "-o"])
        .args([&out, path])
        .output()
        .context("`strip` could not be run: install binutils")?;
    if !output.status.success() {
        bail!("`strip` failed on {}: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    read(&out)
}

/// All files below a folder, by their paths from there.
fn walk(folder: &Path, path: &str, files: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = format!("{path}{}", entry.file_name().to_str().context("a name that is not UTF-8")?);
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push((name, read(&entry.path())?));
        }
    }
    Ok(())
}

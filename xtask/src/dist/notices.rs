//! The licences of what is linked into the programs. Most of them ask that their text goes along.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::{self, Workspace};

/// How deep below a package's folder licences are looked for: what it brings along in C has its own.
const DEPTH: usize = 3;

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    /// `None` for what is in this tree.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `None` for what is linked in.
    kind: Option<String>,
}

/// A page of all that is linked into the programs and is not from here, each text once.
pub(super) fn of(workspace: &Workspace, programs: &[&str]) -> Result<String> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata: Metadata = workspace::metadata(&workspace.root, &["--locked", "--filter-platform", &platform])?;
    let linked = metadata.linked(programs);
    let mut page = String::from("The programs of HermitMQ contain these packages, under these licences, whose texts follow.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in linked {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().with_context(|| format!("{name} has no licence"))?;
        writeln!(page, "{name}: {licence}")?;
        let folder = package.manifest_path.parent().unwrap_or(Path::new("/"));
        for text in texts_below(folder, DEPTH).with_context(|| format!("the licences of {name}"))? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    texts.sort();
    for (of, text) in texts {
        write!(page, "\n{}\n{}\n\n{}\n", "-".repeat(80), of.join(", "), text.trim_end())?;
    }
    Ok(page)
}

impl Metadata {
    /// What the programs reach without tests and build scripts, by name and version.
    fn linked(&self, programs: &[&str]) -> Vec<&Package> {
        let own = self.packages.iter().filter(|package| package.source.is_none() && programs.contains(&package.name.as_str()));
        let mut next: Vec<&str> = own.map(|package| package.id.as_str()).collect();
        let mut reached = BTreeSet::new();
        while let Some(id) = next.pop() {
            if reached.insert(id) {
                let nodes = self.resolve.nodes.iter().filter(|node| node.id == id).flat_map(|node| &node.deps);
                let linked = nodes.filter(|dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none()));
                next.extend(linked.map(|dependency| dependency.pkg.as_str()));
            }
        }
        let foreign = self.packages.iter().filter(|package| package.source.is_some() && reached.contains(package.id.as_str()));
        let mut foreign: Vec<_> = foreign.collect();
        foreign.sort_by_key(|package| (&package.name, &package.version));
        foreign
    }
}

/// The texts of the licences in a folder, and in those below it.
fn texts_below(folder: &Path, depth: usize) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    let mut files: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    // Where both are there, this is the other choice, as of zstd, which may be used under either.
    let has_licence = files.iter().any(|file| is_named(file, &["LICENSE", "LICENCE"]));
    for file in files {
        if file.file_type()?.is_dir() {
            if depth > 0 {
                texts.extend(texts_below(&file.path(), depth - 1)?);
            }
        } else if is_named(&file, &["LICENSE", "LICENCE", "NOTICE", "UNLICENSE", "COPYRIGHT"])
            || (!has_licence && is_named(&file, &["COPYING"]))
        {
            texts.insert(String::from_utf8_lossy(&fs::read(file.path())?).replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

/// Whether a file's name begins so, and is no source's.
fn is_named(file: &fs::DirEntry, names: &[&str]) -> bool {
    let name = file.file_name().to_string_lossy().to_uppercase();
    names.iter().any(|known| name.starts_with(known)) && ![".RS", ".C", ".H", ".PY"].iter().any(|source| name.ends_with(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_in_is_named_with_its_text_and_what_tests_need_is_not() {
        let page = of(&Workspace::load().unwrap(), &["hermitd", "hermit-cli"]).unwrap();
        let listed = page.split("\n\n").nth(1).unwrap();
        for linked in ["tokio", "zstd-sys", "rustls", "clap"] {
            assert!(listed.lines().any(|line| line.starts_with(&format!("{linked} "))), "{linked}: {listed}");
        }
        assert!(!listed.contains("proptest") && !listed.contains("hermit-"), "{listed}");
        // What is in C, too.
        assert!(page.contains("Meta Platforms") && page.contains("Microsoft Corporation"));
        assert!(!page.contains("GNU GENERAL PUBLIC LICENSE"));
    }
}

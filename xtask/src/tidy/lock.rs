//! What the pure layers must not reach, however far down: looked up in `Cargo.lock`, so that it needs no network.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Problem;
use crate::workspace::Workspace;

/// The crates that know no runtime.
const WITHOUT_RUNTIME: [&str; 2] = ["hermit-proto", "hermit-log"];
/// The runtimes that they must not reach.
const RUNTIMES: [&str; 4] = ["tokio", "mio", "async-std", "smol"];

/// From a package to the packages it may need. Versions are left out: a second version of a name is one more way to it.
#[derive(Debug)]
pub(super) struct Lock(BTreeMap<String, BTreeSet<String>>);

#[derive(Deserialize)]
struct LockFile {
    package: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Lock {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let file: LockFile = toml::from_str(text).context("Cargo.lock is not understood")?;
        let mut packages = BTreeMap::<String, BTreeSet<String>>::new();
        for entry in file.package {
            // `name`, or `name version` where there are several.
            let names = entry.dependencies.iter().filter_map(|dependency| dependency.split(' ').next()).map(str::to_owned);
            packages.entry(entry.name).or_default().extend(names);
        }
        Ok(Self(packages))
    }

    /// The way from one of `starts` to `goal`, if there is one.
    fn way<'a>(&'a self, starts: impl Iterator<Item = &'a str>, goal: &str) -> Option<Vec<&'a str>> {
        let mut ways: Vec<Vec<&str>> = starts.map(|start| vec![start]).collect();
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop() {
            let end = *way.last()?;
            if end == goal {
                return Some(way);
            }
            if seen.insert(end) {
                let next = self.0.get(end).into_iter().flatten();
                ways.extend(next.map(|name| way.iter().copied().chain([name.as_str()]).collect::<Vec<_>>()));
            }
        }
        None
    }
}

/// Finds a way from a crate that must not know a runtime to one.
pub(super) fn check(workspace: &Workspace, lock: &Lock) -> Vec<Problem> {
    let pure = workspace.packages.iter().filter(|package| WITHOUT_RUNTIME.contains(&package.name.as_str()));
    pure.flat_map(|package| {
        // The lock file mixes a workspace crate's dev-dependencies in, so the first step is taken from its manifest, and
        // the other pure crates are checked on their own.
        let starts = || {
            let needed = package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
            needed.map(|dependency| dependency.name.as_str()).filter(|name| !WITHOUT_RUNTIME.contains(name))
        };
        RUNTIMES.iter().filter_map(move |runtime| lock.way(starts(), runtime)).map(|way| {
            let what = format!("`{}` must not know a runtime, but reaches one: {}", package.name, way.join(" → "));
            Problem::new(workspace.relative(&package.manifest_path), what)
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Package};

    const LOCK: &str = r#"
        version = 4
        [[package]]
        name = "bytes"
        [[package]]
        name = "deep"
        dependencies = ["bytes", "deeper 0.2.0"]
        [[package]]
        name = "deeper"
        dependencies = ["deep", "tokio"]
        [[package]]
        name = "tokio"
        dependencies = ["mio"]
        [[package]]
        name = "mio"
    "#;

    fn problems(name: &str, dependency: &str, kind: Option<&str>) -> Vec<Problem> {
        let package = Package {
            name: name.into(),
            license: None,
            manifest_path: "/w/crates/x/Cargo.toml".into(),
            dependencies: vec![Dependency { name: dependency.into(), kind: kind.map(Into::into) }],
            ..Package::default()
        };
        check(
            &Workspace { root: "/w".into(), packages: vec![package], target_directory: "/w/target".into() },
            &Lock::parse(LOCK).unwrap(),
        )
    }

    #[test]
    fn a_runtime_is_found_however_deep_and_a_cycle_ends() {
        let found = problems("hermit-log", "deep", None);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].what.ends_with("deep → deeper → tokio"), "{found:?}");
    }

    #[test]
    fn only_the_pure_crates_and_not_their_tests_are_held_to_it() {
        assert_eq!(problems("hermit-log", "bytes", None), []);
        assert_eq!(problems("hermit-log", "tokio", Some("dev")), []);
        assert_eq!(problems("hermit-broker", "tokio", None), []);
    }
}

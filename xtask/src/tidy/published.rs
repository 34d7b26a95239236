//! What is published can be found, and builds without the rest of the tree.

use std::path::{Component, Path, PathBuf};

use super::Problem;
use super::tree::File;
use crate::workspace::{Package, Workspace};

/// The folders of a package that are published, as `include` in the workspace's manifest has them.
const PUBLISHED: [&str; 2] = ["src", "examples"];
/// What names another file to the compiler, up to the quote.
const NAMERS: [&str; 3] = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];

/// Checks every package that is not `publish = false`.
pub(super) fn check(workspace: &Workspace, files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in workspace.published() {
        let manifest = workspace.relative(&package.manifest_path);
        let missing = missing(package);
        if !missing.is_empty() {
            let what =
                format!("it is published, and has no {}: a registry shows them (or `publish = false`)", missing.join(", no "));
            problems.push(Problem::new(&*manifest, what));
        }
        for dependency in package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev")) {
            let other = workspace.packages.iter().find(|other| other.name == dependency.name);
            if other.is_some_and(|other| !other.is_published()) {
                let what = format!("it is published, and needs `{}`, which is not", dependency.name);
                problems.push(Problem::new(&*manifest, what));
            }
        }
        let dir = PathBuf::from(&*workspace.relative(package.dir()));
        let own = files
            .iter()
            .filter(|file| file.is_rust() && PUBLISHED.iter().any(|folder| Path::new(&file.path).starts_with(dir.join(folder))));
        problems.extend(own.flat_map(|file| outside(file, &dir)));
    }
    problems
}

fn missing(package: &Package) -> Vec<&'static str> {
    let found = [
        ("description", package.description.is_some()),
        ("licence", package.license.is_some()),
        ("repository", package.repository.is_some()),
        ("readme", package.readme.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    found.into_iter().filter(|(_, found)| !found).map(|(name, _)| name).collect()
}

/// The places in a file that bring in what is not in its package.
fn outside(file: &File, package: &Path) -> Vec<Problem> {
    let beside = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let named = NAMERS.iter().filter_map(|namer| line.split_once(namer)?.1.split_once('"'));
        for (named, _) in named.filter(|(named, _)| !plain(&beside.join(named)).starts_with(package)) {
            let what =
                format!("`{named}` is not in the package: link to it from there (`ln -s`), cargo packs what a link leads to");
            problems.push(Problem::new(format!("{}:{}", file.path, at + 1), what));
        }
    }
    problems
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn complete(name: &str) -> Package {
        Package {
            name: name.into(),
            manifest_path: format!("/w/crates/{name}/Cargo.toml").into(),
            license: Some("MIT".into()),
            description: Some("it".into()),
            repository: Some("https://example.org".into()),
            readme: Some("README.md".into()),
            keywords: vec!["it".into()],
            categories: vec!["encoding".into()],
            ..Package::default()
        }
    }

    fn problems(packages: Vec<Package>, files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        let workspace = Workspace { root: "/w".into(), packages, target_directory: "/w/target".into() };
        check(&workspace, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_published_package_needs_what_a_registry_shows() {
        assert_eq!(problems(vec![complete("a")], &[]), <[String; 0]>::default());
        let found = problems(vec![Package { readme: None, keywords: Vec::new(), ..complete("a") }], &[]);
        assert!(found.len() == 1 && found[0].contains("no readme, no keywords:"), "{found:?}");
        assert_eq!(problems(vec![Package { publish: Some(Vec::new()), ..Package::default() }], &[]), <[String; 0]>::default());
    }

    #[test]
    fn it_needs_nothing_that_is_not_published_but_for_its_tests() {
        let private = Package { publish: Some(Vec::new()), ..complete("b") };
        let needs = |kind: Option<&str>| {
            let dependencies = vec![Dependency { name: "b".into(), kind: kind.map(Into::into) }];
            problems(vec![Package { dependencies, ..complete("a") }, private_again(&private)], &[])
        };
        assert_eq!(needs(Some("dev")), <[String; 0]>::default());
        assert!(needs(None)[0].contains("`b`, which is not"));
    }

    fn private_again(package: &Package) -> Package {
        Package { publish: package.publish.clone(), ..complete(&package.name) }
    }

    #[test]
    fn what_it_is_made_of_is_in_it() {
        let quote = '"';
        let line = |path: &str| format!("#![doc = include_str!({quote}{path}{quote})]\n");
        let found = problems(
            vec![complete("a")],
            &[
                ("crates/a/src/lib.rs", &line("../README.md")),
                ("crates/a/src/b/mod.rs", &line("../../../../fuzz/x.rs")),
                ("crates/a/tests/c.rs", &line("../../../docs/x.md")),
                ("crates/ab/src/d.rs", &line("../../../docs/x.md")),
            ],
        );
        assert!(found.len() == 1 && found[0].starts_with("crates/a/src/b/mod.rs:1: "), "{found:?}");
    }
}

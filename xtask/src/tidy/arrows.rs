//! The dependency arrows between the crates of the workspace are those that the architecture page allows.

use super::page::Page;
use super::{PAGE, Problem};
use crate::workspace::{Package, Workspace};

/// Compares the manifests with the page, in both directions.
pub(super) fn check(workspace: &Workspace, page: &Page) -> Vec<Problem> {
    let find = |name: &str| workspace.packages.iter().find(|package| package.name == name);
    let mut problems = Vec::new();

    for package in &workspace.packages {
        let manifest = workspace.relative(&package.manifest_path);
        if !page.crates.contains(&package.name) {
            problems.push(Problem::new(
                PAGE,
                format!("the table has no row for `{}`: say what it is and what it never does", package.name),
            ));
        }
        for dependency in &package.dependencies {
            let Some(to) = find(&dependency.name) else { continue };
            let (from, to_name) = (&package.name, &to.name);
            match dependency.kind.as_deref() {
                Some("dev") if to.is_library() => {}
                Some("dev") => problems.push(Problem::new(
                    &*manifest,
                    format!(
                        "dev-dependency on `{to_name}`: tests may only use the libraries in crates/; move what they need there"
                    ),
                )),
                _ if page.allows(from, to_name) => {}
                _ => problems.push(Problem::new(
                    &*manifest,
                    format!("`{from} → {to_name}` is no arrow of {PAGE}: take the dependency out, or argue for the arrow there"),
                )),
            }
        }
    }

    for name in &page.crates {
        if find(name).is_none() && !workspace.root.join(name).is_dir() {
            problems.push(Problem::new(PAGE, format!("the table names `{name}`, which is no crate: take the row out")));
        }
    }
    for (from, allowed) in &page.arrows {
        for to in allowed.iter().filter(|to| !find(from).is_some_and(|package| depends(package, to))) {
            problems.push(Problem::new(PAGE, format!("the arrow `{from} → {to}` is not in the code: take it out of the page")));
        }
    }
    problems
}

/// Whether the package needs the other one for more than its tests.
fn depends(package: &Package, name: &str) -> bool {
    package.dependencies.iter().any(|dependency| dependency.name == name && dependency.kind.as_deref() != Some("dev"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, folder: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency { name: (*name).into(), kind: kind.map(Into::into) });
        Package {
            name: name.into(),
            license: None,
            manifest_path: Path::new("/w").join(folder).join(name).join("Cargo.toml"),
            dependencies: dependencies.collect(),
            ..Package::default()
        }
    }

    fn check_packages(packages: Vec<Package>, arrows: &str) -> Vec<String> {
        let workspace = Workspace { root: "/w".into(), packages, target_directory: "/w/target".into() };
        let page = Page::parse(&format!("| crate |\n| --- |\n| `log`, `broker`, `daemon` |\n\nAllowed arrows: {arrows}\n"));
        check(&workspace, &page).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allowed_arrows_and_foreign_crates_pass() {
        let packages = vec![
            package("log", "crates", &[("bytes", None)]),
            package("broker", "crates", &[("log", None)]),
            package("daemon", "bins", &[("broker", None), ("log", Some("dev"))]),
        ];
        assert_eq!(check_packages(packages, "`broker → log`; `daemon → broker`"), <[String; 0]>::default());
    }

    #[test]
    fn a_forbidden_arrow_is_found_also_as_a_build_dependency() {
        for kind in [None, Some("build")] {
            let packages = vec![
                package("log", "crates", &[("broker", kind)]),
                package("broker", "crates", &[]),
                package("daemon", "bins", &[]),
            ];
            let problems = check_packages(packages, "");
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].starts_with("crates/log/Cargo.toml: `log → broker` is no arrow"), "{problems:?}");
        }
    }

    #[test]
    fn tests_may_not_depend_on_binaries() {
        let packages = vec![
            package("log", "crates", &[("daemon", Some("dev"))]),
            package("broker", "crates", &[]),
            package("daemon", "bins", &[]),
        ];
        let problems = check_packages(packages, "");
        assert!(problems.len() == 1 && problems[0].contains("dev-dependency on `daemon`"), "{problems:?}");
    }

    #[test]
    fn the_page_must_name_every_crate_and_no_other() {
        let packages = vec![package("log", "crates", &[]), package("broker", "crates", &[]), package("extra", "crates", &[])];
        let problems = check_packages(packages, "");
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("no row for `extra`"), "{problems:?}");
        assert!(problems[1].contains("names `daemon`, which is no crate"), "{problems:?}");
    }

    #[test]
    fn an_arrow_that_the_code_does_not_have_is_a_lie_of_the_page() {
        let packages = vec![
            package("log", "crates", &[]),
            package("broker", "crates", &[("log", Some("dev"))]),
            package("daemon", "bins", &[]),
        ];
        let problems = check_packages(packages, "`broker → log`");
        assert!(problems.len() == 1 && problems[0].contains("`broker → log` is not in the code"), "{problems:?}");
    }
}

//! Every crate inherits the workspace's lints and has a licence; every library has a README.

use super::Problem;
use super::tree::File;
use crate::workspace::Workspace;

/// Checks the manifests, and the files that belong beside them.
pub(super) fn check(workspace: &Workspace, files: &[File]) -> Vec<Problem> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let manifest = workspace.relative(&package.manifest_path);
        if !text(&manifest).is_some_and(inherits_lints) {
            problems
                .push(Problem::new(&*manifest, "the workspace's lints are not inherited: add `[lints]` with `workspace = true`"));
        }
        if package.license.is_none() {
            problems.push(Problem::new(&*manifest, "no licence: add `license.workspace = true`"));
        }
        let readme = workspace.relative(package.dir()).into_owned() + "/README.md";
        if package.is_library() && text(&readme).is_none_or(|readme| readme.trim().is_empty()) {
            problems.push(Problem::new(readme, "a library stands alone: write what it is for and how to begin"));
        }
    }
    problems
}

fn inherits_lints(manifest: &str) -> bool {
    let manifest = manifest.parse::<toml::Table>().unwrap_or_default();
    manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn problems(folder: &str, license: Option<&str>, files: &[(&str, &str)]) -> Vec<String> {
        let package = Package {
            name: "x".into(),
            license: license.map(Into::into),
            manifest_path: format!("/w/{folder}/x/Cargo.toml").into(),
            ..Package::default()
        };
        let files: Vec<_> = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        let workspace = Workspace { root: "/w".into(), packages: vec![package], target_directory: "/w/target".into() };
        check(&workspace, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_spellings_of_inherited_lints_pass_and_nothing_else() {
        assert!(inherits_lints("[lints]\nworkspace = true\n"));
        assert!(inherits_lints("lints.workspace = true\n"));
        assert!(!inherits_lints("[lints]\nworkspace = false\n"));
        assert!(!inherits_lints("# [lints]\n# workspace = true\n"));
        assert!(!inherits_lints("not a manifest"));
    }

    #[test]
    fn all_that_is_missing_is_reported_at_once() {
        let found = problems("crates", None, &[("crates/x/Cargo.toml", "")]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|problem| problem.starts_with("crates/x/README.md: ")), "{found:?}");
    }

    #[test]
    fn a_binary_needs_no_readme() {
        let files = [("bins/x/Cargo.toml", "lints.workspace = true")];
        assert_eq!(problems("bins", Some("MIT"), &files), <[String; 0]>::default());
    }
}

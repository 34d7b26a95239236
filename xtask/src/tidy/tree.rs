//! The text files of the tree.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A text file: its path from the root, with `/`, and what is in it.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }
}

/// All files below `root` that are UTF-8, in order of their paths, but for what git ignores. Binary files are left out.
pub(super) fn files(root: &Path) -> Result<Vec<File>> {
    let ignored = ignored(&fs::read_to_string(root.join(".gitignore")).unwrap_or_default());
    let mut files = Vec::new();
    walk(root, String::new(), &ignored, &mut files).with_context(|| format!("{} cannot be walked", root.display()))?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The paths in a `.gitignore`. This tree keeps to plain paths from the root there.
fn ignored(gitignore: &str) -> Vec<String> {
    let paths = gitignore.lines().filter_map(|line| line.trim().strip_prefix('/'));
    paths.map(|path| path.trim_end_matches('/').to_owned()).chain([".git".to_owned()]).collect()
}

fn walk(dir: &Path, path: String, ignored: &[String], files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = if path.is_empty() { name.to_string_lossy().into_owned() } else { format!("{path}/{}", name.to_string_lossy()) };
        if ignored.contains(&path) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), path, ignored, files)?;
        } else if kind.is_file()
            // A file may go between listing and reading when somebody works in the tree.
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(File { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_of_a_gitignore_are_ignored_and_so_is_git() {
        assert_eq!(ignored("/target\n/fuzz/target/\n# note\n\n"), ["target", "fuzz/target", ".git"]);
    }

    #[test]
    fn this_tree_has_this_file_and_nothing_that_was_built() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let files = files(root).unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy/tree.rs" && file.is_rust()));
        assert!(!files.iter().any(|file| file.path.starts_with("target/") || file.path.starts_with(".git/")));
    }
}

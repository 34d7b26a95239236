//! The pages, and what stands in them.

use std::path::{Path, PathBuf};

/// A page of the manual, with its path from the repository's root.
pub struct Page {
    pub path: String,
    pub text: String,
}

/// What stands between two fences.
pub struct Block {
    pub language: String,
    /// The line of the fence, from 1.
    pub line: usize,
    /// The lines between, without what the fence is indented by.
    pub lines: Vec<String>,
}

impl Block {
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README, manual, and the page of the command line.
pub fn pages() -> Vec<Page> {
    let mut paths = vec![PathBuf::from("README.md"), PathBuf::from("bins/hermit-cli/README.md")];
    markdown_below(Path::new("docs"), &mut paths);
    paths.into_iter().map(|path| read(&path)).collect()
}

/// The pages of which only the links are looked at.
pub fn other_pages() -> Vec<Page> {
    let mut paths = vec![PathBuf::from("SECURITY.md"), PathBuf::from("CHANGELOG.md")];
    for dir in ["crates", "packaging"] {
        markdown_below(Path::new(dir), &mut paths);
    }
    paths.into_iter().map(|path| read(&path)).collect()
}

fn read(path: &Path) -> Page {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    Page { path: path.to_str().unwrap().to_owned(), text }
}

fn markdown_below(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root().join(dir)) else { return };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for path in names.into_iter().map(|name| dir.join(name)) {
        if root().join(&path).is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

impl Page {
    /// The blocks, and what stands in comments that begin with `test:`: what happens to a machine that no reader would do to his.
    pub fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open): (Vec<Block>, Option<(usize, Block)>) = (Vec::new(), None);
        for (number, line) in self.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(info), None) => {
                    let language = info.split([' ', ',']).next().unwrap_or_default().to_owned();
                    open = Some((indent, Block { language, line: number + 1, lines: Vec::new() }));
                }
                (Some(_), Some(_)) => blocks.extend(open.take().map(|(_, block)| block)),
                (None, Some((indent, block))) => block.lines.push(line.get(*indent..).unwrap_or_default().to_owned()),
                (None, None) => {
                    let hidden = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
                    blocks.extend(hidden.map(|text| Block {
                        language: "sh".to_owned(),
                        line: number + 1,
                        lines: vec![text.to_owned()],
                    }));
                }
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.path);
        blocks
    }

    /// The lines outside of blocks, with their numbers from 1.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut inside = false;
        self.text.lines().enumerate().filter_map(move |(number, line)| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            (!inside && !fence).then_some((number + 1, line))
        })
    }

    /// What stands between single backticks, with its line.
    pub fn codes(&self) -> Vec<(usize, String)> {
        let of_line = |(number, line): (usize, &str)| {
            let pieces: Vec<_> = line.split('`').skip(1).step_by(2).map(|code| (number, code.to_owned())).collect();
            pieces
        };
        self.prose().flat_map(of_line).collect()
    }
}

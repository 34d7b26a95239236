//! The pages of promises name the tests that keep them: each must be there.

use super::Problem;
use super::tree::File;

const PAGES: [&str; 2] = ["SECURITY.md", "docs/durability.md"];
/// A name of fewer words is a setting, or a type.
const LEAST_WORDS: usize = 5;
/// What paths from the root begin with.
const TOP: [&str; 3] = ["crates/", "bins/", "fuzz/"];

/// Looks for every test and every path that the pages name.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for page in files.iter().filter(|file| PAGES.contains(&file.path.as_str())) {
        for (at, line) in page.text.lines().enumerate() {
            // Every second piece stands in backquotes.
            for named in line.split('`').skip(1).step_by(2) {
                if is_test(named) && !files.iter().any(|file| file.is_rust() && file.text.contains(&format!("fn {named}("))) {
                    let what = format!("there is no test `{named}`: name the one that shows this now");
                    problems.push(Problem::new(format!("{}:{}", page.path, at + 1), what));
                }
                let below = format!("{named}/");
                if TOP.iter().any(|top| named.starts_with(top))
                    && !files.iter().any(|file| file.path == named || file.path.starts_with(&below))
                {
                    let what = format!("there is no `{named}`: name what takes its place");
                    problems.push(Problem::new(format!("{}:{}", page.path, at + 1), what));
                }
            }
        }
    }
    problems
}

fn is_test(name: &str) -> bool {
    name.split('_').count() >= LEAST_WORDS
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn tests_and_paths_that_are_not_there_are_found() {
        let page = "Tests: `what_is_kept_is_there`\n(`crates/a/tests/x.rs`), `os_flush_interval_ms`.\n`what_was_kept_is_gone` in `crates/b`, `crates/a`.\n";
        let test = file("crates/a/tests/x.rs", "#[test]\nfn what_is_kept_is_there() {}\n");
        let problems = check(&[file("SECURITY.md", page), file("docs/other.md", page), test]);
        let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("SECURITY.md:3: ") && found[0].contains("what_was_kept_is_gone"), "{found:?}");
        assert!(found[1].contains("`crates/b`"), "{found:?}");
    }
}

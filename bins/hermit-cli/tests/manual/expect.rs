//! Whether what was printed is what a page shows.

use regex::Regex;

/// In a line: anything. Alone in a line: any lines, or none.
const ANYTHING: &str = "…";

/// Widths of columns, tabs, and space at the end of a line, do not count.
pub fn matches(shown: &[String], printed: &str) -> bool {
    let pattern: String = shown.iter().map(|line| pattern_of_line(line.trim_end())).collect();
    let lines: String =
        printed.replace('\t', " ").trim_matches('\n').lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let lines = if lines == "\n" { String::new() } else { lines };
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(&lines)
}

fn pattern_of_line(line: &str) -> String {
    if line.trim() == ANYTHING {
        return "(?:.*\n)*".to_owned();
    }
    let parts = line.split(ANYTHING).map(|part| {
        let words: Vec<_> = part.split(' ').filter(|word| !word.is_empty()).map(regex::escape).collect();
        let begin = if part.starts_with(' ') { " +" } else { "" };
        let end = if part.ends_with(' ') && !words.is_empty() { " +" } else { "" };
        format!("{begin}{}{end}", words.join(" +"))
    });
    parts.collect::<Vec<_>>().join(".*") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(shown: &str, printed: &str) -> bool {
        matches(&shown.lines().map(str::to_owned).collect::<Vec<_>>(), printed)
    }

    #[test]
    fn only_what_is_shown_matches() {
        assert!(shows("a b\nc", "\na b\nc\n"));
        assert!(!shows("a b", "a b\nc\n") && !shows("a b\nc", "a b\n") && !shows("", "a\n") && !shows("a.c", "abc"));
        assert!(shows("", "\n"));
        assert!(shows("n  size", "n     size  \n") && shows("n  1", "n\t1"));
        assert!(shows("took … ms", "took 12.5 ms") && !shows("took … ms", "took 12.5 s"));
        assert!(shows("a\n…\nz", "a\nb\nc\nz") && shows("a\n…\nz", "a\nz") && !shows("a\n…\nz", "a\nb"));
    }
}

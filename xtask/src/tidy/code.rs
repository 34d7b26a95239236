//! Rules about Rust sources: where `unsafe` may be, and how long a file may get before it is looked at.

use super::Problem;
use super::tree::File;

/// The files that may hold `unsafe`: each one a small module with a reason. It is short, and stays so.
const UNSAFE_FILES: &[&str] = &[
    // Large pieces in mappings of their own.
    "bins/hermitd/src/allocator.rs",
    // An allocator that counts cannot be had without; it is for tests.
    "crates/hermit-broker/tests/counting/mod.rs",
    "crates/hermit-log/src/disk/mapping.rs",
];

/// From here a file is reported: it may have grown a second purpose.
const LONG_FILE_LINES: usize = 500;

/// Finds `unsafe` outside the files that may hold it, and listed files that hold none.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    check_against(files, UNSAFE_FILES)
}

fn check_against(files: &[File], may_be_unsafe: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !may_be_unsafe.contains(&file.path.as_str())) {
        for line in unsafe_lines(&file.text) {
            let what = "`unsafe` outside the listed files: use a safe API, or list the file in xtask/src/tidy/code.rs";
            problems.push(Problem::new(format!("{}:{line}", file.path), what));
        }
    }
    for path in may_be_unsafe {
        if !files.iter().any(|file| file.path == *path && !unsafe_lines(&file.text).is_empty()) {
            problems.push(Problem::new(*path, "listed in xtask/src/tidy/code.rs, but holds no `unsafe`: take it off the list"));
        }
    }
    problems
}

/// A line for each file that is longer than it should be; worth a look, no error.
pub(super) fn long_files(files: &[File]) -> Vec<String> {
    let lines = files.iter().filter(|file| file.is_rust()).map(|file| (file.text.lines().count(), &file.path));
    let mut long: Vec<_> = lines.filter(|(count, _)| *count > LONG_FILE_LINES).collect();
    long.sort();
    long.iter().rev().map(|(count, path)| format!("{path}: {count} lines: does it still have one purpose?")).collect()
}

/// The lines, from 1, that use `unsafe` or open the lint for it. To forbid or deny it is no use of it.
fn unsafe_lines(text: &str) -> Vec<usize> {
    let code = code_only(text);
    let lines = code.lines().enumerate();
    let found = lines.filter(|(_, line)| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let closed = line.contains("forbid(") || line.contains("deny(");
        words.any(|word| word == "unsafe" || (word == "unsafe_code" && !closed))
    });
    found.map(|(at, _)| at + 1).collect()
}

/// The text with comments, strings and characters blanked out, line breaks kept.
fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let skipped = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            'r' | 'b' | 'c' if !after_word => prefixed_string(rest),
            '\'' => character(rest),
            _ => 0,
        };
        let length = if skipped == 0 { next.len_utf8() } else { skipped };
        let (head, tail) = rest.split_at(length);
        if skipped == 0 {
            code.push_str(head);
        } else {
            code.extend(head.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = tail;
    }
    code
}

/// The bytes of the block comment that `text` begins with; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            let Some(next) = rest.chars().next() else { return text.len() };
            at += next.len_utf8();
        }
    }
}

/// The bytes of the string literal that `text` begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The bytes of a literal like `b"…"`, `r#"…"#` or `b'…'`; 0 if `text` begins with none.
fn prefixed_string(text: &str) -> usize {
    let prefix = text.find(|c| !matches!(c, 'r' | 'b' | 'c')).unwrap_or(text.len());
    let body = &text[prefix..];
    if prefix > 2 {
        return 0;
    }
    if !text[..prefix].contains('r') {
        return match body.chars().next() {
            Some('"') => prefix + string(body),
            Some('\'') => prefix + character(body),
            _ => 0,
        };
    }
    let hashes = body.len() - body.trim_start_matches('#').len();
    if !body[hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let start = prefix + hashes + 1;
    text[start..].find(&end).map_or(text.len(), |at| start + at + end.len())
}

/// The bytes of the character literal that `text` begins with; 0 if that is a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        // The character behind the backslash may be a quote itself.
        Some((_, '\\')) => text.char_indices().skip(3).find(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        Some(_) => chars.next().filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn words_in_comments_strings_and_characters_are_no_code() {
        let text = "// unsafe\n/* unsafe /* unsafe */ unsafe */\nlet a = \"unsafe \\\" unsafe\";\nlet b = r#\"unsafe \" unsafe\"#;\n\
            let c = b\"unsafe\"; let q = '\"'; let e = '\\''; let f = b'\"';\nfn g<'unsafe_>() {}\nlet not_unsafe = br\"unsafe\";\n";
        assert_eq!(unsafe_lines(text), <[usize; 0]>::default());
    }

    #[test]
    fn code_behind_literals_is_still_seen() {
        let text = "let q = '\"'; unsafe { f() }\nlet s = \"a\"; unsafe {}\nfn f<'a>(x: &'a u8) { unsafe {} }\n/* c */ unsafe fn g() {}\n\
            let r = r\"\\\"; unsafe {}\nlet e = '\\''; unsafe {}\n";
        assert_eq!(unsafe_lines(text), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn opening_the_lint_counts_and_closing_it_does_not() {
        assert_eq!(unsafe_lines("#![expect(unsafe_code, reason = \"x\")]\n#![forbid(unsafe_code)]\n#![deny(unsafe_code)]\n"), [1]);
    }

    #[test]
    fn unsafe_is_reported_with_its_line_outside_the_list_only() {
        let files = [file("a.rs", "fn f() {\n    unsafe {}\n}\n"), file("b.rs", "unsafe fn g() {}\n"), file("c.md", "unsafe\n")];
        let problems = check_against(&files, &["b.rs"]);
        assert!(problems.len() == 1 && problems[0].file == "a.rs:2", "{problems:?}");
    }

    #[test]
    fn a_stale_entry_of_the_list_is_reported() {
        let problems = check_against(&[file("a.rs", "// unsafe\n")], &["a.rs", "gone.rs"]);
        assert_eq!(problems.iter().map(|problem| problem.file.as_str()).collect::<Vec<_>>(), ["a.rs", "gone.rs"]);
    }

    #[test]
    fn only_long_rust_files_are_worth_a_look() {
        let files = [file("a.rs", &"\n".repeat(501)), file("b.rs", &"\n".repeat(500)), file("c.md", &"\n".repeat(900))];
        let long = long_files(&files);
        assert!(long.len() == 1 && long[0].starts_with("a.rs: 501 lines"), "{long:?}");
    }
}

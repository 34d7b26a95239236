//! From a block to what a shell is given.

use crate::pages::Block;

/// Begins the lines by which the session tells commands apart in what they print; no command prints it.
pub const MARK: char = '\u{1e}';

/// A command, or a whole `sh` block, which is one.
pub struct Command {
    pub line: usize,
    pub text: String,
    /// What the page shows behind it; `None` where the page shows no output, as in `sh` blocks.
    pub shown: Option<Vec<String>>,
}

pub fn commands(block: &Block) -> Vec<Command> {
    match block.language.as_str() {
        "sh" => vec![Command { line: block.line, text: block.text(), shown: None }],
        "console" => console(block),
        _ => Vec::new(),
    }
}

/// Lines that begin with `$ ` are commands, with what continues them; the others are what they print.
fn console(block: &Block) -> Vec<Command> {
    let (mut found, mut lines) = (Vec::<Command>::new(), block.lines.iter().enumerate());
    while let Some((number, line)) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            let last = found.last_mut().unwrap_or_else(|| panic!("line {}: output without a command", block.line));
            last.shown.get_or_insert_default().push(line.clone());
            continue;
        };
        let mut text = format!("{command}\n");
        let end = command.split_once("<<").map(|(_, word)| word.trim_matches(|at: char| !at.is_alphanumeric()).to_owned());
        let mut last = command.to_owned();
        while last.ends_with('\\') || end.as_ref().is_some_and(|end| last != *end) {
            let (_, more) = lines.next().unwrap_or_else(|| panic!("line {}: a command has no end", block.line));
            text += &format!("{more}\n");
            last.clone_from(more);
        }
        found.push(Command { line: block.line + 1 + number, text, shown: Some(Vec::new()) });
    }
    found
}

/// The commands as one script. What runs in the background prints to `log`, and is waited for until it says `ready`, which a terminal would show.
pub fn script(commands: &[Command], log: &str) -> String {
    let mut script = String::from("status=0\n");
    for (number, command) in commands.iter().enumerate() {
        let text = in_background(&command.text, log);
        let text = if command.shown.is_none() { format!("set -e\n{text}set +e\n") } else { text };
        // `$?` is the earlier command's, for pages that show it.
        script += &format!(
            "printf '\\n{MARK}begin {number}\\n'\n(exit $status)\n{text}status=$?\nprintf '\\n{MARK}end {number} %s\\n' $status\n"
        );
    }
    script
}

fn in_background(text: &str, log: &str) -> String {
    let mut lines = Vec::new();
    let mut logical = String::new();
    for line in text.lines() {
        logical += line;
        logical.push('\n');
        if !line.ends_with('\\') {
            lines.push(std::mem::take(&mut logical));
        }
    }
    lines.push(logical);
    lines.into_iter().map(|line| started_in_background(&line, log).unwrap_or(line)).collect()
}

fn started_in_background(line: &str, log: &str) -> Option<String> {
    // Comments behind the command are the reader's.
    let command = line.split(" #").next().unwrap_or(line).trim_end();
    let command = command.strip_suffix('&').filter(|rest| !rest.ends_with('&'))?;
    let waits = if command.contains("hermitd") { format!("await_ready {log} $!\nsed '/^ready /q' {log}\n") } else { String::new() };
    Some(format!(": >{log}\n>>{log} 2>&1 {command}&\n{waits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        Block { language: "console".to_owned(), line: 1, lines: text.lines().map(str::to_owned).collect() }
    }

    #[test]
    fn commands_are_told_from_what_they_print() {
        let found = commands(&block("$ one \\\n  two\nprinted\nmore\n$ cat >f <<'END'\n$ not a command\nEND\n$ last"));
        let texts: Vec<_> = found.iter().map(|command| command.text.as_str()).collect();
        assert_eq!(texts, ["one \\\n  two\n", "cat >f <<'END'\n$ not a command\nEND\n", "last\n"]);
        assert_eq!(found.first().unwrap().shown.as_deref(), Some(&["printed".to_owned(), "more".to_owned()][..]));
        assert_eq!(found.iter().map(|command| command.line).collect::<Vec<_>>(), [2, 6, 9]);
    }

    #[test]
    fn what_runs_in_the_background_prints_aside() {
        assert_eq!(in_background("a && b\n", "log"), "a && b\n");
        assert_eq!(
            in_background("A=b hermitd --x \\\n --y &  # starts\n", "log"),
            ": >log\n>>log 2>&1 A=b hermitd --x \\\n --y &\nawait_ready log $!\nsed '/^ready /q' log\n"
        );
    }
}

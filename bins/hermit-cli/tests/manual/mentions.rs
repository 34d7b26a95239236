//! What pages name in backticks: commands, flags, settings, variables, metrics, files.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use regex::Regex;

use crate::pages::{Page, root};
use crate::stage::programs;

/// Names that look like ours, and are the kernel's or docker's.
const OF_OTHERS: [&str; 6] = ["epoll_wait", "sched_setattr", "sched_switch", "--read-only", "--stop-timeout", "--modify-window=-1"];

/// Commands by their words, with what their help says.
struct Commands(HashMap<String, String>);

pub fn unknown(pages: &[Page]) -> Vec<String> {
    let known = Known::gather();
    let mut problems = BTreeSet::new();
    for page in pages {
        for (line, code) in page.codes() {
            if let Some(what) = known.objection(&code) {
                problems.insert(format!("{}:{line}: `{code}`: {what}", page.path));
            }
        }
    }
    problems.into_iter().collect()
}

struct Known {
    commands: Commands,
    reference: String,
    metrics: String,
    source: BTreeSet<String>,
    identifier: Regex,
    variable: Regex,
    flag: Regex,
}

impl Known {
    fn gather() -> Self {
        let commands = Commands::gather();
        let reference = commands.0.get("hermitd").unwrap().clone();
        let word = Regex::new("[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+").unwrap();
        let mut source = BTreeSet::new();
        for dir in ["bins", "crates", "xtask", "benches", "docs/openapi.json", "docs/monitoring", "packaging"] {
            gather_words(&root().join(dir), &word, &mut source);
        }
        let metrics = std::fs::read_to_string(root().join("docs/monitoring/README.md")).unwrap();
        let whole = |pattern: &str| Regex::new(&format!("^{pattern}$")).unwrap();
        let (identifier, variable) = (whole("[a-z][a-z0-9]*(?:_[a-z0-9]+)+"), whole("HERMITD?_[A-Z0-9_]+"));
        Self { commands, reference, metrics, source, identifier, variable, flag: whole("--[a-z][a-z0-9-]*") }
    }

    /// What is wrong with a name, if this knows what kind of name it is.
    fn objection(&self, code: &str) -> Option<String> {
        if OF_OTHERS.contains(&code) {
            return None;
        }
        if let Some(rest) = code.strip_prefix("cargo xtask ") {
            let task = rest.split_whitespace().next().filter(|task| task.is_ascii())?;
            return (!has_task(task)).then(|| "there is no such task".to_owned());
        }
        if code.starts_with("hermit-cli ") || code.starts_with("hermitd ") {
            return self.commands.objection(code);
        }
        if self.flag.is_match(code) {
            let there = self.commands.0.values().any(|help| has_word(help, code)) || has_flag_of_a_task(code);
            return (!there).then(|| "no command has that flag".to_owned());
        }
        if self.variable.is_match(code) {
            let setting = code.strip_prefix("HERMITD_").map(|name| format!("--{}", name.to_lowercase().replace('_', "-")));
            let there = setting.is_some_and(|flag| has_word(&self.reference, &flag)) || self.source.contains(code);
            return (!there).then(|| "no program reads that variable".to_owned());
        }
        if code.starts_with("hermit_") && self.identifier.is_match(code) && !self.source.contains(code) {
            return (!self.metrics.contains(&format!("`{code}`"))).then(|| "no such metric".to_owned());
        }
        if self.identifier.is_match(code) {
            return (!self.source.contains(code))
                .then(|| "is nowhere in the programs: a setting, metric or field that was renamed?".to_owned());
        }
        let first = code.split('/').next().unwrap_or_default();
        let is_path =
            code.contains('/') && ["docs", "crates", "bins", "xtask", "fuzz", "benches", "models", "packaging"].contains(&first);
        let is_plain = code.chars().all(|at| at.is_ascii_alphanumeric() || "/._-".contains(at));
        (is_path && is_plain && !root().join(code).exists()).then(|| "there is no such file".to_owned())
    }
}

impl Commands {
    fn gather() -> Self {
        let mut found = HashMap::new();
        for program in ["hermitd", "hermit-cli"] {
            gather_commands(&[program.to_owned()], &mut found);
        }
        Self(found)
    }

    fn objection(&self, code: &str) -> Option<String> {
        let mut words = code.split_whitespace();
        let mut command = words.next()?.to_owned();
        let mut only_commands = true;
        for word in words {
            let deeper = format!("{command} {word}");
            if self.0.contains_key(&deeper) {
                command = deeper;
                continue;
            }
            let has_commands = self.0.keys().any(|other| other.starts_with(&format!("{command} ")));
            if only_commands
                && has_commands
                && word.chars().all(|at| at.is_ascii_lowercase() || at == '-')
                && !word.starts_with('-')
            {
                return Some(format!("{command} has no command {word}"));
            }
            only_commands = false;
            let flag = word.split(['=', ',']).next().unwrap_or(word);
            if flag.starts_with("--") && flag.len() > 2 && !self.0.get(&command).is_some_and(|help| has_word(help, flag)) {
                return Some(format!("{command} has no {flag}"));
            }
        }
        None
    }
}

fn gather_commands(words: &[String], found: &mut HashMap<String, String>) {
    let (program, rest) = words.split_first().unwrap();
    let output = Command::new(programs().join(program)).args(rest).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?} --help: {output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let names = listed.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        gather_commands(&[words, &[name.to_owned()]].concat(), found);
    }
    found.insert(words.join(" "), help);
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|at: char| !(at.is_ascii_alphanumeric() || "-_".contains(at))).any(|there| there == word)
}

/// A task is a variant of an enum of `xtask`.
fn has_task(task: &str) -> bool {
    let camel: String = task.split('-').map(|part| part[..1].to_uppercase() + &part[1..]).collect();
    let variant = Regex::new(&format!("(?m)^    {camel}[,( {{]")).unwrap();
    xtask().any(|text| variant.is_match(&text))
}

fn has_flag_of_a_task(flag: &str) -> bool {
    let name = flag.trim_start_matches('-');
    let passed_on = ["hermit-torture", "hermit-bench"].iter().flat_map(|package| texts(&format!("crates/{package}/src")));
    let field = Regex::new(&format!(r"\b{}: |\b{name}\b", name.replace('-', "_"))).unwrap();
    xtask().chain(passed_on).any(|text| field.is_match(&text))
}

fn xtask() -> impl Iterator<Item = String> {
    texts("xtask/src")
}

fn texts(dir: &str) -> impl Iterator<Item = String> + use<> {
    let mut found = Vec::new();
    files(&root().join(dir), &mut found);
    found.into_iter()
}

fn files(path: &std::path::Path, found: &mut Vec<String>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            files(&entry.unwrap().path(), found);
        }
    } else if let Ok(text) = std::fs::read_to_string(path) {
        // What is not text is not looked at.
        found.push(text);
    }
}

fn gather_words(path: &std::path::Path, word: &Regex, found: &mut BTreeSet<String>) {
    let mut all = Vec::new();
    files(path, &mut all);
    for text in all {
        found.extend(word.find_iter(&text).map(|at| at.as_str().to_owned()));
    }
}

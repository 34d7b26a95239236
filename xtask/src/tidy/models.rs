//! The models of `cargo xtask loom` are a crate of their own that nobody builds every day: what the product's files in them use of their own crate must be
//! there too.

use super::Problem;
use super::tree::File;

const ROOT: &str = "models/src/main.rs";

/// Looks at all files that the models compile by their path.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let Some(root) = files.iter().find(|file| file.path == ROOT) else { return Vec::new() };
    let known = names(&root.text);
    let of_models = files.iter().filter(|file| file.path.starts_with("models/src/"));
    let compiled: Vec<&str> = of_models.flat_map(|file| paths(&file.text)).collect();
    let is_compiled = |file: &&File| compiled.iter().any(|path| is_part(&file.path, path));
    files.iter().filter(is_compiled).flat_map(|file| unknown(file, &known)).collect()
}

/// The modules of the models' root, and what it takes from others by name.
fn names(root: &str) -> Vec<&str> {
    let modules = root.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let taken = root.lines().filter_map(|line| line.strip_prefix("use world::{")?.strip_suffix("};"));
    modules.chain(taken.flat_map(|names| names.split(", "))).collect()
}

/// From the root of the tree.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"../../")?.strip_suffix("\"]"))
}

/// Whether a file is that of a module, or of one below it that is no test.
fn is_part(file: &str, module: &str) -> bool {
    let below = module.strip_suffix("mod.rs").map_or_else(|| module.replace(".rs", "/"), str::to_owned);
    file == module || (file.starts_with(&below) && !file.ends_with("tests.rs"))
}

fn unknown(file: &File, known: &[&str]) -> Vec<Problem> {
    let product = file.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).enumerate();
    let code = product.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let used = code.flat_map(|(at, line)| line.split("crate::").skip(1).map(move |rest| (at, rest)));
    let named = used.map(|(at, rest)| (at, rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()));
    let missing = named.filter(|(_, name)| !name.is_empty() && !known.contains(name));
    missing
        .map(|(at, name)| {
            let what = format!(
                "`crate::{name}` is not in {ROOT}, which compiles this file too: leave it out here, or give the models one"
            );
            Problem::new(format!("{}:{}", file.path, at + 1), what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn what_the_models_do_not_have_is_found_in_the_files_that_they_compile() {
        let root = "#[path = \"../../crates/a/src/memory/mod.rs\"]\nmod memory;\nmod models;\nuse world::{clock, limits};\n";
        let loan =
            "/// See [`crate::Broker`].\nuse crate::clock::Clock;\nuse crate::broker::Broker;\n#[cfg(test)]\nuse crate::testing;\n";
        let files = [
            file(ROOT, root),
            file("models/src/log.rs", "#[path = \"../../crates/b/src/turn.rs\"]\nmod turn;\n"),
            file("crates/a/src/memory/mod.rs", "use crate::limits::Limits;\n"),
            file("crates/a/src/memory/loan.rs", loan),
            file("crates/a/src/memory/turns_tests.rs", "use crate::testing;\n"),
            file("crates/a/src/other.rs", "use crate::broker::Broker;\n"),
            file("crates/b/src/turn.rs", "fn f() { crate::gone::g() }\n"),
        ];
        let places: Vec<String> = check(&files).into_iter().map(|problem| problem.file).collect();
        assert_eq!(places, ["crates/a/src/memory/loan.rs:3", "crates/b/src/turn.rs:1"]);
    }
}

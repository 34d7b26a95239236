//! The manual's table of settings, made from the table in the code.

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;

use super::Cli;

const BEGIN: &str = "<!-- settings: made by the tests of hermitd; UPDATE_DOCS=1 cargo test -p hermitd writes it anew -->\n";
const END: &str = "<!-- end of settings -->\n";

fn table() -> String {
    let mut table = String::from("| setting | meaning |\n| --- | --- |\n");
    let command = Cli::command();
    for argument in command.get_arguments() {
        let (Some(flag), Some(_)) = (argument.get_long(), argument.get_env()) else { continue };
        if flag == "config" {
            continue;
        }
        let meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(table, "| `{}` | {}. |", flag.replace('-', "_"), meaning.trim_end_matches('.')).unwrap();
    }
    table
}

#[test]
fn the_manual_has_every_setting_as_the_code_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{}\n{END}{after}", table())).unwrap();
    } else {
        assert_eq!(found.trim(), table().trim(), "run `UPDATE_DOCS=1 cargo test -p hermitd`");
    }
}

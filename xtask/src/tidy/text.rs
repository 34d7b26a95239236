//! What must not stay in a text file: paths of one machine, and notes for later.

use super::Problem;
use super::tree::File;

/// Where home and work folders are. Put together here, so that this file does not find itself.
const MACHINE_PATHS: [&str; 4] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];
const NOTES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Checks every line of every text file.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        for (at, line) in file.text.lines().enumerate() {
            let place = || format!("{}:{}", file.path, at + 1);
            for path in MACHINE_PATHS.iter().filter(|path| has_path(line, path)) {
                problems.push(Problem::new(place(), format!("a path of one machine (`{path}…`): write it relative to the tree")));
            }
            for note in NOTES.iter().filter(|note| has_word(line, note)) {
                problems.push(Problem::new(place(), format!("`{note}`: do it now, or open an issue and take the note out")));
            }
        }
    }
    problems
}

/// Whether the line has the path at the start of a path, not in the middle of one or of an address.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '>' | '}'))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        check(&[File { path: "f".into(), text: text.into() }]).into_iter().map(|problem| problem.file).collect()
    }

    #[test]
    fn paths_of_a_machine_are_found_at_their_line() {
        let [home, root, work, users] = MACHINE_PATHS;
        assert_eq!(places(&format!("fine\nsee {home}me/x\n\"{work}x\"\n`{root}.x`\n({users}me)")), ["f:2", "f:3", "f:4", "f:5"]);
    }

    #[test]
    fn the_middle_of_a_path_or_an_address_is_no_machine_path() {
        let work = MACHINE_PATHS[2];
        assert_eq!(places(&format!("https://example.org{work}x\n../shared{work}x\n<data-dir>{work}x")), <[String; 0]>::default());
    }

    #[test]
    fn notes_are_found_as_words_only() {
        let [first, second] = NOTES;
        assert_eq!(places(&format!("// {first}: x\n{second}(me)\nMAS{first}NS\n{first}_LIST\n")), ["f:1", "f:2"]);
    }
}

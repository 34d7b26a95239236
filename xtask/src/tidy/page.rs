//! The architecture page as data: the crates of its table and the arrows it allows. The page is the rule, so that it
//! cannot say one thing and the check another.

use std::collections::{BTreeMap, BTreeSet};

/// The heading of the table's first column.
const TABLE_HEAD: &str = "| crate |";
/// How the paragraph with the arrows begins.
const ARROWS_HEAD: &str = "Allowed arrows:";

/// What the page says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The names in the table's first column.
    pub(super) crates: BTreeSet<String>,
    /// From a crate to those that it may depend on.
    pub(super) arrows: BTreeMap<String, BTreeSet<String>>,
}

impl Page {
    /// Reads the page. What is not there is empty, and the checks say so.
    pub(super) fn parse(page: &str) -> Self {
        let rows = page.lines().skip_while(|line| !line.starts_with(TABLE_HEAD)).skip(2).take_while(|line| line.starts_with('|'));
        let crates = rows.filter_map(|row| row.split('|').nth(1)).flat_map(quoted).map(str::to_owned).collect();

        let paragraph: String =
            page.lines().skip_while(|line| !line.starts_with(ARROWS_HEAD)).take_while(|line| !line.is_empty()).fold(
                String::new(),
                // A line break within a pair of back quotes is a space.
                |text, line| text + line + " ",
            );
        let mut arrows = BTreeMap::<String, BTreeSet<String>>::new();
        for (from, to) in quoted(&paragraph).filter_map(|span| span.split_once('→')) {
            let to = to.split(',').map(|name| name.trim().to_owned());
            arrows.entry(from.trim().to_owned()).or_default().extend(to);
        }
        Self { crates, arrows }
    }

    /// Whether the page allows `from` to depend on `to`.
    pub(super) fn allows(&self, from: &str, to: &str) -> bool {
        self.arrows.get(from).is_some_and(|allowed| allowed.contains(to))
    }
}

/// The spans between pairs of back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\n| other | table |\n| --- | --- |\n| `x` | y |\n\n\
        | crate | what it is | it never |\n| --- | --- | --- |\n| `a` | bytes, `not this` | I/O |\n| `b`, `c` | bins | |\n\n\
        Allowed arrows: `b → a`; `c → a,\nb`. Dev-dependencies may point anywhere.\n\n`d → a`\n";

    #[test]
    fn crates_come_from_the_first_column_of_the_right_table() {
        let crates: Vec<_> = Page::parse(PAGE).crates.into_iter().collect();
        assert_eq!(crates, ["a", "b", "c"]);
    }

    #[test]
    fn arrows_come_from_their_paragraph_alone() {
        let page = Page::parse(PAGE);
        assert!(page.allows("b", "a") && page.allows("c", "a") && page.allows("c", "b"));
        assert!(!page.allows("a", "b") && !page.allows("d", "a"));
    }

    #[test]
    fn a_page_without_them_is_empty() {
        assert_eq!(Page::parse("# Nothing here\n"), Page::default());
    }
}

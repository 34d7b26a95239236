//! Where links between pages lead.

use std::collections::HashMap;
use std::path::Path;

use crate::pages::{Page, other_pages, pages, root};

pub fn broken() -> Vec<String> {
    let all: Vec<_> = pages().into_iter().chain(other_pages()).collect();
    let mut problems = Vec::new();
    for page in &all {
        for (line, target) in links(page) {
            if let Some(wrong) = look(page, &target) {
                problems.push(format!("{}:{line}: {target}: {wrong}", page.path));
            }
        }
    }
    problems
}

fn links(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in page.prose() {
        // What stands in backticks is no link.
        let line: String = line.split('`').enumerate().map(|(nth, part)| if nth % 2 == 0 { part } else { "code" }).collect();
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.map(|target| (number, target.to_owned())));
    }
    found
}

fn look(page: &Page, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let here = Path::new(&page.path);
    let file = if path.is_empty() { root().join(here) } else { root().join(here.parent().unwrap()).join(path) };
    if !file.exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor?;
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let anchors = anchors(&Page { path: path.to_owned(), text });
    (!anchors.iter().any(|there| there == anchor)).then(|| format!("has no such heading; there are {}", anchors.join(", ")))
}

/// As the places where the pages are read make them: small letters, `-` for spaces, nothing but letters, digits and `-_`.
fn anchors(page: &Page) -> Vec<String> {
    let mut seen = HashMap::<String, usize>::new();
    let headings = page.prose().filter(|(_, line)| line.starts_with('#')).map(|(_, line)| line.trim_start_matches('#').trim());
    let plain = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|at| at.is_alphanumeric() || matches!(at, '-' | '_')).collect::<String>()
    };
    let mut anchors = Vec::new();
    for anchor in headings.map(plain) {
        let times = seen.entry(anchor.clone()).and_modify(|times| *times += 1).or_insert(0);
        anchors.push(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_anchors_and_code_has_no_links() {
        let text = "# A `b`, and c\n## Two\n```sh\n# no heading\n```\n## Two\nsee [x](y.md#z) and `[no](link)`\n".to_owned();
        let page = Page { path: "docs/p.md".to_owned(), text };
        assert_eq!(anchors(&page), ["a-b-and-c", "two", "two-1"]);
        assert_eq!(links(&page), [(7, "y.md#z".to_owned())]);
        assert!(look(&page, "nowhere.md").is_some() && look(&page, "#three").is_some() && look(&page, "access.md").is_none());
    }
}

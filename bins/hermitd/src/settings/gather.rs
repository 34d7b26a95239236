//! What all sources say, gathered: later ones win, and what is wrong in any of them is found.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Findings, Origin, excerpt};
use super::names;
use super::table::{Given, Setting};
use super::value::Raw;

/// Where each setting that was given stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    pub(crate) fn of(&self, setting: &str) -> Origin {
        self.0.get(setting).cloned().unwrap_or(Origin::Default)
    }

    /// The first of these that somebody has given: a default is nobody's mistake.
    fn of_first_given(&self, settings: &[&str]) -> Origin {
        settings.iter().find_map(|setting| self.0.get(*setting).cloned()).unwrap_or(Origin::Default)
    }
}

/// What was said, and what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) given: Given,
    pub(super) origins: Origins,
    pub(super) findings: Findings,
    pub(super) notes: Vec<String>,
    /// The older settings file that says when to flush, and by that what an answer means.
    pub(super) older_flush: Option<String>,
    /// The settings whose values cannot be used: what follows from them is not told, too.
    pub(super) broken: BTreeSet<String>,
}

impl Gathered {
    /// Takes a value over what an earlier source said. `source` is what is shown of it where it is wrong.
    pub(super) fn take(&mut self, name: &str, raw: Raw<'_>, origin: Origin, source: &str) {
        if self.origins.0.get(name).is_some_and(|before| before.is_of_the_same_source(&origin)) {
            self.findings
                .add(origin, format!("`{name}` is given a second time, under another of its names: leave one of them out"));
            return;
        }
        match self.given.take(name, raw) {
            Some(Ok(())) => {
                self.origins.0.insert(name.to_owned(), origin);
            }
            Some(Err(rule)) => {
                let shown = match raw {
                    Raw::Text(text) if !is_plain(text) => excerpt(&super::value::quoted(source)),
                    Raw::Text(_) | Raw::Toml(_) => excerpt(source),
                };
                self.broken.insert(name.to_owned());
                self.findings.add(origin, format!("`{name}` is {shown}: {rule}"));
            }
            None => self.findings.add(origin, format!("`{name}` is no setting; {}", names::hint(name, &names::known()))),
        }
    }

    /// Says of a name from before there were units what it is called now.
    pub(super) fn note_former(&mut self, origin: &Origin, written: &str, setting: &Setting, unit: &str) {
        let name = setting.name;
        let finding = Finding {
            origin: origin.clone(),
            message: format!("`{written}` is called `{name}` now, with the unit in the value, such as \"10{unit}\""),
        };
        self.notes.push(finding.to_string());
    }

    /// Whether the values of these can be used.
    pub(super) fn are_sound(&self, settings: &[&str]) -> bool {
        settings.iter().all(|setting| !self.broken.contains(*setting))
    }

    /// Adds a finding about settings, where the first of them stands that somebody has given.
    pub(super) fn wrong(&mut self, settings: &[&str], message: impl Into<String>) {
        self.broken.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let origin = self.origins.of_first_given(settings);
        self.findings.add(origin, message);
    }
}

/// Whether it needs no quotes to be told apart from what stands around it.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

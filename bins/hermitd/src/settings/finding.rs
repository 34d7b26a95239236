//! What is wrong with the settings: all of it, each with its place.

use std::fmt;

pub(super) use hermit_settings::excerpt;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody has given it.
    Default,
    /// In a file; line and column count from 1, the column in characters.
    File { path: String, line: usize, column: usize },
    /// In the environment, by this variable.
    Variable(String),
    /// On the command line, by this flag.
    Flag(String),
}

impl Origin {
    /// Whether both are in the same file, or both in the environment, neither of which says which of two counts.
    pub(super) fn is_of_the_same_source(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { path, .. }, Self::File { path: other, .. }) => path == other,
            (Self::Variable(_), Self::Variable(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column: _ } => write!(f, "{path}:{line}"),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) origin: Origin,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, message } = self;
        match origin {
            Origin::Default => f.write_str(message),
            Origin::File { path, line, column } => write!(f, "{path}:{line}:{column}: {message}"),
            Origin::Variable(name) | Origin::Flag(name) => write!(f, "{name}: {message}"),
        }
    }
}

/// All that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, origin: Origin, message: impl Into<String>) {
        self.0.push(Finding { origin, message: message.into() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their number, in words.
    pub(crate) fn counted(&self) -> String {
        match self.0.len() {
            1 => "1 mistake".to_owned(),
            count => format!("{count} mistakes"),
        }
    }
}

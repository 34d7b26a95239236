//! What keeps a load from running. Records that fail while it runs are counted in its report instead.

/// The result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What keeps a load from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field of the load has a value that cannot be.
    #[error("`{field}` {problem}")]
    Config {
        /// Its name.
        field: &'static str,
        /// What is wrong about it.
        problem: String,
    },
    /// The client could not do what the load needs.
    #[error(transparent)]
    Client(#[from] hermit_client::Error),
    /// A thread or task of the load cannot be had, or ended before its time.
    #[error("a part of the load ended: {problem}")]
    Ended {
        /// Why.
        problem: String,
    },
}

impl Error {
    pub(crate) fn config(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Config { field, problem: problem.into() }
    }

    pub(crate) fn ended(problem: impl std::fmt::Display) -> Self {
        Self::Ended { problem: problem.to_string() }
    }
}

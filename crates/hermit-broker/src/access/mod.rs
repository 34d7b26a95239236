//! Who may do what: users, rules, and how a client shows who it is.

mod config;

pub use config::{AccessConfig, FirstAdministrator, PasswordHashing};

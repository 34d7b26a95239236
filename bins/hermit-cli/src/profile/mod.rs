//! Profiles: how brokers are reached and who asks, by name, in a file of the user's.

mod apply;
mod command;
mod file;
mod path;
mod table;

pub(crate) use apply::apply;
pub(crate) use command::run;
pub(crate) use table::Kept;

//! Runs a real `hermitd` through crashes, and measures what it promises: see the README.

pub mod check;
pub mod group;
pub mod limits;
pub mod memory;
pub mod real;
pub mod sendfile;
pub mod server;
pub mod strace;
pub mod stream;
pub mod wire;

//! Runs a real `hermitd` through crashes, and measures what it promises: see the README.

pub mod check;
pub mod crowd;
pub mod full_disk;
pub mod group;
pub mod kill;
pub mod limits;
pub mod logins;
pub mod memory;
pub mod real;
pub mod sendfile;
pub mod server;
pub mod soak;
pub mod strace;
pub mod stream;
pub mod wire;
pub mod workload;

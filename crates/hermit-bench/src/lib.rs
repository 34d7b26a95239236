//! Measures a real `hermitd` from outside, and the machine that it runs on: see the README.

pub mod broker;
pub mod case;
pub mod clock;
pub mod drive;
pub mod lab;
pub mod latency;
pub mod limits;
pub mod material;
pub mod tally;
pub mod worker;

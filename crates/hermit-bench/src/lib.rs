//! Measures a real `hermitd` from outside, and the machine that it runs on: see the README.

pub mod broker;
pub mod case;
pub mod clock;
pub mod drive;
pub mod finding;
pub mod lab;
pub mod latency;
pub mod limits;
pub mod machine;
pub mod material;
pub mod plot;
pub mod report;
pub mod run;
pub mod site;
pub mod tally;
pub mod worker;

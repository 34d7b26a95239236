#![doc = include_str!("../README.md")]

mod check;
mod consume;
mod end_to_end;
mod error;
mod latency;
mod max_rate;
mod meter;
mod pace;
mod payload;
mod produce;
mod sender;
mod target;

pub use check::{Check, Counts};
pub use consume::{ConsumeLoad, ConsumeReport, ReadyConsumeLoad, StartAt};
pub use end_to_end::{EndToEndLoad, EndToEndReport, ReadyEndToEndLoad};
pub use error::{Error, Result};
pub use latency::LatencySummary;
pub use max_rate::{MaxRate, Probe};
pub use meter::Meter;
pub use payload::{Contents, HEAD_BYTES};
pub use produce::{ProduceLoad, ProduceReport, ReadyProduceLoad, Results, Spread};
pub use target::{Compression, Target, Via};

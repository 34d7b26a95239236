//! Damage, crashes and races that a log must stand, one at a time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the test's failure")]

mod compaction;
mod damage;
mod flushing;
mod full_disk;
mod gaps;
mod hooked;
mod preallocation;
mod producers;
mod retention;
mod rig;
mod scrub;
mod together;

//! What the fuzz targets of this crate do with their bytes: plain functions over what is private here, which `fuzz/` runs under libFuzzer,
//! and a test below over the stored corpus, on any compiler. None may panic but for its own assertions.
//!
//! Bytes that a checksum protects are put under a right one here, as a fuzzer does not find it: damage that a checksum finds is what
//! the other steps make.
#![expect(clippy::panic, reason = "a target panics where a promise is broken")]

mod build;
mod read;
mod recovery;
#[cfg(test)]
mod smoke;
mod state_files;
mod steps;

pub use recovery::recovery;
pub use state_files::{index, state_files};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes() {
        smoke::run("index", index);
    }

    #[test]
    fn state_files_of_a_log() {
        smoke::run("state_files", state_files);
    }

    #[test]
    fn recovery_of_a_directory() {
        smoke::run("recovery", recovery);
    }
}

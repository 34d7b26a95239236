//! Shared set-up of the benchmarks.
//!
//! `cargo bench -p hermit-benches`. Wall times on a busy machine do not repeat: compare figures of one run.
#![expect(clippy::print_stdout, reason = "a benchmark says what it ran on")]

use hermit_proto::{FrameError, ProducedFrame};

/// Prints the processor and how many of it there are: a figure without its machine says nothing.
pub fn print_machine() {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("on {cores} × {model}");
}

/// Bytes that no codec finds a pattern in.
#[must_use]
pub fn noise(bytes: usize) -> Vec<u8> {
    // Knuth's 64-bit linear congruential generator; its high byte is noise enough.
    let states = std::iter::successors(Some(1_u64), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    states.map(|state| state.to_be_bytes()[0]).take(bytes).collect()
}

/// A frame with a key and a payload of `payload_bytes`, as a producer sends it.
///
/// # Errors
///
/// When the payload does not fit a frame.
pub fn frame(payload_bytes: usize) -> Result<Vec<u8>, FrameError> {
    ProducedFrame::message(1_700_000_000_000_000_000, Some(b"key"), &noise(payload_bytes)).to_vec()
}

//! Runs [`hermit_fuzz::frame`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_fuzz::frame(data));

//! Runs [`hermit_fuzz::session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_fuzz::session(data));

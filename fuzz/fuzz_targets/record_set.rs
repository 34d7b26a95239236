//! Runs [`hermit_fuzz::record_set`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_fuzz::record_set(data));

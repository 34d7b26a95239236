//! Runs [`hermit_fuzz::deframer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_fuzz::deframer(data));

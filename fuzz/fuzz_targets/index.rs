//! Runs [`hermit_log::fuzzing::index`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_log::fuzzing::index(data));

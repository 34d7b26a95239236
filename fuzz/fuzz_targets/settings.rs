//! Runs [`hermitd::fuzzing::settings`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermitd::fuzzing::settings(data));

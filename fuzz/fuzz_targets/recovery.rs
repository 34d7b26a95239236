//! Runs [`hermit_log::fuzzing::recovery`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_log::fuzzing::recovery(data));

//! Runs [`hermit_log::fuzzing::state_files`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_log::fuzzing::state_files(data));

//! Runs [`hermit_broker::fuzzing::positions`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::positions(data));

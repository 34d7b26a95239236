//! Runs [`hermit_broker::fuzzing::requests`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::requests(data));

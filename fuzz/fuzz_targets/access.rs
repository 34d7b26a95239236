//! Runs [`hermit_broker::fuzzing::access`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::access(data));

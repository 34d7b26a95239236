//! Runs [`hermit_broker::fuzzing::manifest`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::manifest(data));

//! Runs [`hermit_broker::fuzzing::v1_stream`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::v1_stream(data));

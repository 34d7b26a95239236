//! Runs [`hermit_broker::fuzzing::v1_consumer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::v1_consumer(data));

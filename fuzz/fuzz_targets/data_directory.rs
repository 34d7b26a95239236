//! Runs [`hermit_broker::fuzzing::data_directory`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::data_directory(data));

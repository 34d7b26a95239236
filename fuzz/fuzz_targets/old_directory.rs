//! Runs [`hermit_broker::fuzzing::old_directory`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_broker::fuzzing::old_directory(data));

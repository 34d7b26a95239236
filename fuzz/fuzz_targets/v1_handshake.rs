//! Runs [`hermit_fuzz::v1_handshake`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hermit_fuzz::v1_handshake(data));

//! See `ghost_fuzz::headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ghost_fuzz::headers(data));

//! See `ghost_fuzz::path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ghost_fuzz::path(data));

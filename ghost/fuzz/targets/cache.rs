//! See `ghost_fuzz::cache`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ghost_fuzz::cache(data));

//! See `ghost_fuzz::host`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ghost_fuzz::host(data));

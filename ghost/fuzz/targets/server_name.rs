//! See `ghost_fuzz::server_name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ghost_fuzz::server_name(data));

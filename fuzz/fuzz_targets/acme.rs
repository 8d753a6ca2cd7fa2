//! Any bytes as what an ACME directory answers, and as what is kept of an order.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| acme::fuzz(bytes));

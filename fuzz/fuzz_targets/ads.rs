//! A client of ADS that says anything in any order: the stream stays right, and costs what was said. And requests that are
//! no requests: they are measured before they are decoded.

#![no_main]

#[path = "../../crates/ads/tests/suite/stateful/driver.rs"]
mod driver;

use libfuzzer_sys::fuzz_target;
use pilothouse_ads::{Limits, Protocol};
use prost::Message;
use proto_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;

fuzz_target!(|bytes: &[u8]| {
    driver::drive(bytes);
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        let looked = Limits::default().look(protocol, bytes);
        // What is read as a request was found to be none only for its size.
        if protocol == Protocol::Delta
            && DeltaDiscoveryRequest::decode(bytes).is_ok()
            && bytes.len() < 1000
        {
            assert!(looked.is_ok());
        }
    }
});

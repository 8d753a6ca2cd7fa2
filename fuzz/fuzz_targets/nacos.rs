//! Any octets, and any text as a push, as what a Nacos says: no panic, and what is reported can be connected to; any octets as its
//! documents about servers of MCP: what they are called can stand in a path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use registries::{Report, nacos};

/// A field of a message of protobuf.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let (mut out, mut length) = (vec![number << 3 | 2], content.len());
    while length > 127 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    [&out[..], content].concat()
}

fn framed(json: &[u8]) -> Vec<u8> {
    let payload = field(3, &field(2, json));
    [&[0][..], &(payload.len() as u32).to_be_bytes(), &payload].concat()
}

fn check(octets: &[u8]) {
    for report in nacos::replay(octets) {
        let Report::Service(host, instances) = report else {
            continue;
        };
        assert!(host.ends_with(".public.nacos"));
        assert!(instances.len() <= octets.len());
        assert!(instances.iter().all(|i| i.port > 0 && !i.address.is_empty() && i.weight.is_finite()));
    }
}

fuzz_target!(|octets: &[u8]| {
    check(octets);
    let list = br#"{"serviceNames":["a"]}"#;
    check(&[framed(list), framed(octets)].concat());
    for word in nacos::mcp::replay(octets) {
        let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(!word.is_empty() && word.len() <= 128 && word.chars().all(is_char));
        assert!(word.chars().any(|c| c != '.'));
    }
});

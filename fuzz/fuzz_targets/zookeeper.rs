//! Any octets, and any text as providers and instances, as what a ZooKeeper says: no panic, and what is reported can be
//! connected to.
#![no_main]

use libfuzzer_sys::fuzz_target;
use registries::{Report, zookeeper};

fn check(octets: &[u8]) {
    for report in zookeeper::replay(octets) {
        let Report::Service(host, instances) = report else {
            continue;
        };
        assert!(host.ends_with(".zookeeper"));
        assert!(instances.len() <= octets.len());
        assert!(instances.iter().all(|i| i.port > 0 && !i.address.is_empty() && i.weight >= 0.0));
    }
}

fn text(octets: &[u8]) -> Vec<u8> {
    [&(octets.len() as u32).to_be_bytes()[..], octets].concat()
}

fn children(names: &[&[u8]]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = names.iter().map(|n| text(n)).collect();
    [&(names.len() as u32).to_be_bytes()[..], &names.concat()].concat()
}

/// An answer to the question with a number.
fn answer(number: u32, body: &[u8]) -> Vec<u8> {
    text(&[&number.to_be_bytes()[..], &[0; 12], body].concat())
}

fuzz_target!(|octets: &[u8]| {
    check(octets);
    // The roots are `/dubbo`, `/services` and `/`; then an interface, an application, and its instance.
    let told = [
        answer(1, &children(&[b"i"])),
        answer(2, &children(&[b"a"])),
        answer(3, &children(&[])),
        answer(4, &children(&octets.split(|o| *o == b'\n').collect::<Vec<_>>())),
        answer(5, &children(&[b"x"])),
        answer(6, &text(octets)),
    ];
    check(&told.concat());
});

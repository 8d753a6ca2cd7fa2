//! Addresses that no author may give others to connect to: they mean the machine or the network of whoever connects.
//!
//! Loopback, the link, nowhere, multicast, and the addresses at which clouds tell machines their secrets, in whatever form an
//! address or a name has. Private addresses are not among them: workloads live there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// This machine.
pub const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// What else is special.
pub const SPECIAL: [&str; 11] = [
    // Nowhere, and this network.
    "0.0.0.0/8",
    "::/128",
    // The link: metadata of most clouds is there.
    "169.254.0.0/16",
    "fe80::/10",
    // Multicast and broadcast.
    "224.0.0.0/4",
    "ff00::/8",
    "255.255.255.255/32",
    // Metadata of Alibaba, AWS and Google by IPv6, and Azure's host.
    "100.100.100.200/32",
    "fd00:ec2::/32",
    "fd20:ce::254/128",
    "168.63.129.16/32",
];

/// Names that mean this machine or the metadata of clouds, besides those below `localhost`.
const NAMES: [&str; 10] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.goog",
    "metadata.google.internal",
];

static NETS: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let all = LOOPBACK.iter().chain(&SPECIAL);
    all.filter_map(|net| net.parse().ok()).collect()
});

/// Whether an address is special, itself or by an IPv4 address that it carries.
pub fn is_special(address: IpAddr) -> bool {
    let among = |address: IpAddr| NETS.iter().any(|net| net.contains(&address));
    // `::ffff:169.254.169.254` is the same machine.
    match address.to_canonical() {
        IpAddr::V4(v4) => among(v4.into()),
        IpAddr::V6(v6) => among(v6.into()) || embedded(v6).into_iter().any(|v4| among(v4.into())),
    }
}

/// Whether an address or a host name is special as text: in brackets, with a zone, as numbers that resolvers take for an
/// address (`127.1`, `2130706433`, `0x7f.1`), or as a name of this machine.
pub fn is_special_host(host: &str) -> bool {
    if let Ok(address) = host.parse() {
        return is_special(address);
    }
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let inner = inner.unwrap_or(host);
    let without_zone = inner.split_once('%').map_or(inner, |(address, _)| address);
    if let Ok(address) = without_zone.parse() {
        return is_special(address);
    }
    if let Some(address) = numeric(inner) {
        return is_special(address.into());
    }
    let name = inner.trim().trim_end_matches('.').to_ascii_lowercase();
    NAMES.contains(&&*name) || name.ends_with(".localhost")
}

/// The address that `inet_aton` reads in a text: one to four numbers, decimal, octal or hexadecimal, the last of which fills
/// what the others leave.
fn numeric(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let (last, first) = parts.split_last()?;
    if first.len() > 3 {
        return None;
    }
    let mut bits = 0u32;
    for (at, part) in first.iter().enumerate() {
        let part = u8::try_from(number(part)?).ok()?;
        bits |= u32::from(part) << (24 - 8 * at);
    }
    let last = number(last)?;
    let room = 32 - 8 * first.len();
    (u64::from(last) < 1 << room).then(|| Ipv4Addr::from_bits(bits | last))
}

fn number(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (&*lower, 10),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, radix).ok())?
}

/// The IPv4 addresses to which a gateway may pass on what is sent to an IPv6 address.
pub fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|at| octets[at]));
    const LAST: [usize; 4] = [12, 13, 14, 15];
    match address.segments() {
        // NAT64 (RFC 6052) and addresses that are compatible with IPv4 (RFC 4291, 2.5.5.1).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![at(LAST)],
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        [0, 0, 0, 0, 0, 0, ..] => vec![at(LAST)],
        // NAT64 with a prefix of one's own (RFC 8215): where the IPv4 address stands depends on the prefix's length.
        [0x64, 0xff9b, 1, ..] => {
            let places = [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]];
            // Of a longer prefix these are zeros.
            let others = places.into_iter().map(at).filter(|v4| v4.octets()[0] != 0);
            others.chain([at(LAST)]).collect()
        }
        // 6to4 (RFC 3056).
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), Ipv4Addr::from_bits(!at(LAST).to_bits())],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_of_the_machine_are_special_in_every_form() {
        for host in [
            "127.0.0.1",
            "127.255.0.1",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "fe80::1",
            "fe80::1%eth0",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "localhost.localdomain",
            "metadata.google.internal",
            "127.1",
            "127.0.1",
            "127.0.0.1.",
            "2130706433",
            "0x7f.1",
            "0x7F000001",
            "0177.0.0.1",
            "017700000001",
            "0",
        ] {
            assert!(is_special_host(host), "{host}");
        }
        for host in [
            "10.0.0.1",
            "192.168.0.1",
            "fd00::1",
            "2001:db8::1",
            "web.bank",
            "localhost.example.com",
            "notlocalhost",
            "1.2",
            "256.1",
            "4294967296",
            "0x",
            "08.1",
            "127.0.0.1.example.com",
            "",
        ] {
            assert!(!is_special_host(host), "{host}");
        }
    }
}

//! Which addresses are asked: an author of configuration must not make the control plane ask what only it can reach.
//!
//! This machine, its link, and the addresses at which clouds tell machines their secrets are not asked, by whatever
//! form of the address. Private addresses are, unless the operator blocks them: issuers within clusters live there.
//!
//! Istio: pilot/pkg/model/jwks_resolver.go jwksBlockedIP, 1.32; it asks loopback addresses.

use std::net::IpAddr;

use ipnet::IpNet;
pub use model::special::LOOPBACK;
use model::special::{SPECIAL, embedded};

/// Which addresses are not asked.
#[derive(Clone, Debug)]
pub struct Guard {
    /// By the operator.
    blocked: Vec<IpNet>,
    /// Exceptions from what is not asked otherwise.
    allowed: Vec<IpNet>,
    never: Vec<IpNet>,
}

impl Guard {
    /// A guard with what an operator blocks and allows.
    pub fn new(blocked: &[IpNet], allowed: &[IpNet]) -> Self {
        let never = LOOPBACK.iter().chain(&SPECIAL);
        Self {
            blocked: blocked.to_vec(),
            allowed: allowed.to_vec(),
            never: never.filter_map(|net| net.parse().ok()).collect(),
        }
    }

    /// A guard for addresses that the operator names, who may name this machine.
    pub fn of_operator() -> Self {
        let own = LOOPBACK.iter().filter_map(|net| net.parse().ok());
        Self::new(&[], &own.collect::<Vec<_>>())
    }

    /// Whether an address is asked.
    pub fn allows(&self, address: IpAddr) -> bool {
        // `::ffff:169.254.169.254` is the same machine.
        let address = address.to_canonical();
        let inside = match address {
            IpAddr::V6(v6) => embedded(v6),
            IpAddr::V4(_) => Vec::new(),
        };
        let mut all = std::iter::once(address).chain(inside.into_iter().map(IpAddr::V4));
        all.all(|address| {
            let among = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
            !among(&self.blocked) && (among(&self.allowed) || !among(&self.never))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn what_only_a_machine_should_ask_is_never_asked() {
        let guard = Guard::new(&[], &[]);
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "ff02::1",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd20:ce::254",
            "0.0.0.0",
            "::",
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "::ffff:127.0.0.1",
            // In other clothes.
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::168.63.129.16",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:a9:fe:a9fe::",
            "64:ff9b:1:0:a9:fea9:fe00:0",
            "2002:a9fe:a9fe::1",
            "2001:0:7f00:1::1",
            "2001:0:808:808::5601:5601",
        ] {
            assert!(!guard.allows(address.parse().unwrap()), "{address}");
        }
        for address in [
            "10.0.0.1",
            "8.8.8.8",
            "168.63.129.17",
            "2001:db8::1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            "2002:808:808::1",
            "fd00::1",
        ] {
            assert!(guard.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn operators_block_further_ranges_and_make_exceptions() {
        let blocked = nets(&["10.0.0.0/8", "127.0.0.9/32"]);
        let guard = Guard::new(&blocked, &nets(&["127.0.0.0/8", "10.0.0.0/8"]));
        for (address, asked) in [
            ("10.1.2.3", false),
            ("::ffff:10.1.2.3", false),
            ("64:ff9b::10.1.2.3", false),
            ("11.0.0.1", true),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("64:ff9b::127.0.0.1", true),
            // What is blocked has no exception.
            ("127.0.0.9", false),
            ("::1", false),
            ("169.254.169.254", false),
        ] {
            assert_eq!(guard.allows(address.parse().unwrap()), asked, "{address}");
        }
        let own = Guard::of_operator();
        assert!(own.allows("127.0.0.1".parse().unwrap()) && own.allows("::1".parse().unwrap()));
        assert!(!own.allows("169.254.169.254".parse().unwrap()));
    }

    proptest::proptest! {
        #[test]
        fn an_address_in_another_form_is_asked_only_if_it_is_asked_itself(bits: u32, own: u16, low: u64) {
            let guard = Guard::new(&nets(&["10.0.0.0/8"]), &[]);
            let nearby = [bits, bits & 0x00ff_ffff | 127 << 24, bits & 0xffff | 0xa9fe << 16];
            for v4 in nearby.map(Ipv4Addr::from_bits) {
                let asked = guard.allows(v4.into());
                let [a, b, c, d] = v4.octets().map(u128::from);
                let whole = u128::from(v4.to_bits());
                let nat64 = 0x64_ff9b << 96;
                let forms = [
                    0xffff << 32 | whole,
                    nat64 | whole,
                    nat64 | 1 << 80 | u128::from(own) << 64 | whole,
                    nat64 | 1 << 80 | (a << 8 | b) << 64 | (c << 8 | d) << 40,
                    0x2002 << 112 | whole << 80 | u128::from(low),
                    0x2001 << 112 | whole << 64,
                ];
                for form in forms.map(Ipv6Addr::from_bits) {
                    proptest::prop_assert!(asked || !guard.allows(form.into()), "{v4} in {form}");
                }
            }
        }
    }
}

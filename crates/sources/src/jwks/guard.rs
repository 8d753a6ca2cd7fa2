//! Which addresses are asked for keys: a policy's author must not make the control plane ask what only it can reach.
//!
//! Link-local addresses and those at which clouds tell machines their secrets are never asked. Private and loopback
//! addresses are, unless the operator blocks them: issuers within clusters live there.
//!
//! Istio: pilot/pkg/model/jwks_resolver.go jwksBlockedIP, 1.32.

use std::net::IpAddr;

use ipnet::IpNet;

/// Metadata services of clouds outside of the link-local ranges.
const METADATA: [&str; 2] = ["100.100.100.200/32", "fd00:ec2::/32"];

/// Which addresses are not asked.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    blocked: Vec<IpNet>,
}

impl Guard {
    pub(super) fn new(blocked: &[IpNet]) -> Self {
        let metadata = METADATA.iter().filter_map(|net| net.parse().ok());
        Self {
            blocked: metadata.chain(blocked.iter().copied()).collect(),
        }
    }

    pub(super) fn allows(&self, address: IpAddr) -> bool {
        // `::ffff:169.254.169.254` is the same machine.
        let address = address.to_canonical();
        let link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.segments()[0] & 0xff0f == 0xff02,
        };
        let nowhere = address.is_unspecified();
        !link_local && !nowhere && !self.blocked.iter().any(|net| net.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_machine_should_ask_is_never_asked() {
        let guard = Guard::new(&[]);
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "ff02::1",
            "224.0.0.1",
            "100.100.100.200",
            "fd00:ec2::254",
            "0.0.0.0",
            "::",
        ] {
            assert!(!guard.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["10.0.0.1", "127.0.0.1", "8.8.8.8", "2001:db8::1"] {
            assert!(guard.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn operators_block_further_ranges() {
        let guard = Guard::new(&["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        assert!(!guard.allows("10.1.2.3".parse().unwrap()));
        assert!(!guard.allows("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!guard.allows("::1".parse().unwrap()));
        assert!(guard.allows("11.0.0.1".parse().unwrap()));
    }
}

//! The DNS server of the agent beside a proxy, which answers for names that the proxy resolves as requests come.
//!
//! Istio: pilot/pkg/networking/core/networkfilter.go buildAllowAnyDynamicDNSDNSCacheConfig, 1.32.

use std::net::{Ipv4Addr, SocketAddr};

use mesh::capabilities::Loadable;
use mesh::proxy::Traits;
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::extensions::network::dns_resolver::cares::v3::CaresDnsResolverConfig;
use xds::any;

use crate::load_assignment::groups;

/// The resolver that asks stated servers.
pub(super) const CARES: &str = "envoy.network.dns_resolver.cares";
/// Where the agent listens if the proxy does not say it.
const PORT: u16 = 15053;

/// Where the agent of a proxy answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AgentDns(SocketAddr);

impl AgentDns {
    /// That of a proxy; `None` where the agent does not capture DNS, or the proxy lacks the resolver.
    pub(crate) fn of(proxy: &Traits<'_>) -> Option<Self> {
        let captures = proxy.flag("DNS_CAPTURE") && Loadable::of(proxy).has(CARES);
        captures.then(|| {
            let stated = proxy.text("DNS_PROXY_ADDR").unwrap_or_default();
            Self(address(&stated))
        })
    }

    /// The resolver that asks it.
    pub(super) fn resolver(self) -> TypedExtensionConfig {
        let Self(address) = self;
        TypedExtensionConfig {
            name: CARES.to_owned(),
            typed_config: Some(any(&CaresDnsResolverConfig {
                resolvers: vec![groups::socket(&address.ip().to_string(), address.port())],
                ..CaresDnsResolverConfig::default()
            })),
        }
    }
}

/// The address that a proxy states; the usual one where that cannot be read.
fn address(stated: &str) -> SocketAddr {
    let at_loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let found = match stated.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(at_loopback),
        None => stated.parse().ok(),
    };
    let found = found.filter(|address: &SocketAddr| address.port() != 0);
    found.unwrap_or_else(|| at_loopback(PORT))
}

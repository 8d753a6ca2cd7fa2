//! Filters that resolve names as traffic comes, for wildcard hosts.
//!
//! Istio: pilot/pkg/networking/core/networkfilter.go buildSNIDFPFilter and pilot/pkg/xds/filters/filters.go
//! buildDynamicForwardProxyFilter, 1.32.

use model::host::Hostname;
use proto_envoy::envoy::config::cluster::v3::cluster::DnsLookupFamily;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;
use proto_envoy::envoy::extensions::filters::http::dynamic_forward_proxy::v3 as http;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use proto_envoy::envoy::extensions::filters::network::sni_dynamic_forward_proxy::v3 as sni;

use mesh::capabilities::name;
use mesh::cluster_names;
use policy::filters;
use xds::any;

/// Which addresses are looked up.
pub type Family = DnsLookupFamily;

/// Which addresses a proxy with addresses of these families looks up.
///
/// Istio: pilot/pkg/networking/util/util.go SelectDNSLookupFamily, 1.32.
pub fn family(v4: bool, v6: bool, dual_stack: bool) -> Family {
    match (v4, v6) {
        (false, true) => DnsLookupFamily::V6Only,
        (true, true) if dual_stack => DnsLookupFamily::All,
        _ => DnsLookupFamily::V4Only,
    }
}

/// Resolves the authority of requests; the host's cluster shares the cache.
pub fn http_filter(host: &Hostname, family: Family) -> HttpFilter {
    http_filter_of(cache(host, family))
}

/// Resolves the authority of requests in that cache.
pub fn http_filter_of(cache: DnsCacheConfig) -> HttpFilter {
    filters::http(
        name::DYNAMIC_FORWARD_PROXY,
        any(&http::FilterConfig {
            implementation_specifier: Some(
                http::filter_config::ImplementationSpecifier::DnsCacheConfig(cache),
            ),
            ..Default::default()
        }),
    )
}

/// Resolves the server name of TLS connections; the host's cluster shares the cache.
pub fn sni_filter(host: &Hostname, port: u16, family: Family) -> listener::Filter {
    filters::network(
        name::SNI_DYNAMIC_FORWARD_PROXY,
        any(&sni::FilterConfig {
            dns_cache_config: Some(cache(host, family)),
            port_specifier: Some(sni::filter_config::PortSpecifier::PortValue(u32::from(
                port,
            ))),
            ..Default::default()
        }),
    )
}

fn cache(host: &Hostname, family: Family) -> DnsCacheConfig {
    DnsCacheConfig {
        name: cluster_names::dns_cache(host),
        dns_lookup_family: family as i32,
        ..Default::default()
    }
}

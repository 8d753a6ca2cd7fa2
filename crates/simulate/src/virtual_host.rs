//! Which virtual host an authority belongs to.

use proto_envoy::envoy::config::route::v3::{RouteConfiguration, VirtualHost};

/// The virtual host of an authority: exact, then the longest `*.suffix`, then the longest `prefix.*`, then `*`. With the
/// domain that matched.
pub(crate) fn find<'a>(
    config: &'a RouteConfiguration,
    authority: &str,
) -> Option<(&'a VirtualHost, &'a str)> {
    let authority = authority.to_ascii_lowercase();
    let host = if config.ignore_port_in_host_matching {
        without_port(&authority)
    } else {
        &authority
    };
    let domains = || {
        let hosts = config.virtual_hosts.iter();
        hosts.flat_map(|vh| vh.domains.iter().map(move |d| (vh, d.as_str())))
    };
    let exact = domains().find(|(_, d)| d.eq_ignore_ascii_case(host));
    let longest = |matches: &dyn Fn(&str) -> bool| {
        // The first of equal ones.
        domains()
            .filter(|(_, d)| *d != "*" && d.len() <= host.len() && matches(&d.to_ascii_lowercase()))
            .fold(
                None,
                |best: Option<(&VirtualHost, &str)>, found| match best {
                    Some(best) if best.1.len() >= found.1.len() => Some(best),
                    _ => Some(found),
                },
            )
    };
    exact
        .or_else(|| longest(&|d| d.strip_prefix('*').is_some_and(|s| host.ends_with(s))))
        .or_else(|| longest(&|d| d.strip_suffix('*').is_some_and(|p| host.starts_with(p))))
        .or_else(|| domains().find(|(_, d)| *d == "*"))
}

/// An authority without its port.
fn without_port(authority: &str) -> &str {
    let (host, port) = match authority.rsplit_once(':') {
        Some(parts) => parts,
        None => return authority,
    };
    let is_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    // A colon of an IPv6 address without brackets is none before a port.
    if is_port && (!host.contains(':') || host.ends_with(']')) {
        host
    } else {
        authority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_the_end_of_an_address() {
        let cases = [
            ("a.example.com:80", "a.example.com"),
            ("a.example.com", "a.example.com"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("fe80::1", "fe80::1"),
        ];
        for (authority, host) in cases {
            assert_eq!(without_port(authority), host);
        }
    }

    #[test]
    fn the_closest_domain_wins() {
        let host = |name: &str, domain: &str| VirtualHost {
            name: name.into(),
            domains: vec![domain.into()],
            ..VirtualHost::default()
        };
        let config = RouteConfiguration {
            virtual_hosts: vec![
                host("any", "*"),
                host("suffix", "*.example.com"),
                host("longer", "*.a.example.com"),
                host("prefix", "www.*"),
                host("exact", "b.a.example.com"),
            ],
            ..RouteConfiguration::default()
        };
        let cases = [
            ("b.a.example.com", "exact"),
            ("B.a.Example.com", "exact"),
            ("c.a.example.com", "longer"),
            ("c.example.com", "suffix"),
            ("www.example.org", "prefix"),
            ("elsewhere", "any"),
        ];
        for (authority, name) in cases {
            let found = find(&config, authority).map(|(vh, _)| vh.name.as_str());
            assert_eq!(found, Some(name), "{authority}");
        }
    }
}

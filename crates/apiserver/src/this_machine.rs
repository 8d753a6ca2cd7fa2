//! Whether a request comes from a program of this machine, and not from elsewhere through a browser or a proxy here.
//!
//! A loopback peer alone does not say so: a web page can make a browser ask a name that leads to loopback (DNS
//! rebinding), and a reverse proxy asks for whoever reaches it. Nothing here knows what is asked for.

use std::net::IpAddr;

use http::header::{FORWARDED, HOST, HeaderName, ORIGIN, VIA};
use http::uri::Authority;
use http::{HeaderMap, Uri};

/// Told by browsers only: which site made the request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What proxies add, besides `Via` and `Forwarded`.
const OF_PROXIES: [&str; 3] = ["x-forwarded-", "x-envoy-", "x-real-ip"];

/// Why a request is not taken for one of this machine. The text says what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotLocal {
    /// From another machine.
    #[error(
        "only clients on this machine may ask; from elsewhere, use kubectl port-forward or ssh -L"
    )]
    Peer,
    /// Asked under a name that is not this machine's own.
    #[error(
        "only requests to localhost, 127.0.0.1 or [::1] are answered: use one of these in the address, not another \
         name that leads here"
    )]
    Host,
    /// Made by a page of another site.
    #[error("requests from other web pages are refused: type the address into the browser")]
    Site,
    /// Passed on.
    #[error("requests through a proxy are refused: ask this address directly")]
    Proxy,
}

/// Whether the request comes from a program of this machine, or a person at it.
///
/// # Errors
///
/// When it does not, or may not.
pub fn check(peer: IpAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), NotLocal> {
    if !peer.to_canonical().is_loopback() {
        return Err(NotLocal::Peer);
    }
    let passed_on = |name: &HeaderName| {
        let name = name.as_str();
        OF_PROXIES.iter().any(|prefix| name.starts_with(prefix))
    };
    if headers.contains_key(VIA) || headers.contains_key(FORWARDED) || headers.keys().any(passed_on)
    {
        return Err(NotLocal::Proxy);
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().map_err(|_| NotLocal::Host)?),
        (None, _) => None,
        (Some(_), Some(_)) => return Err(NotLocal::Host),
    };
    let named = uri.authority().map(Authority::as_str);
    // Where both are there, neither may be another's.
    if (host, named) == (None, None) || ![host, named].into_iter().flatten().all(is_own) {
        return Err(NotLocal::Host);
    }
    let own = host.or(named).unwrap_or_default();
    let same_site = |value: &http::HeaderValue| {
        let origin = value.to_str().unwrap_or_default();
        let origin = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        origin.is_some_and(|origin| origin.eq_ignore_ascii_case(own))
    };
    let by_hand = |value: &http::HeaderValue| value == "same-origin" || value == "none";
    if !headers.get_all(ORIGIN).iter().all(same_site)
        || !headers.get_all(SEC_FETCH_SITE).iter().all(by_hand)
    {
        return Err(NotLocal::Site);
    }
    Ok(())
}

/// Whether `HOST[:PORT]` is a name or an address that is always this machine's own.
fn is_own(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else {
        return false;
    };
    // A user part shows another host to a careless reader.
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let port = &authority.as_str()[host.len()..];
    if !port.is_empty()
        && port
            .strip_prefix(':')
            .is_none_or(|p| p.parse::<u16>().is_err())
    {
        return false;
    }
    let address = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1";

    fn asked(peer: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), NotLocal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        check(peer.parse().unwrap(), &uri.parse().unwrap(), &map)
    }

    #[test]
    fn programs_of_this_machine_are_answered_by_whatever_own_name() {
        for host in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.9.9.9:1",
            "[::1]",
            "[::1]:8080",
            "[::ffff:127.0.0.1]:80",
        ] {
            for peer in [HERE, "127.0.0.5", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(asked(peer, "/debug", &[("host", host)]), Ok(()), "{host}");
            }
            let absolute = format!("http://{host}/debug");
            assert_eq!(asked(HERE, &absolute, &[("host", host)]), Ok(()));
            assert_eq!(asked(HERE, &absolute, &[]), Ok(()));
        }
        let host = ("host", "localhost:8080");
        for others in [
            [("origin", "http://localhost:8080"), ("accept", "*/*")],
            [("sec-fetch-site", "same-origin"), ("accept", "*/*")],
            [("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
        ] {
            let [a, b] = others;
            assert_eq!(asked(HERE, "/debug", &[host, a, b]), Ok(()), "{others:?}");
        }
    }

    #[test]
    fn other_names_are_refused_as_dns_rebinding_needs_them() {
        for host in [
            "rebind.example.com",
            "rebind.example.com:8080",
            "localhost.example.com",
            "127.0.0.1.example.com:8080",
            "notlocalhost",
            "10.0.0.1:8080",
            "0.0.0.0:8080",
            "[::]:8080",
            "169.254.169.254",
            "localhost@example.com",
            "example.com@localhost",
            "localhost:8080,example.com",
            "localhost example.com",
            "[::1",
            "",
        ] {
            let refused = asked(HERE, "/debug", &[("host", host)]);
            assert_eq!(refused, Err(NotLocal::Host), "{host:?}");
        }
        let local = ("host", "localhost");
        let two = [local, ("host", "example.com")];
        assert_eq!(asked(HERE, "/debug", &two), Err(NotLocal::Host));
        assert_eq!(asked(HERE, "/debug", &[]), Err(NotLocal::Host));
        let other = "http://example.com/debug";
        assert_eq!(asked(HERE, other, &[local]), Err(NotLocal::Host));
        assert_eq!(asked(HERE, other, &[]), Err(NotLocal::Host));
    }

    #[test]
    fn pages_of_other_sites_and_what_proxies_pass_on_are_refused() {
        let host = ("host", "localhost:8080");
        for site in [
            ("origin", "http://example.com"),
            ("origin", "http://localhost:3000"),
            ("origin", "null"),
            ("origin", ""),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let refused = asked(HERE, "/debug", &[host, site]);
            assert_eq!(refused, Err(NotLocal::Site), "{site:?}");
        }
        for proxy in [
            ("x-forwarded-for", "10.1.2.3"),
            ("x-forwarded-proto", "http"),
            ("forwarded", "for=10.1.2.3"),
            ("via", "1.1 nginx"),
            ("x-real-ip", "10.1.2.3"),
            ("x-envoy-external-address", "10.1.2.3"),
        ] {
            let refused = asked(HERE, "/debug", &[host, proxy]);
            assert_eq!(refused, Err(NotLocal::Proxy), "{proxy:?}");
        }
        assert_eq!(asked("10.1.2.3", "/debug", &[host]), Err(NotLocal::Peer));
        assert_eq!(asked("fe80::1", "/debug", &[host]), Err(NotLocal::Peer));
    }
}

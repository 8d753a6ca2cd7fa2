//! The names by which a proxy's workload may call a service.
//!
//! Istio: pilot/pkg/networking/core/httproute.go generateVirtualHostDomains and GenerateAltVirtualHosts, 1.32.

use std::net::IpAddr;

use incr::KeyedSet;
use model::host::canonical;
use model::service::{Registry, Resolution, Service};

/// Brackets around what has colons.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// `host:port`.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    format!("{}:{port}", bracketed(host))
}

/// Whether an address of a service is one that requests can be for.
pub(super) fn is_domain(address: &str) -> bool {
    !address.is_empty() && address != "0.0.0.0"
}

/// A domain as what it means: requests for `cart.shop.` and `CART.shop` are for `cart.shop`, also where a port follows.
pub(super) fn meant(domain: &str) -> String {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let stated = domain.rsplit_once(':').filter(|(_, port)| is_port(port));
    let mut meant = canonical(stated.map_or(domain, |(host, _)| host)).to_ascii_lowercase();
    if let Some((_, port)) = stated {
        meant.push(':');
        meant.push_str(port);
    }
    meant
}

/// The domains of a service's virtual host, and which of them are short for its name.
#[derive(Debug, Default)]
pub(super) struct Domains {
    pub(super) all: Vec<String>,
    pub(super) short: Vec<String>,
}

/// How a proxy writes domains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speaker<'a> {
    /// The DNS domain of the proxy: names are short relative to it.
    pub(super) dns_domain: &'a str,
    /// The port that domains also stand with; none where ports are ignored.
    pub(super) port: Option<u16>,
    /// Whether names that end in a dot stand beside those that do not.
    pub(super) absolute: bool,
}

impl Speaker<'_> {
    /// The domains of a service that is reached at `addresses`.
    pub(super) fn domains(
        self,
        service: &Service,
        addresses: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Domains {
        let mut found = Domains::default();
        let aliases = service.aliases.iter().map(|a| &a.host);
        for host in std::iter::once(&service.host).chain(aliases) {
            let short = self.alternatives(host);
            self.push(&mut found.all, host);
            found.all.extend(short.iter().cloned());
            found.short.extend(short);
        }
        if service.resolution == Resolution::Passthrough && service.registry == Registry::Kubernetes
        {
            // Every pod of a headless service has a name of its own.
            for at in 0..found.all.len() {
                let pods = format!("*.{}", found.all[at]);
                found.all.push(pods);
            }
        }
        for address in addresses {
            let address = address.as_ref();
            if is_domain(address) {
                self.push(&mut found.all, address);
            }
        }
        found
    }

    fn push(self, domains: &mut Vec<String>, host: &str) {
        domains.push(bracketed(host));
        domains.extend(self.port.map(|port| with_port(host, port)));
    }

    /// Other ways to write a host name: with a dot at its end, and without what it shares with the proxy's domain. Nothing
    /// short is left of a wildcard for all that is in that domain: `*` is everybody's.
    pub(super) fn alternatives(self, host: &str) -> Vec<String> {
        let mut found = self.all_alternatives(host);
        let of_port = self.port.map(|port| with_port("*", port));
        found.retain(|name| name != "*" && of_port.as_ref() != Some(name));
        found
    }

    fn all_alternatives(self, host: &str) -> Vec<String> {
        let mut found = Vec::new();
        if self.absolute {
            let absolute = format!("{host}.");
            if host.parse::<IpAddr>().is_err() {
                found.push(absolute.clone());
            }
            found.extend(self.port.map(|port| with_port(&absolute, port)));
        }
        if self.dns_domain.contains(".svc.") {
            // Other names are not shortened: they could collide with those of services.
            if host.ends_with(cluster_suffix(self.dns_domain)) {
                for short in kubernetes(host, self.dns_domain) {
                    self.push(&mut found, &short);
                }
            }
            return found;
        }
        let shared = shared_labels(host, self.dns_domain);
        if shared == 0 {
            return found;
        }
        let labels: Vec<&str> = host.split('.').collect();
        let (unique, common) = labels.split_at(labels.len() - shared);
        let short = unique.join(".");
        self.push(&mut found, &short);
        if unique.len() == 2 {
            self.push(&mut found, &format!("{short}.{}", common[0]));
        }
        found
    }
}

/// The part of a proxy's domain from `.svc.` on.
fn cluster_suffix(domain: &str) -> &str {
    match domain.find(".svc.") {
        Some(at) if at > 0 => &domain[at..],
        _ => domain,
    }
}

/// The short names of a service of Kubernetes.
fn kubernetes(host: &str, dns_domain: &str) -> Vec<String> {
    let own = dns_domain.split(".svc.").next().unwrap_or_default();
    let Some(end) = host.find(".svc.").filter(|at| *at > 0) else {
        return Vec::new();
    };
    let Some(dot) = host.find('.').filter(|dot| *dot < end) else {
        return Vec::new();
    };
    let (name, qualified) = (&host[..dot], &host[..end]);
    if &host[dot + 1..end] == own {
        return vec![
            name.to_owned(),
            format!("{qualified}.svc"),
            qualified.to_owned(),
        ];
    }
    vec![qualified.to_owned(), format!("{qualified}.svc")]
}

/// How many labels two names have in common, counted from the end.
fn shared_labels(host: &str, domain: &str) -> usize {
    host.rsplit('.')
        .zip(domain.rsplit('.'))
        .take_while(|(a, b)| a == b)
        .count()
}

/// Keeps each domain for the first virtual host that wants it.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    domains: KeyedSet<String>,
    /// Full names of services, which nobody takes as short ones.
    pub(super) full: KeyedSet<String>,
    /// What domains of Services of the proxy's namespace mean, which only objects of that namespace may have.
    pub(super) own: KeyedSet<String>,
}

impl Claimed {
    /// The domains that are still free, now claimed; `foreign` is who is of another namespace.
    pub(super) fn claim(&mut self, wanted: Domains, foreign: bool) -> Vec<String> {
        let Domains { mut all, short } = wanted;
        all.retain(|domain| {
            if short.contains(domain) && self.full.contains(domain) {
                return false;
            }
            let is_kept = foreign && !self.own.is_empty() && self.own.contains(&meant(domain));
            !is_kept && self.domains.insert(domain.to_ascii_lowercase())
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Claimed, Domains, Speaker, meant};

    fn short(host: &str, domain: &str, port: Option<u16>) -> Vec<String> {
        Speaker {
            dns_domain: domain,
            port,
            absolute: false,
        }
        .alternatives(host)
    }

    #[test]
    fn domains_are_those_of_the_recordings() {
        use testkit::cases;

        use model::service::{Registry, Resolution, ServiceAlias};
        use testkit::service;
        for case in cases("core", "core.generateVirtualHostDomains") {
            let recorded = &case["in"]["service"];
            let attributes = &recorded["Attributes"];
            // Which address a proxy knows of several is chosen elsewhere.
            if !recorded["ClusterVIPs"].is_null() {
                continue;
            }
            let mut service = service(recorded["Hostname"].as_str().expect("a host"), "ns");
            if recorded["Resolution"] == 2 {
                service.resolution = Resolution::Passthrough;
            }
            if attributes["ServiceRegistry"] == "Kubernetes" {
                service.registry = Registry::Kubernetes;
            }
            let aliases = attributes["Aliases"].as_array().into_iter().flatten();
            let aliases = aliases.filter_map(|a| {
                Some(ServiceAlias {
                    host: a["Hostname"].as_str()?.into(),
                    namespace: a["Namespace"].as_str()?.into(),
                })
            });
            service.aliases = aliases.collect();
            let speaker = Speaker {
                dns_domain: case["in"]["node"]["DNSDomain"].as_str().unwrap_or_default(),
                port: None,
                absolute: true,
            };
            let found = speaker.domains(&service, std::iter::empty::<&str>()).all;
            assert_eq!(serde_json::json!(found), case["out"][0], "{}", case["test"]);
        }
    }

    #[test]
    fn a_service_of_the_same_namespace_is_known_by_its_name_alone() {
        assert_eq!(
            short(
                "cart.shop.svc.cluster.local",
                "shop.svc.cluster.local",
                None
            ),
            ["cart", "cart.shop.svc", "cart.shop"]
        );
    }

    #[test]
    fn a_service_of_another_namespace_is_known_with_its_namespace() {
        assert_eq!(
            short(
                "cart.shop.svc.cluster.local",
                "edge.svc.cluster.local",
                Some(80)
            ),
            [
                "cart.shop",
                "cart.shop:80",
                "cart.shop.svc",
                "cart.shop.svc:80"
            ]
        );
    }

    #[test]
    fn a_host_outside_the_cluster_has_no_short_name() {
        assert!(short("example.com", "shop.svc.cluster.local", None).is_empty());
        assert!(short("example.com", "", None).is_empty());
    }

    #[test]
    fn outside_of_kubernetes_the_common_domain_is_left_out() {
        assert_eq!(
            short("foo.local.campus.net", "remote.campus.net", None),
            ["foo.local", "foo.local.campus"]
        );
        assert_eq!(
            short("foo.local.campus.net", "local.campus.net", None),
            ["foo"]
        );
    }

    #[test]
    fn a_short_name_does_not_take_the_full_name_of_another_service() {
        let mut claimed = Claimed::default();
        claimed.full.insert("foo.com".to_owned());
        let wanted = Domains {
            all: vec!["foo.com.svc".to_owned(), "foo.com".to_owned()],
            short: vec!["foo.com".to_owned()],
        };
        assert_eq!(claimed.claim(wanted, false), ["foo.com.svc"]);
    }

    #[test]
    fn what_a_service_of_the_namespace_is_called_nobody_elsewhere_claims() {
        let mut claimed = Claimed::default();
        claimed.own.insert("cart.shop".to_owned());
        let wanted = || Domains {
            all: ["Cart.shop", "cart.shop.", "other"]
                .map(str::to_owned)
                .into(),
            short: Vec::new(),
        };
        assert_eq!(claimed.claim(wanted(), true), ["other"]);
        assert_eq!(claimed.claim(wanted(), false), ["Cart.shop", "cart.shop."]);
    }

    #[test]
    fn a_domain_means_the_same_with_a_dot_at_its_end() {
        for (written, means) in [
            ("cart.shop", "cart.shop"),
            ("Cart.shop.", "cart.shop"),
            ("cart.:80", "cart:80"),
            ("[fe80::1]:80", "[fe80::1]:80"),
            ("[fe80::1]", "[fe80::1]"),
            ("*.shop.", "*.shop"),
        ] {
            assert_eq!(meant(written), means, "{written}");
        }
    }
}

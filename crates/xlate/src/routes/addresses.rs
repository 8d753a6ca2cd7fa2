//! Whose an address is that several services have as a domain.

use std::sync::Arc;

use incr::KeyedMap;
use model::age::Age;
use model::host::Hostname;
use model::service::Service;

use super::domains::{is_domain, with_port};

/// Who comes first: whoever does not come second by whose it is, then the older one.
type Rank<'a> = (bool, Age, &'a str, &'a str);

/// The services that have the addresses of the ports.
#[derive(Debug, Default)]
pub(super) struct Addresses<'a> {
    holders: KeyedMap<(u16, Arc<str>), (Rank<'a>, &'a Hostname)>,
    /// Those that several services have, as domains with ports.
    contested: KeyedMap<String, &'a Hostname>,
}

impl<'a> Addresses<'a> {
    /// Adds the addresses that a service, which is called `host` here, has on a port. `is_first` says that it comes before all others:
    /// it is a Service of the proxy's namespace, or the operator's.
    pub(super) fn add(
        &mut self,
        service: &'a Service,
        (host, port): (&'a Hostname, u16),
        is_first: bool,
        addresses: Vec<Arc<str>>,
    ) {
        let rank = (
            !is_first,
            service.created,
            &*service.name,
            &*service.namespace,
        );
        for address in addresses.into_iter().filter(|address| is_domain(address)) {
            let Some(held) = self.holders.get_mut(&(port, address.clone())) else {
                self.holders.insert((port, address), (rank, host));
                continue;
            };
            if held.1 == host {
                continue;
            }
            if rank < held.0 {
                *held = (rank, host);
            }
            self.contested.insert(with_port(&address, port), held.1);
        }
    }

    /// Whether a domain of a port, with it or without, is an address of another service than the one that is called `host`.
    pub(super) fn is_of_another(&self, domain: &str, port: u16, host: &Hostname) -> bool {
        if self.contested.is_empty() {
            return false;
        }
        let end = format!(":{port}");
        let domain = domain.strip_suffix(&end).unwrap_or(domain);
        let holder = self.contested.get(&format!("{domain}{end}"));
        holder.is_some_and(|holder| *holder != host)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::age::Age;

    use super::Addresses;

    #[test]
    fn an_address_is_of_the_one_that_comes_first() {
        let mut services =
            ["c.example", "b.example", "a.example"].map(|host| testkit::service(host, "ns"));
        services[0].created = Age::First;
        let [oldest, own, last] = &services;
        let mut addresses = Addresses::default();
        let services = [(last, false), (oldest, false), (own, true)];
        for (service, is_first) in services {
            let at = (&service.host, 80);
            let of_it = service.host.as_str();
            let all = ["10.0.0.1", "fe80::1", "0.0.0.0", of_it].map(Arc::<str>::from);
            addresses.add(service, at, is_first, all.to_vec());
            addresses.add(service, at, false, vec!["10.0.0.2".into()]);
        }
        addresses.add(last, (&last.host, 81), false, vec!["10.0.0.1".into()]);
        let others = |domain: &str, port: u16| {
            let all = [oldest, own, last].into_iter();
            let others = all.filter(|s| addresses.is_of_another(domain, port, &s.host));
            others.map(|s| s.host.as_str()).collect::<Vec<_>>()
        };
        for domain in ["10.0.0.1", "10.0.0.1:80", "[fe80::1]", "[fe80::1]:80"] {
            assert_eq!(others(domain, 80), ["c.example", "a.example"], "{domain}");
        }
        assert_eq!(others("10.0.0.2", 80), ["b.example", "a.example"]);
        for (domain, port) in [("10.0.0.1", 81), ("0.0.0.0", 80), ("a.example", 80)] {
            assert!(others(domain, port).is_empty(), "{domain}:{port}");
        }
    }
}

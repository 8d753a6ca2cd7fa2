//! Which services of a port a rule is about, by its hosts.
//!
//! Istio: pilot/pkg/networking/core/route/route.go separateVSHostsAndServices, 1.32.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use incr::KeyedMap;
use model::host::Hostname;
use model::object::ObjectName;

use super::plan::OnPort;
use mesh::hosts::{Ends, Wildcards};
use mesh::scope::EgressScope;
use mesh::virtual_service::{Semantics, VirtualServiceHead};

/// The services of a port, found by what rules call them.
pub(super) struct Named<'a> {
    services: &'a BTreeMap<Hostname, OnPort>,
    /// Those whose hosts are wildcards.
    wildcards: Wildcards<'a, &'a OnPort>,
    /// All by their ends: needed for rules with wildcards only.
    ends: OnceCell<Ends<&'a OnPort>>,
}

impl<'a> Named<'a> {
    pub(super) fn new(services: &'a BTreeMap<Hostname, OnPort>) -> Self {
        Self {
            services,
            wildcards: Wildcards::new(services.iter().map(|(host, s)| (&**host, s))),
            ends: OnceCell::new(),
        }
    }

    /// Whether a rule is about some service of the port.
    pub(super) fn concerned_by(&self, head: &VirtualServiceHead) -> bool {
        head.hosts.iter().any(|host| {
            let host = host.to_ascii_lowercase();
            self.services.contains_key(host.as_str())
                || self.wildcards.cover(&host)
                || (host.starts_with('*') && self.ends().covered(&host).next().is_some())
        })
    }

    /// The hosts of a rule that are no services, and the services that it is about.
    pub(super) fn split(
        &self,
        head: &'a VirtualServiceHead,
        specificity: &Specificity<'_>,
    ) -> (Vec<&'a str>, Vec<&'a OnPort>) {
        let mut hosts = Vec::new();
        let mut matched = Vec::new();
        let (wildcards, exact): (Vec<_>, Vec<_>) =
            head.hosts.iter().partition(|h| h.starts_with('*'));
        for host in exact {
            match self.services.get(host.to_ascii_lowercase().as_str()) {
                Some(service) => matched.push(service),
                None => hosts.push(&**host),
            }
        }
        for host in wildcards {
            if head.semantics == Semantics::Gateway {
                hosts.push(host);
                continue;
            }
            let wildcard = host.to_ascii_lowercase();
            let found = self.overlapping(&wildcard);
            if found.is_empty() {
                hosts.push(host);
            }
            // A service belongs to the rule that names it best.
            let own = |s: &&OnPort| specificity.rule_for(&s.host) == Some(&head.name);
            matched.extend(found.into_iter().filter(own));
        }
        (hosts, matched)
    }

    /// The services of the port that a rule is about which is refused: by the services, since its hosts are too many.
    pub(super) fn of_refused(
        &self,
        head: &VirtualServiceHead,
        found: &[(Hostname, bool)],
        specificity: &Specificity<'_>,
    ) -> Vec<&'a OnPort> {
        let found = found
            .iter()
            .filter(|(host, exact)| *exact || specificity.rule_for(host) == Some(&head.name));
        found
            .filter_map(|(host, _)| self.services.get(host))
            .collect()
    }

    /// The services that a wildcard covers, and those that cover it, by host.
    fn overlapping(&self, wildcard: &str) -> Vec<&'a OnPort> {
        let covered = self.ends().covered(wildcard);
        let mut found: Vec<&OnPort> = covered
            .chain(self.wildcards.covering(wildcard))
            .copied()
            .collect();
        found.sort_by(|a, b| a.host.cmp(&b.host));
        found.dedup_by(|a, b| a.host == b.host);
        found
    }

    fn ends(&self) -> &Ends<&'a OnPort> {
        self.ends
            .get_or_init(|| Ends::new(self.services.iter().map(|(host, s)| (&**host, s))))
    }
}

/// Which rule is most specific for a host: of several that say the same, the first.
pub(super) struct Specificity<'a> {
    exact: KeyedMap<&'a str, &'a ObjectName>,
    wildcards: Wildcards<'a, (&'a str, &'a ObjectName)>,
}

impl<'a> Specificity<'a> {
    pub(super) fn of(egress: &'a EgressScope) -> Self {
        let hosts = || {
            let rules = egress.rules.iter();
            rules.flat_map(|head| head.hosts.iter().map(move |host| (&**host, &head.name)))
        };
        let mut exact = KeyedMap::default();
        for (host, rule) in hosts().filter(|(host, _)| !host.starts_with('*')) {
            exact.entry(host).or_insert(rule);
        }
        Self {
            exact,
            wildcards: Wildcards::new(hosts().map(|(host, rule)| (host, (host, rule)))),
        }
    }

    fn rule_for(&self, host: &str) -> Option<&'a ObjectName> {
        if let Some(rule) = self.exact.get(host) {
            return Some(rule);
        }
        let (_, rule) = self.wildcards.covering(host).next()?;
        Some(rule)
    }
}

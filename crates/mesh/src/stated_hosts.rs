//! The hosts that servers of a Gateway state: for which namespaces, and how often.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::Gateway;
use model::kinds::kube::ANY_HOST;
use model::object::ObjectName;
use store::{Reads, Snapshot};

/// For which namespaces a Gateway states a host.
pub(crate) enum For<'h> {
    /// Its own.
    Own,
    /// One that it names.
    One(&'h str),
    /// All.
    All,
}

/// A host of a server as it is stated.
pub(crate) fn stated_for(host: &str) -> (For<'_>, &str) {
    match host.split_once('/') {
        None | Some((".", _)) => (For::Own, host.strip_prefix("./").unwrap_or(host)),
        Some(("*", host)) => (For::All, host),
        Some((namespace, host)) => (For::One(namespace), host),
    }
}

/// How often the servers of a Gateway state hosts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HostsOf(pub(crate) ObjectName);

/// By host, how many servers of a Gateway state it.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct StatedHosts {
    by_host: BTreeMap<String, usize>,
    /// The wildcards among them, by what follows the `*`.
    by_end: BTreeMap<String, usize>,
    servers: usize,
}

impl Query<Snapshot> for HostsOf {
    type Value = Arc<StatedHosts>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<StatedHosts> {
        let mut stated = StatedHosts::default();
        if let Some(gateway) = cx.get::<Gateway>(&self.0) {
            stated.servers = gateway.spec.servers.len();
            for host in gateway.spec.servers.iter().flat_map(|s| &s.hosts) {
                let (_, host) = stated_for(host);
                stated.take(host, 1);
            }
        }
        stated.into()
    }
}

impl StatedHosts {
    /// Takes in a host that so many servers state.
    fn take(&mut self, host: &str, servers: usize) {
        *self.by_host.entry(host.to_owned()).or_default() += servers;
        if let Some(end) = host.strip_prefix('*') {
            *self.by_end.entry(end.to_owned()).or_default() += servers;
        }
    }

    /// How many servers have the routes of a rule for these hosts, at most.
    pub(crate) fn serving(&self, hosts: &[String]) -> usize {
        let of = |host: &String| match host.strip_prefix('*') {
            Some("") => self.servers,
            Some(suffix) => self.below(suffix) + self.stating(host),
            None => self.stating(host),
        };
        let serving = hosts.iter().map(of).fold(0, usize::saturating_add);
        serving.min(self.servers)
    }

    /// Servers that state a host, or a wildcard above it.
    fn stating(&self, host: &str) -> usize {
        let (name, least) = match host.strip_prefix("*.") {
            Some(below) => (below, 0),
            None if host.starts_with('*') => ("", 0),
            None => (host, 1),
        };
        let dots = name.match_indices('.').filter(|(at, _)| *at >= least);
        let wider = dots.filter_map(|(at, _)| self.by_end.get(name.get(at..)?));
        let this = self.by_host.get(host);
        let any = self.by_host.get(ANY_HOST);
        this.into_iter().chain(wider).chain(any).sum()
    }

    /// Servers that state a host below a wildcard.
    fn below(&self, suffix: &str) -> usize {
        let is_below = |host: &String| {
            let rest = host.strip_suffix(suffix);
            rest.is_some_and(|rest| rest != ANY_HOST)
        };
        let hosts = self.by_host.iter();
        let hosts = hosts.filter(|(host, _)| is_below(host));
        hosts.map(|(_, servers)| servers).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_counted_whose_hosts_overlap() {
        let stated = |hosts: &[(&str, usize)]| {
            let mut stated = StatedHosts::default();
            for (host, servers) in hosts {
                stated.take(host, *servers);
                stated.servers += servers;
            }
            stated
        };
        let gateway = stated(&[
            ("a.shop.test", 2),
            ("b.shop.test", 1),
            ("*.shop.test", 3),
            ("*", 1),
        ]);
        for (hosts, serving) in [
            (vec!["a.shop.test"], 6),
            (vec!["c.shop.test"], 4),
            (vec!["x.test"], 1),
            (vec!["*.shop.test"], 7),
            (vec!["*.test"], 7),
            (vec!["*.x.shop.test"], 4),
            (vec!["x.y.shop.test"], 4),
            (vec!["*x.shop.test"], 1),
            (vec![".shop.test"], 1),
            (vec!["*"], 7),
            (vec!["a.shop.test", "b.shop.test"], 7),
        ] {
            let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
            assert_eq!(gateway.serving(&hosts), serving, "{hosts:?}");
        }
    }
}

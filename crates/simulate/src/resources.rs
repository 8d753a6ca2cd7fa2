//! The resources that a proxy has.

use std::collections::{BTreeMap, BTreeSet};

use std::net::IpAddr;

use prost::{DecodeError, Message};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use proto_envoy::envoy::config::listener::v3::Listener;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;

use crate::listener::socket;
use crate::tls;
use crate::walk::tcp_cluster;

/// Listeners, routes, clusters and endpoints of one proxy.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) routes: BTreeMap<String, RouteConfiguration>,
    pub(crate) clusters: BTreeMap<String, Cluster>,
    pub(crate) endpoints: BTreeMap<String, ClusterLoadAssignment>,
    /// The names of the secrets that can be used; none where they are not known, and taken to be there.
    secrets: Option<BTreeSet<String>>,
}

/// A resource is not what its type says. Who made it can act.
#[derive(Debug)]
pub struct Unreadable {
    /// Its type.
    pub type_url: String,
    source: DecodeError,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a resource is no {}", self.type_url)
    }
}

impl std::error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Resources {
    /// Adds an encoded resource; other types than the four are left out.
    ///
    /// # Errors
    ///
    /// When the bytes are not of the type.
    pub fn add(&mut self, type_url: &str, body: &[u8]) -> Result<(), Unreadable> {
        let faulty = |source| Unreadable {
            type_url: type_url.to_owned(),
            source,
        };
        match type_url.rsplit('.').next().unwrap_or_default() {
            "Listener" => self.listeners.push(Listener::decode(body).map_err(faulty)?),
            "RouteConfiguration" => {
                let route = RouteConfiguration::decode(body).map_err(faulty)?;
                self.routes.insert(route.name.clone(), route);
            }
            "Cluster" => {
                let cluster = Cluster::decode(body).map_err(faulty)?;
                self.clusters.insert(cluster.name.clone(), cluster);
            }
            "ClusterLoadAssignment" => {
                let endpoints = ClusterLoadAssignment::decode(body).map_err(faulty)?;
                self.endpoints
                    .insert(endpoints.cluster_name.clone(), endpoints);
            }
            _ => {}
        }
        Ok(())
    }

    /// The names of the secrets that the listeners ask for.
    pub fn asked_secrets(&self) -> BTreeSet<String> {
        let listeners = self.listeners.iter();
        let chains = listeners.flat_map(|l| l.filter_chains.iter().chain(&l.default_filter_chain));
        chains.flat_map(tls::asked).collect()
    }

    /// States the names of the secrets that the proxy has and can use. Without that each is taken to be there.
    pub fn set_secrets(&mut self, usable: BTreeSet<String>) {
        self.secrets = Some(usable);
    }

    /// Whether the proxy has a secret of that name, as far as is known.
    pub(crate) fn has_secret(&self, name: &str) -> bool {
        let known = self.secrets.as_ref();
        known.is_none_or(|known| known.contains(name))
    }

    /// The address of a service, as far as the proxy knows it: from the domains of its virtual host, or from the
    /// listener that leads to it alone.
    pub fn address_of(&self, host: &str, port: u16) -> Option<IpAddr> {
        let named = |domain: &str| domain.eq_ignore_ascii_case(host);
        let hosts = self.routes.values().flat_map(|r| &r.virtual_hosts);
        let of_host = hosts.filter(|vh| vh.domains.iter().any(|d| named(d)));
        let of_domains = of_host
            .flat_map(|vh| &vh.domains)
            .find_map(|d| d.trim_matches(['[', ']']).parse().ok());
        of_domains.or_else(|| {
            let leads = |l: &&Listener| {
                let chains = l.filter_chains.iter().chain(&l.default_filter_chain);
                chains
                    .filter_map(tcp_cluster)
                    .any(|cluster| is_of(&cluster, host, port))
            };
            let addresses = self.listeners.iter().filter(leads);
            let addresses = addresses.filter_map(|l| socket(l.address.as_ref()?));
            addresses.map(|(a, _)| a).find(|a| !a.is_unspecified())
        })
    }
}

/// Whether a cluster is that of a service's port: `outbound|9080||reviews.shop.svc.cluster.local`.
fn is_of(cluster: &str, host: &str, port: u16) -> bool {
    let parts: Vec<&str> = cluster.split('|').collect();
    let [_, of_port, _, name] = parts[..] else {
        return false;
    };
    let rest = name.strip_prefix(host);
    of_port == port.to_string() && rest.is_some_and(|r| r.is_empty() || r.starts_with('.'))
}

//! The roots that workloads of the mesh judge each other by: those of its own authority, those that the mesh config adds, and
//! those that SPIFFE endpoints publish.
//!
//! A root that the mesh config adds for other trust domains signs for identities of these and for no others: proxies that
//! can bind it do ([`Roots::foreign`]), and those that cannot do not get it.
//!
//! Istio: pilot/pkg/trustbundle/trustbundle.go, 1.32. There, one bad certificate of the mesh config keeps all of them from
//! being used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use model::jwks::KeySource;
use model::settings::MeshConfig;
use model::trust::{of_bundle, of_pem};
use proto_istio::mesh::mesh_config::certificate_data::CertificateData as Data;
use store::{Reads, Snapshot};

/// Most endpoints of bundles that are asked.
pub const MOST_ENDPOINTS: usize = 64;

/// The SPIFFE endpoints that the mesh config names, each once.
pub fn endpoints(mesh: &MeshConfig) -> BTreeSet<KeySource> {
    let stated = mesh.ca_certificates.iter();
    let urls = stated.filter_map(|c| match &c.certificate_data {
        Some(Data::SpiffeBundleUrl(url)) if !url.is_empty() => Some(url.as_str()),
        _ => None,
    });
    let sources = urls.take(MOST_ENDPOINTS);
    sources.map(|url| KeySource::Bundle(url.into())).collect()
}

/// The trust domains of the mesh itself: its own and the aliases of that, each once.
pub fn own_domains(mesh: &MeshConfig) -> BTreeSet<&str> {
    let aliases = mesh.trust_domain_aliases.iter();
    let domains = std::iter::once(&mesh.trust_domain).chain(aliases);
    domains
        .map(String::as_str)
        .filter(|domain| !domain.is_empty())
        .collect()
}

/// Roots in PEM, by whom they may sign for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roots {
    /// Those that may sign for the trust domain of the mesh and its aliases, each once and sorted: those of its own
    /// authority, and those that the mesh config adds without naming other trust domains.
    pub own: BTreeSet<Arc<str>>,
    /// Those of other trust domains, by domain. None of them may sign for the mesh, unless it is among its own as well.
    pub foreign: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Roots {
    /// All of them, each once and sorted.
    pub fn all(&self) -> BTreeSet<&Arc<str>> {
        self.own
            .iter()
            .chain(self.foreign.values().flatten())
            .collect()
    }

    fn add(&mut self, domains: &[String], own: &BTreeSet<&str>, roots: Vec<Arc<str>>) {
        if roots.is_empty() {
            return;
        }
        let stated = domains.iter().filter(|domain| !domain.is_empty());
        let (ours, others): (Vec<_>, Vec<_>) = stated.partition(|d| own.contains(d.as_str()));
        for domain in &others {
            let of_domain = self.foreign.entry(domain.as_str().into()).or_default();
            of_domain.extend(roots.iter().cloned());
        }
        if others.is_empty() || !ours.is_empty() {
            self.own.extend(roots);
        }
    }
}

/// The roots of the mesh and of its partners.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TrustBundle;

impl Query<Snapshot> for TrustBundle {
    type Value = Roots;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut all = Roots::default();
        if let Some(own) = cx.roots() {
            all.own.extend(of_pem(&own.roots).unwrap_or_default());
        }
        let mesh = &cx.settings().mesh;
        let own = own_domains(mesh);
        let endpoints = endpoints(mesh);
        for stated in &mesh.ca_certificates {
            let roots = match &stated.certificate_data {
                Some(Data::Pem(pem)) => of_pem(pem),
                Some(Data::SpiffeBundleUrl(url)) => {
                    let endpoint = KeySource::Bundle(url.as_str().into());
                    let fetched = endpoints.contains(&endpoint).then(|| cx.keys(&endpoint));
                    let fetched = fetched.flatten();
                    let text = fetched.as_ref().and_then(|fetched| fetched.keys.as_ref());
                    text.map_or(Ok(Vec::new()), |text| of_bundle(text))
                }
                None => continue,
            };
            all.add(&stated.trust_domains, &own, roots.unwrap_or_default());
        }
        all
    }
}

//! Extension configurations (ECDS): what filters of listeners ask for by name.
//!
//! Istio: pilot/pkg/xds/ecds.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use mesh::capabilities::{Capabilities, CertificateSource, Loadable};
use mesh::edge::AskedOf;
use mesh::gateways::{self, GatewayKey};
use mesh::proxy::Traits;
use model::diagnostic::Diagnostic;
use model::module::ModuleDemand;
use model::node::Role;
use policy::edge::options::OptionsOf;
use policy::edge::{Can, library_configs};
use policy::envoy_filter;
use policy::envoy_filter::{ExtensionPatchesOf, SelectedBy};
use policy::traffic_extension::{self, ExtensionConfigOf, ExtensionsOf, PullFrom};
use store::{Reads, Snapshot};
use xds::ResourceSet;

use crate::judged;

/// Proxies that have the same extension configurations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExtensionConfigsOf {
    patched: SelectedBy,
    extensions: ExtensionsOf,
    /// Whether they have an agent, which fetches their modules and puts them into configurations before Envoy sees these.
    agent: bool,
    /// The cluster whose pull secrets they may have.
    pull: Option<PullFrom>,
    /// The Gateways of a gateway that runs Higress's library.
    library: Option<GatewayKey>,
}

impl ExtensionConfigsOf {
    /// What decides the extension configurations of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let identity = proxy.node.identity.as_ref();
        let is_gateway = proxy.node.role == Role::Router;
        let runs = is_gateway && Can::of(&Loadable::of(proxy)).runs_library();
        Self {
            library: runs.then(|| gateways::key_of(cx, proxy)),
            patched: SelectedBy::of(cx, proxy),
            extensions: ExtensionsOf::of(cx, proxy),
            agent: Capabilities::of(proxy).certificates == CertificateSource::Agent,
            pull: identity
                .filter(|i| i.namespace == *proxy.namespace())
                .map(|_| PullFrom(cx.settings().remote(&proxy.node.cluster).cloned())),
        }
    }

    /// The configurations that they may ask for: those that EnvoyFilters add, those of Wasm filters, and those of Higress's library.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let patches = cx.query(&ExtensionPatchesOf(self.patched.clone()));
        let added = envoy_filter::extension::added(&patches)
            .filter_map(|patch| judged::added(patch, !self.agent).ok())
            .map(Arc::new);
        let extensions = cx.query(&self.extensions);
        let wasm = extensions.iter().filter_map(|extension| {
            let key = ExtensionConfigOf {
                extension: extension.origin.clone(),
                agent: self.agent,
                pull: self.pull.clone(),
            };
            let config = (*cx.query(&key)).clone()?;
            match self.agent {
                true => Some(config),
                false => judged::extension(&config),
            }
        });
        let library = self.library.as_ref().and_then(|gateway| {
            let asked = cx.query(&AskedOf(gateway.clone()));
            let entries = (*asked).as_ref()?.entries.iter();
            let entries: Vec<_> = entries.map(|(_, entry)| entry).collect();
            let options = cx.query(&OptionsOf(gateway.clone()));
            let section = (*options).as_ref().map(|options| &options.mcp_servers);
            let namespace = &cx.settings().features.edge_namespace;
            Some(library_configs(section, &entries, namespace))
        });
        let library = library.into_iter().flatten().map(Arc::new);
        let library = library.filter_map(|resource| judged::extension(&resource));
        ResourceSet::new(added.chain(wasm).chain(library))
    }

    /// What EnvoyFilters add and proxies would refuse.
    pub(crate) fn refused(&self, cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
        let patches = cx.query(&ExtensionPatchesOf(self.patched.clone()));
        let added = envoy_filter::extension::added(&patches);
        added
            .filter_map(|patch| judged::added(patch, !self.agent).err())
            .map(|finding| *finding)
            .collect()
    }

    /// The modules that are to be fetched for them.
    pub(crate) fn wanted(&self, cx: &Cx<'_, Snapshot>) -> BTreeSet<ModuleDemand> {
        traffic_extension::wanted(cx, &self.extensions, self.agent)
    }
}

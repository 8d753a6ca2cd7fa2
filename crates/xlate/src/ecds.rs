//! Extension configurations (ECDS): what filters of listeners ask for by name.
//!
//! Istio: pilot/pkg/xds/ecds.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use mesh::capabilities::{Capabilities, CertificateSource};
use mesh::proxy::Traits;
use model::module::ModuleDemand;
use policy::envoy_filter;
use policy::envoy_filter::{ExtensionPatchesOf, SelectedBy};
use policy::traffic_extension::{self, ExtensionConfigOf, ExtensionsOf, SecretsFrom};
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

/// Proxies that have the same extension configurations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExtensionConfigsOf {
    patched: SelectedBy,
    extensions: ExtensionsOf,
    /// Whether they have an agent, which fetches their modules.
    agent: bool,
    /// The cluster of whose Secrets they may have something.
    secrets: Option<SecretsFrom>,
}

impl ExtensionConfigsOf {
    /// What decides the extension configurations of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let identity = proxy.node.identity.as_ref();
        Self {
            patched: SelectedBy::of(cx, proxy),
            extensions: ExtensionsOf::of(cx, proxy),
            agent: Capabilities::of(proxy).certificates == CertificateSource::Agent,
            secrets: identity
                .filter(|i| i.namespace == *proxy.namespace())
                .map(|_| SecretsFrom {
                    cluster: cx.settings().remote(&proxy.node.cluster).cloned(),
                    namespace: proxy.namespace().clone(),
                }),
        }
    }

    /// The configurations that they may ask for: those that EnvoyFilters add, and those of Wasm filters.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let patches = cx.query(&ExtensionPatchesOf(self.patched.clone()));
        let added = envoy_filter::extension::added(&patches)
            .map(|config| Arc::new(Resource::encode(config.name.as_str(), config)));
        let extensions = cx.query(&self.extensions);
        let wasm = extensions.iter().filter_map(|extension| {
            let key = ExtensionConfigOf {
                extension: extension.origin.clone(),
                agent: self.agent,
                secrets: self.secrets.clone(),
            };
            (*cx.query(&key)).clone()
        });
        ResourceSet::new(added.chain(wasm))
    }

    /// The modules that are to be fetched for them.
    pub(crate) fn wanted(&self, cx: &Cx<'_, Snapshot>) -> BTreeSet<ModuleDemand> {
        traffic_extension::wanted(cx, &self.extensions, self.agent)
    }
}

//! Mesh config and mesh networks: Istio's defaults, and what a file sets over them.
//!
//! A file sets whole fields, so a list or a map it names replaces the default one. Three fields are merged instead:
//! `defaultConfig` field by field with its `proxyMetadata` and `proxyHeaders`, `defaultProviders` field by field, and
//! `extensionProviders` by name. The file may also be a ConfigMap that holds the text, as Istio is installed.
// Istio: pkg/config/mesh/mesh.go ApplyMeshConfig, MergeProxyConfig, 1.32.

mod defaults;
mod selector;

use std::collections::BTreeSet;
use std::path::Path as FilePath;
use std::sync::Arc;

use prost::{Message, Name};
use proto_istio::descriptors;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, Severity};
use crate::parse::{Remark, Tree, code};

pub use defaults::{default_mesh_config, default_proxy_config};
pub use proto_istio::mesh::{MeshConfig, MeshNetworks, ProxyConfig};
pub use selector::selects_namespace;

/// Settings as they were read, or why there are none.
#[derive(Clone, PartialEq, Debug)]
pub struct Read<T> {
    /// The settings; `None` where a finding is an error.
    pub value: Option<T>,
    /// What there is to say about them.
    pub diagnostics: Vec<Diagnostic>,
}

/// Istio's defaults with what `text` sets over them. Keys of a ConfigMap: `mesh`.
pub fn read_mesh_config(text: &str, file: &Arc<FilePath>) -> Read<MeshConfig> {
    apply_mesh_config(text, default_mesh_config(), file)
}

/// `base` with what `text` sets over it.
pub fn apply_mesh_config(text: &str, base: MeshConfig, file: &Arc<FilePath>) -> Read<MeshConfig> {
    read(text, mesh_config_keys(), base, file, |base, mut over| {
        let mut merged = Tree::from_value(base);
        let fields = MergedFields::take(&mut merged, &mut over);
        merged.overlay(over, &descriptor::<MeshConfig>());
        fields.put(&mut merged);
        merged
    })
}

/// `base` with what `text` sets over its `defaultConfig`.
pub fn apply_proxy_config(text: &str, base: MeshConfig, file: &Arc<FilePath>) -> Read<MeshConfig> {
    let proxy = base.default_config.clone().unwrap_or_default();
    let read = read(text, &[], proxy, file, |base, over| {
        merge_proxy_config(Tree::from_value(base), over)
    });
    Read {
        value: read.value.map(|proxy| MeshConfig {
            default_config: Some(proxy),
            ..base
        }),
        diagnostics: read.diagnostics,
    }
}

/// The networks in `text`. Keys of a ConfigMap: `meshNetworks`.
pub fn read_mesh_networks(text: &str, file: &Arc<FilePath>) -> Read<MeshNetworks> {
    let base = MeshNetworks::default();
    read(text, mesh_networks_keys(), base, file, |_, over| over)
}

/// Keys of a ConfigMap that hold mesh config.
pub fn mesh_config_keys() -> &'static [&'static str] {
    &["mesh"]
}

/// Keys of a ConfigMap that hold mesh networks.
pub fn mesh_networks_keys() -> &'static [&'static str] {
    &["meshNetworks"]
}

impl<T> Read<T> {
    /// Adds what a judge has to say, with its place in the text that was read and the keys it may stand under. An
    /// error refuses the settings.
    pub fn judged(
        mut self,
        text: &str,
        file: &Arc<FilePath>,
        keys: &[&str],
        judge: impl FnOnce(&T, &mut Vec<Remark>),
    ) -> Self {
        let Some(value) = &self.value else {
            return self;
        };
        let mut remarks = Vec::new();
        judge(value, &mut remarks);
        if remarks.iter().any(|r| r.severity == Severity::Error) {
            self.value = None;
        }
        self.diagnostics
            .extend(Tree::remarked(text, keys, file, remarks));
        self
    }
}

fn descriptor<T: Name>() -> prost_reflect::MessageDescriptor {
    descriptors()
        .get_message_by_name(&T::full_name())
        .expect("the descriptor set holds every message of its crate")
}

/// Reads `text` as a message `T` and lets `merge` lay it over `base`.
fn read<T: Message + Name + Default + Serialize + DeserializeOwned>(
    text: &str,
    keys: &[&str],
    base: T,
    file: &Arc<FilePath>,
    merge: impl for<'a> FnOnce(&T, Tree<'a>) -> Tree<'a>,
) -> Read<T> {
    let (tree, mut diagnostics) = Tree::read(text, keys, &descriptor::<T>(), file);
    let value = match tree {
        Err(()) => None,
        Ok(None) => Some(base),
        Ok(Some(tree)) => match merge(&base, tree).to_value() {
            Ok(value) => Some(value),
            Err(message) => {
                diagnostics.push(Diagnostic::new(code::INVALID, Severity::Error, message));
                None
            }
        },
    };
    Read { value, diagnostics }
}

/// The fields of mesh config that are merged, taken out while the others are replaced.
struct MergedFields<'a> {
    proxy: Option<Tree<'a>>,
    default_providers: Option<Tree<'a>>,
    providers: Vec<Tree<'a>>,
    trust_domain_aliases: Vec<String>,
}

impl<'a> MergedFields<'a> {
    fn take(base: &mut Tree<'a>, over: &mut Tree<'a>) -> Self {
        let mut both = |field: &str| (base.take(field), over.take(field));
        let proxy = match both("defaultConfig") {
            (Some(base), Some(over)) => Some(merge_proxy_config(base, over)),
            (base, over) => base.or(over),
        };
        let default_providers = match both("defaultProviders") {
            (Some(mut base), Some(over)) => {
                base.overlay(
                    over,
                    &descriptor::<proto_istio::mesh::mesh_config::DefaultProviders>(),
                );
                Some(base)
            }
            (base, over) => base.or(over),
        };
        let (base_providers, over_providers) = both("extensionProviders");
        let mut providers = base_providers.map_or_else(Vec::new, Tree::into_items);
        for over in over_providers.map_or_else(Vec::new, Tree::into_items) {
            let same = |p: &&mut Tree<'a>| p.text("name") == over.text("name");
            match providers.iter_mut().find(same) {
                Some(provider) => *provider = over,
                None => providers.push(over),
            }
        }
        let (base_aliases, over_aliases) = both("trustDomainAliases");
        let aliases: BTreeSet<String> = [base_aliases, over_aliases]
            .into_iter()
            .flatten()
            .flat_map(Tree::into_items)
            .filter_map(|alias| alias.as_text().map(str::to_owned))
            .collect();
        Self {
            proxy,
            default_providers,
            providers,
            trust_domain_aliases: aliases.into_iter().collect(),
        }
    }

    fn put(self, into: &mut Tree<'a>) {
        into.put("defaultConfig", self.proxy);
        into.put("defaultProviders", self.default_providers);
        into.put("extensionProviders", Some(Tree::list(self.providers)));
        let aliases = self.trust_domain_aliases.into_iter().map(Tree::of_text);
        into.put("trustDomainAliases", Some(Tree::list(aliases.collect())));
    }
}

/// Lays one proxy config over another.
fn merge_proxy_config<'a>(mut base: Tree<'a>, mut over: Tree<'a>) -> Tree<'a> {
    // Fields of the headers that are there in both; others of the base are lost with the message that is replaced.
    const HEADERS: [&str; 5] = [
        "forwardedClientCert",
        "requestId",
        "attemptCount",
        "server",
        "envoyDebugHeaders",
    ];
    let metadata = match (base.take("proxyMetadata"), over.take("proxyMetadata")) {
        (Some(mut base), Some(over)) => {
            base.extend(over);
            Some(base)
        }
        (base, over) => base.or(over),
    };
    let headers = match (base.take("proxyHeaders"), over.take("proxyHeaders")) {
        (Some(mut base), Some(mut over)) => {
            if over.text("forwardedClientCert") == Some("UNDEFINED") {
                over.take("forwardedClientCert");
            }
            for field in HEADERS {
                if !over.has(field) {
                    over.put(field, base.take(field));
                }
            }
            Some(over)
        }
        (base, over) => base.or(over),
    };
    base.overlay(over, &descriptor::<ProxyConfig>());
    base.put("proxyMetadata", metadata);
    base.put("proxyHeaders", headers);
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Arc<FilePath> {
        FilePath::new("mesh.yaml").into()
    }

    #[test]
    fn a_file_replaces_fields_and_merges_the_proxy_config() {
        let read = read_mesh_config(
            "\
trustDomain: td1
trustDomainAliases: [b, a]
accessLogFile: null
enableTracing: false
unknown: 1
defaultConfig:
  proxyMetadata: {A: b}
  concurrency: 4
extensionProviders:
- name: envoy
  envoyFileAccessLog: {path: /dev/null}
- name: mine
  prometheus: {}
",
            &file(),
        );
        assert_eq!(read.diagnostics.len(), 1);
        assert_eq!(read.diagnostics[0].severity, Severity::Warning);
        assert_eq!(&*read.diagnostics[0].message, "unknown field `unknown`");
        let config = read.value.unwrap();
        assert_eq!(config.trust_domain, "td1");
        assert_eq!(config.trust_domain_aliases, ["a", "b"]);
        assert!(!config.enable_tracing);
        assert_eq!(config.proxy_listen_port, 15001);
        let proxy = config.default_config.unwrap();
        assert_eq!(proxy.status_port, 15020);
        assert_eq!(proxy.concurrency, Some(4));
        let names: Vec<_> = config
            .extension_providers
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(names, ["prometheus", "stackdriver", "envoy", "mine"]);
    }

    #[test]
    fn a_config_map_holds_the_text_under_a_key() {
        let text = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: istio}
data:
  mesh: |-
    trustDomain: td1
    rootNamespac: x
  meshNetworks: 'networks: {}'
";
        let read = read_mesh_config(text, &file());
        assert_eq!(read.value.unwrap().trust_domain, "td1");
        assert_eq!(
            read.diagnostics[0].to_string(),
            "mesh.yaml:7:5: warning[PIL0005]: rootNamespac: unknown field `rootNamespac` (did you mean `rootNamespace`?)"
        );
        assert_eq!(
            read_mesh_networks(text, &file()).value,
            Some(MeshNetworks::default())
        );
    }

    #[test]
    fn settings_without_meaning_are_refused() {
        for text in ["trustDomain: [", "enableTracing: 1"] {
            let read = read_mesh_config(text, &file());
            assert!(read.value.is_none(), "{text}");
            assert_eq!(read.diagnostics.len(), 1, "{text}");
        }
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# nothing\n", "---\n"] {
            assert_eq!(
                read_mesh_config(text, &file()).value,
                Some(default_mesh_config())
            );
        }
    }
}

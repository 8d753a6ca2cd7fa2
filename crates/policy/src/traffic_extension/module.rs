//! Where the module of a filter comes to the proxy from.
//!
//! An agent beside the proxy fetches what its URL names. For proxies without one the control plane does: what has come is a row
//! of the snapshot, and is handed over within the configuration of the filter.

use std::collections::BTreeSet;

use incr::Cx;
use mesh::capabilities::CertificateSource;
use mesh::class::Class;
use mesh::finding::{about_named, code};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::kube::Secret;
use model::module::{ModuleDemand, ModuleSource, Pull, PullCredentials};
use model::object::ObjectName;
use proto_envoy::envoy::config::listener::v3::Filter;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use proto_istio::extensions::{FailStrategy, PullPolicy, WasmConfig};
use store::{Reads, Snapshot};

use super::phases::{Has, runs};
use super::{Code, ExtensionsOf, url};

/// The field of a Secret of registries' credentials.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// Where a module comes from.
#[derive(PartialEq, Debug)]
pub(super) enum Place {
    /// A file of the proxy's.
    File(String),
    /// An agent fetches it.
    Agent,
    /// We fetch it.
    Fetched(ModuleSource),
    /// Nobody fetches it: URLs of this scheme are not understood.
    Unknown(String),
}

/// Where the module of a filter comes from, for proxies with or without an agent.
pub(super) fn place(config: &WasmConfig, agent: bool) -> Place {
    let scheme = url::scheme(&config.url).unwrap_or_default();
    match scheme.as_str() {
        "file" => {
            let path = config.url.strip_prefix("file://").unwrap_or(&config.url);
            Place::File(path.to_owned())
        }
        _ if agent => Place::Agent,
        "oci" | "http" | "https" => Place::Fetched(ModuleSource {
            url: url::with_scheme(&config.url, &scheme).into(),
            sha256: config.sha256.to_ascii_lowercase().as_str().into(),
            pull: pull(config, &scheme),
            secret: secret(&config.image_pull_secret),
        }),
        _ => Place::Unknown(scheme),
    }
}

/// When a module is fetched again. What is named by its content is what it was.
///
/// Istio: pkg/wasm/cache.go shouldIgnoreResourceVersion and getPullPolicy, 1.32.
fn pull(config: &WasmConfig, scheme: &str) -> Pull {
    let image = scheme == "oci";
    if !config.sha256.is_empty() || (image && config.url.contains("@sha256:")) {
        return Pull::Once;
    }
    match config.image_pull_policy() {
        PullPolicy::Always => Pull::Always,
        PullPolicy::IfNotPresent => Pull::Once,
        PullPolicy::UnspecifiedPolicy if image && is_latest(&config.url) => Pull::Always,
        PullPolicy::UnspecifiedPolicy => Pull::Once,
    }
}

/// Whether an image has the tag `latest`, or none.
fn is_latest(url: &str) -> bool {
    let last = url.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// The Secret that an object names, as read.
pub(super) fn secret(stated: &str) -> Option<ObjectName> {
    let (namespace, name) = stated.strip_prefix("kubernetes://")?.split_once('/')?;
    Some(ObjectName::new(namespace, name))
}

/// The credentials of registries in a Secret.
///
/// Istio: pilot/pkg/credentials/kube/secrets.go GetDockerCredential, 1.32.
pub(super) fn docker_config(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> Option<String> {
    let secret = cx.get::<Secret>(name)?;
    if &*secret.spec.secret_type != "kubernetes.io/dockerconfigjson" {
        return None;
    }
    let bytes = secret.spec.data.get(DOCKER_CONFIG)?;
    String::from_utf8(bytes.to_vec()).ok()
}

/// The modules that are to be fetched for proxies with such extensions.
pub fn wanted(
    cx: &Cx<'_, Snapshot>,
    extensions: &ExtensionsOf,
    agent: bool,
) -> BTreeSet<ModuleDemand> {
    if agent || !cx.settings().features.wasm_fetch {
        return BTreeSet::new();
    }
    let mut wanted = BTreeSet::new();
    for extension in cx.query(extensions).iter() {
        let Code::Wasm(config) = &extension.code else {
            continue;
        };
        if let Place::Fetched(source) = place(config, agent) {
            let secret = source.secret.as_ref();
            let credentials = secret.and_then(|name| docker_config(cx, name));
            wanted.insert(ModuleDemand {
                credentials: credentials.map(PullCredentials::new),
                object: extension.origin.key().1.clone(),
                version: extension.version.clone(),
                source,
            });
        }
    }
    wanted
}

/// What is wrong with the modules of one side of a proxy.
pub fn troubles(
    cx: &Cx<'_, Snapshot>,
    extensions: &ExtensionsOf,
    has: Has<'_>,
    class: Class,
) -> Vec<Diagnostic> {
    let agent = has.capabilities.certificates == CertificateSource::Agent;
    let mut found = Vec::new();
    for extension in cx.query(extensions).iter() {
        let Code::Wasm(config) = &extension.code else {
            continue;
        };
        let Place::Fetched(source) = place(config, agent) else {
            continue;
        };
        if !runs::<HttpFilter>(extension, has, class) && !runs::<Filter>(extension, has, class) {
            continue;
        }
        let Some(fetched) = cx.module(&source) else {
            continue;
        };
        let Some(why) = &fetched.trouble else {
            continue;
        };
        let open = config.fail_strategy() == FailStrategy::FailOpen;
        let (severity, effect) = match (&fetched.module, open) {
            (Some(_), _) => (Severity::Warning, "that of before runs on"),
            (None, true) => (Severity::Warning, "what it should see passes without it"),
            (None, false) => (Severity::Error, "what it should see is refused"),
        };
        let why = format!("there is no module from {source}: {why}; {effect}");
        let (kind, name) = extension.origin.key();
        let path = match extension.origin {
            super::Wanted::TrafficExtension(_) => "spec.wasm.url",
            super::Wanted::WasmPlugin(_) | super::Wanted::HigressPlugin(_) => "spec.url",
        };
        found.push(about_named(kind, name, code::NO_MODULE, severity, why).at(path));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> WasmConfig {
        WasmConfig {
            url: url.to_owned(),
            ..WasmConfig::default()
        }
    }

    #[test]
    fn modules_come_from_files_agents_and_us() {
        assert_eq!(
            place(&of("file:///opt/a.wasm"), false),
            Place::File("/opt/a.wasm".to_owned())
        );
        assert_eq!(place(&of("oci://a/b:v1"), true), Place::Agent);
        assert_eq!(place(&of("ftp://a/b"), true), Place::Agent);
        assert_eq!(
            place(&of("ftp://a/b"), false),
            Place::Unknown("ftp".to_owned())
        );
        let stated = WasmConfig {
            sha256: "AB".to_owned(),
            image_pull_secret: "kubernetes://shop/registry".to_owned(),
            ..of("a.example/b:v1")
        };
        assert_eq!(
            place(&stated, false),
            Place::Fetched(ModuleSource {
                url: "oci://a.example/b:v1".into(),
                sha256: "ab".into(),
                pull: Pull::Once,
                secret: Some(ObjectName::new("shop", "registry")),
            })
        );
    }

    #[test]
    fn what_may_change_is_fetched_again() {
        let digest = "oci://a/b@sha256:12";
        let table = [
            ("oci://a/b", PullPolicy::UnspecifiedPolicy, Pull::Always),
            ("oci://a:50/b", PullPolicy::UnspecifiedPolicy, Pull::Always),
            (
                "oci://a/b:latest",
                PullPolicy::UnspecifiedPolicy,
                Pull::Always,
            ),
            ("oci://a/b:latest", PullPolicy::IfNotPresent, Pull::Once),
            ("oci://a/b:v1", PullPolicy::UnspecifiedPolicy, Pull::Once),
            ("oci://a/b:v1", PullPolicy::Always, Pull::Always),
            ("https://a/b", PullPolicy::UnspecifiedPolicy, Pull::Once),
            ("https://a/b", PullPolicy::Always, Pull::Always),
            (digest, PullPolicy::Always, Pull::Once),
        ];
        for (url, policy, expected) in table {
            let mut config = of(url);
            config.set_image_pull_policy(policy);
            let Place::Fetched(source) = place(&config, false) else {
                panic!("{url}");
            };
            assert_eq!(source.pull, expected, "{url} {policy:?}");
        }
    }
}

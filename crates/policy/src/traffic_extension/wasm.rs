//! The configuration of a Wasm filter, as proxies ask for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::kube::Secret;
use model::names::ClusterId;
use model::object::ObjectName;
use prost_types::{Any, Duration};
use proto_envoy::envoy::config::core::v3::{
    AsyncDataSource, DataSource, HttpUri, RemoteDataSource, TypedExtensionConfig,
    async_data_source, data_source, http_uri,
};
use proto_envoy::envoy::extensions::filters::{http, network};
use proto_envoy::envoy::extensions::wasm::v3 as wasm;
use proto_istio::extensions::{EnvValueSource, FailStrategy, PluginType, PullPolicy, WasmConfig};
use store::{Reads, Snapshot};

use super::read::{ReadExtension, Wanted};
use super::{Code, Extension, url};
use xds::{Resource, any};

/// Environment variables by which agents are told how to fetch. They take the first two out before the proxy sees them.
const PULL_SECRET: &str = "ISTIO_META_WASM_IMAGE_PULL_SECRET";
const PULL_POLICY: &str = "ISTIO_META_WASM_IMAGE_PULL_POLICY";
const RESOURCE_VERSION: &str = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION";
/// How long an agent may take to fetch.
const FETCH: Duration = Duration {
    seconds: 30,
    nanos: 0,
};
/// The field of a Secret of registries' credentials.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// The configuration of an object's filter; `None` for filters that stand in the listener themselves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExtensionConfigOf {
    /// Which extension.
    pub extension: Wanted,
    /// Whose credentials of registries the proxy may have.
    pub pull: Option<PullFrom>,
}

/// The cluster whose Secrets count for a proxy that has proven to be of the namespace by which its filters were chosen:
/// its own, by the name of a remote one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PullFrom(pub Option<ClusterId>);

impl Query<Snapshot> for ExtensionConfigOf {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let read = cx.query(&ReadExtension(self.extension.clone()));
        let extension = read.extension.as_ref()?;
        let Code::Wasm(config) = &extension.code else {
            return None;
        };
        let secret = self
            .pull
            .as_ref()
            .and_then(|from| docker_config(cx, &config.image_pull_secret, from));
        let plugin = plugin(extension, config, secret.unwrap_or_default());
        let typed_config = match config.r#type() {
            PluginType::Network => any(&network::wasm::v3::Wasm {
                config: Some(plugin),
            }),
            PluginType::Http | PluginType::UnspecifiedPluginType => any(&http::wasm::v3::Wasm {
                config: Some(plugin),
            }),
        };
        let message = TypedExtensionConfig {
            name: extension.resource.to_string(),
            typed_config: Some(typed_config),
        };
        Some(Arc::new(Resource::encode(
            extension.resource.clone(),
            &message,
        )))
    }
}

/// The credentials of registries in a Secret.
///
/// Istio: pilot/pkg/credentials/kube/secrets.go GetDockerCredential, 1.32.
fn docker_config(cx: &Cx<'_, Snapshot>, name: &str, from: &PullFrom) -> Option<String> {
    let (namespace, name) = name.strip_prefix("kubernetes://")?.split_once('/')?;
    let name = ObjectName::new(namespace, name).in_cluster(from.0.as_ref());
    let secret = cx.get::<Secret>(&name)?;
    if &*secret.spec.secret_type != "kubernetes.io/dockerconfigjson" {
        return None;
    }
    let bytes = secret.spec.data.get(DOCKER_CONFIG)?;
    String::from_utf8(bytes.to_vec()).ok()
}

fn plugin(extension: &Extension, config: &WasmConfig, secret: String) -> wasm::PluginConfig {
    let name = &extension.name;
    let mut variables = BTreeMap::new();
    if !config.image_pull_secret.is_empty() {
        variables.insert(PULL_SECRET.to_owned(), secret);
    }
    if config.image_pull_policy() != PullPolicy::UnspecifiedPolicy {
        let policy = config.image_pull_policy().as_str_name();
        variables.insert(PULL_POLICY.to_owned(), policy.to_owned());
    }
    variables.insert(RESOURCE_VERSION.to_owned(), extension.version.to_string());
    let mut host_env_keys = Vec::new();
    for stated in config.vm_config.iter().flat_map(|vm| &vm.env) {
        match stated.value_from() {
            EnvValueSource::Inline => {
                variables.insert(stated.name.clone(), stated.value.clone());
            }
            EnvValueSource::Host => host_env_keys.push(stated.name.clone()),
        }
    }
    let failure_policy = match config.fail_strategy() {
        FailStrategy::FailClose => wasm::FailurePolicy::FailClosed,
        FailStrategy::FailOpen => wasm::FailurePolicy::FailOpen,
        FailStrategy::FailReload => wasm::FailurePolicy::FailReload,
    };
    wasm::PluginConfig {
        name: format!("{}.{}", name.namespace, name.name),
        root_id: config.plugin_name.clone(),
        configuration: Some(configuration(config)),
        failure_policy: failure_policy as i32,
        vm: Some(wasm::plugin_config::Vm::VmConfig(wasm::VmConfig {
            runtime: "envoy.wasm.runtime.v8".to_owned(),
            code: Some(code(config)),
            environment_variables: Some(wasm::EnvironmentVariables {
                host_env_keys,
                key_values: variables,
            }),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// The module's own configuration, as JSON text.
fn configuration(config: &WasmConfig) -> Any {
    let stated = config.plugin_config.as_ref();
    match stated.filter(|c| !c.0.fields.is_empty()) {
        Some(stated) => {
            // A number that JSON cannot hold is the only way to fail; the parser lets none pass.
            let text = serde_json::to_string(stated).unwrap_or_default();
            Any {
                type_url: "type.googleapis.com/google.protobuf.StringValue".to_owned(),
                value: prost::Message::encode_to_vec(&text),
            }
        }
        None => Any::default(),
    }
}

fn code(config: &WasmConfig) -> AsyncDataSource {
    use async_data_source::Specifier;
    let scheme = url::scheme(&config.url).unwrap_or_default();
    let specifier = if scheme == "file" {
        let path = config.url.strip_prefix("file://").unwrap_or(&config.url);
        Specifier::Local(DataSource {
            specifier: Some(data_source::Specifier::Filename(path.to_owned())),
            ..Default::default()
        })
    } else {
        Specifier::Remote(RemoteDataSource {
            http_uri: Some(HttpUri {
                uri: url::with_scheme(&config.url, &scheme),
                timeout: Some(FETCH),
                // The agent fetches; Envoy only requires that one is named.
                http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster("_".to_owned())),
            }),
            sha256: config.sha256.clone(),
            ..Default::default()
        })
    };
    AsyncDataSource {
        specifier: Some(specifier),
    }
}

//! The configuration of a Wasm filter, as proxies ask for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::names::ClusterId;
use prost::Name;
use prost_types::{Any, Duration};
use proto_envoy::envoy::config::core::v3::{
    AsyncDataSource, DataSource, HttpUri, RemoteDataSource, TypedExtensionConfig,
    async_data_source, data_source, http_uri,
};
use proto_envoy::envoy::config::rbac::v3::Rbac;
use proto_envoy::envoy::extensions::filters::{http, network};
use proto_envoy::envoy::extensions::wasm::v3 as wasm;
use proto_istio::extensions::{EnvValueSource, FailStrategy, PullPolicy, WasmConfig};
use store::{Reads, Snapshot};

use super::module::{Place, docker_config, place, secret};
use super::phases::is_network;
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

/// The configuration of an object's filter; `None` for filters that stand in the listener themselves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExtensionConfigOf {
    /// Which extension.
    pub extension: Wanted,
    /// Whether the proxy has an agent, which fetches its modules.
    pub agent: bool,
    /// Whose credentials of registries the proxy's agent may have.
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
        let typed_config = match &extension.code {
            Code::Lua(_) => return None,
            Code::Closed { network } => answering(*network, Answer::Refuse),
            Code::Wasm(config) => self.of_wasm(cx, extension, config)?,
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

impl ExtensionConfigOf {
    /// The configuration of a module; `None` while nothing is known of one that we fetch. What the proxy has had runs on
    /// until then.
    fn of_wasm(
        &self,
        cx: &Cx<'_, Snapshot>,
        extension: &Extension,
        config: &WasmConfig,
    ) -> Option<Any> {
        use async_data_source::Specifier;
        let network = is_network(config);
        let instead = || match config.fail_strategy() {
            FailStrategy::FailOpen => Some(answering(network, Answer::Pass)),
            FailStrategy::FailClose | FailStrategy::FailReload => {
                Some(answering(network, Answer::Refuse))
            }
        };
        let mut told = BTreeMap::new();
        let code = match place(config, self.agent) {
            Place::Fetched(source) => match &cx.module(&source)?.module {
                Some(module) => Specifier::Local(DataSource {
                    specifier: Some(data_source::Specifier::InlineBytes(module.bytes().clone())),
                    ..Default::default()
                }),
                None => return instead(),
            },
            // The listener refuses without it.
            Place::Unknown(_) => return None,
            Place::File(path) => {
                told = self.for_agent(cx, extension, config);
                Specifier::Local(DataSource {
                    specifier: Some(data_source::Specifier::Filename(path)),
                    ..Default::default()
                })
            }
            Place::Agent => {
                told = self.for_agent(cx, extension, config);
                Specifier::Remote(remote(config))
            }
        };
        let plugin = plugin(extension, config, told, code);
        Some(if network {
            any(&network::wasm::v3::Wasm {
                config: Some(plugin),
            })
        } else {
            any(&http::wasm::v3::Wasm {
                config: Some(plugin),
            })
        })
    }

    /// What an agent is told of how to fetch.
    fn for_agent(
        &self,
        cx: &Cx<'_, Snapshot>,
        extension: &Extension,
        config: &WasmConfig,
    ) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        if !config.image_pull_secret.is_empty() {
            let name = secret(&config.image_pull_secret).zip(self.pull.as_ref());
            let held =
                name.and_then(|(name, from)| docker_config(cx, &name.in_cluster(from.0.as_ref())));
            variables.insert(PULL_SECRET.to_owned(), held.unwrap_or_default());
        }
        if config.image_pull_policy() != PullPolicy::UnspecifiedPolicy {
            let policy = config.image_pull_policy().as_str_name();
            variables.insert(PULL_POLICY.to_owned(), policy.to_owned());
        }
        variables.insert(RESOURCE_VERSION.to_owned(), extension.version.to_string());
        variables
    }
}

/// What is done in place of a module.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Refuse,
    Pass,
}

/// A filter in place of one whose module is not there. An agent puts the same in.
fn answering(network: bool, answer: Answer) -> Any {
    // Rules that let nobody in, or none.
    let rules = (answer == Answer::Refuse).then(Rbac::default);
    if network {
        any(&network::rbac::v3::Rbac {
            rules,
            stat_prefix: "wasm".to_owned(),
            ..Default::default()
        })
    } else {
        any(&http::rbac::v3::Rbac {
            rules,
            ..Default::default()
        })
    }
}

/// A filter that refuses what would pass it, in place of one that runs a module; `None` for filters of other kinds.
pub fn refusing(type_url: &str) -> Option<Any> {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let is = |kind: String| kind == name;
    if is(http::wasm::v3::Wasm::full_name()) {
        return Some(answering(false, Answer::Refuse));
    }
    is(network::wasm::v3::Wasm::full_name()).then(|| answering(true, Answer::Refuse))
}

fn plugin(
    extension: &Extension,
    config: &WasmConfig,
    mut variables: BTreeMap<String, String>,
    code: async_data_source::Specifier,
) -> wasm::PluginConfig {
    let name = &extension.name;
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
            code: Some(AsyncDataSource {
                specifier: Some(code),
            }),
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
    let Some(stated) = stated.filter(|c| !c.0.fields.is_empty()) else {
        return Any::default();
    };
    // A number that JSON cannot hold is the only way to fail; the parser lets none pass.
    let text = serde_json::to_string(stated).unwrap_or_default();
    Any {
        type_url: "type.googleapis.com/google.protobuf.StringValue".to_owned(),
        value: prost::Message::encode_to_vec(&text),
    }
}

/// What an agent fetches.
fn remote(config: &WasmConfig) -> RemoteDataSource {
    let scheme = url::scheme(&config.url).unwrap_or_default();
    RemoteDataSource {
        http_uri: Some(HttpUri {
            uri: url::with_scheme(&config.url, &scheme),
            timeout: Some(FETCH),
            // The agent fetches; Envoy only requires that one is named.
            http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster("_".to_owned())),
        }),
        sha256: config.sha256.clone(),
        ..Default::default()
    }
}

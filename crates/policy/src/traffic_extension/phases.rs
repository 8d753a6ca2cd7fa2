//! Filters of users among those that protect.
//!
//! ```text
//! authorizers ─ AUTHN ─ tokens ─ AUTHZ ─ policies ─ STATS ─ (no phase)
//! ```
//!
//! Istio: pilot/pkg/networking/core/listener_builder.go buildHTTPConnectionManager, networkfilter.go, 1.32.

use std::sync::Arc;

use mesh::capabilities::name::{HTTP_RBAC, NETWORK_RBAC};
use mesh::capabilities::{Capabilities, CertificateSource, Loadable};
use mesh::class::Class;
use prost::Message;
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, ExtensionConfigSource,
    data_source,
};
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::filters::http::lua::v3::Lua;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_istio::extensions::{FailStrategy, PluginType, TrafficSelector, WasmConfig};
use proto_istio::types::WorkloadMode;
use xds::any;

use super::module::{Place, place};
use super::{Code, Extension, Phase, Wanted, names};
use crate::filters;

const WASM_HTTP: &str = "envoy.filters.http.wasm";
const WASM_NETWORK: &str = "envoy.filters.network.wasm";
const LUA: &str = "envoy.filters.http.lua";

/// The filters that a chain has before those that only count.
#[derive(Clone, PartialEq, Debug)]
pub struct Phases<F> {
    /// Those that ask authorizers.
    pub custom: Vec<F>,
    /// Those that check tokens.
    pub authn: Vec<F>,
    /// Those that enforce policies.
    pub authz: Vec<F>,
    /// Those of users, in the order in which they run within a phase.
    extensions: Vec<Placed<F>>,
}

impl<F> Default for Phases<F> {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new(), Vec::new())
    }
}

impl<F> Phases<F> {
    /// Those that protect, none of users.
    pub fn new(custom: Vec<F>, authn: Vec<F>, authz: Vec<F>) -> Self {
        Self {
            custom,
            authn,
            authz,
            extensions: Vec::new(),
        }
    }
}

impl<F: Message> Phases<F> {
    /// The bytes that a chain has of them at most.
    pub fn encoded_len(&self) -> usize {
        let own = [&self.custom, &self.authn, &self.authz]
            .into_iter()
            .flatten();
        let all = own.chain(self.extensions.iter().map(|e| &e.filter));
        all.map(Message::encoded_len).sum()
    }
}

/// A filter of a user's.
#[derive(Clone, PartialEq, Debug)]
struct Placed<F> {
    phase: Phase,
    /// The ports that it is for; none is all.
    ports: Vec<u32>,
    filter: F,
}

impl<F: Clone> Phases<F> {
    /// The filters of a chain of that port, in order.
    pub fn of_port(&self, port: u16) -> impl Iterator<Item = F> {
        let of = move |phase| self.of_phase(phase, port);
        self.custom
            .iter()
            .chain(of(Phase::Authn))
            .chain(&self.authn)
            .chain(of(Phase::Authz))
            .chain(&self.authz)
            .chain(of(Phase::Stats))
            .chain(of(Phase::Unspecified))
            .cloned()
    }

    /// The filters of users alone, for chains whose connections are not what policies speak of.
    pub fn of_users(&self, port: u16) -> impl Iterator<Item = F> {
        let of = move |phase| self.of_phase(phase, port);
        of(Phase::Authn)
            .chain(of(Phase::Authz))
            .chain(of(Phase::Stats))
            .chain(of(Phase::Unspecified))
            .cloned()
    }

    fn of_phase(&self, phase: Phase, port: u16) -> impl Iterator<Item = &F> {
        self.extensions
            .iter()
            .filter(move |e| e.phase == phase)
            .filter(move |e| e.ports.is_empty() || e.ports.contains(&u32::from(port)))
            .map(|e| &e.filter)
    }
}

/// A kind of filter that users may write.
pub trait FilterOf: Sized {
    /// The filter; `None` where the extension is not of this kind.
    fn of(extension: &Extension) -> Option<Self>;
    /// What has to stand before plugins of Higress's.
    fn before_plugins() -> Option<Self>;
    /// The Envoy extension that runs it.
    fn engine(extension: &Extension) -> &'static str;
}

impl FilterOf for hcm::HttpFilter {
    fn of(extension: &Extension) -> Option<Self> {
        let config = match &extension.code {
            Code::Lua(lua) => {
                let config = Lua {
                    default_source_code: Some(DataSource {
                        specifier: Some(data_source::Specifier::InlineString(
                            lua.inline_code.clone(),
                        )),
                        ..Default::default()
                    }),
                    ..Default::default()
                };
                return Some(filters::http(&extension.resource, any(&config)));
            }
            Code::Wasm(wasm) if is_network(wasm) => return None,
            Code::Closed { network: true } => return None,
            Code::Wasm(_) | Code::Closed { network: false } => asked_for([
                "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
                "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            ]),
        };
        Some(hcm::HttpFilter {
            name: extension.resource.to_string(),
            config_type: Some(hcm::http_filter::ConfigType::ConfigDiscovery(config)),
            ..Default::default()
        })
    }

    fn before_plugins() -> Option<Self> {
        Some(names::filter())
    }

    fn engine(extension: &Extension) -> &'static str {
        match extension.code {
            Code::Lua(_) => LUA,
            Code::Wasm(_) => WASM_HTTP,
            Code::Closed { .. } => HTTP_RBAC,
        }
    }
}

impl FilterOf for listener::Filter {
    fn of(extension: &Extension) -> Option<Self> {
        let network = match &extension.code {
            Code::Wasm(wasm) => is_network(wasm),
            Code::Closed { network } => *network,
            Code::Lua(_) => false,
        };
        match network {
            true => {
                let config = asked_for([
                    "type.googleapis.com/envoy.extensions.filters.network.wasm.v3.Wasm",
                    "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC",
                ]);
                Some(listener::Filter {
                    name: extension.resource.to_string(),
                    config_type: Some(listener::filter::ConfigType::ConfigDiscovery(config)),
                })
            }
            false => None,
        }
    }

    fn before_plugins() -> Option<Self> {
        None
    }

    fn engine(extension: &Extension) -> &'static str {
        match extension.code {
            Code::Closed { .. } => NETWORK_RBAC,
            Code::Wasm(_) | Code::Lua(_) => WASM_NETWORK,
        }
    }
}

pub(super) fn is_network(wasm: &WasmConfig) -> bool {
    wasm.r#type() == PluginType::Network
}

/// A configuration that the proxy asks for. It waits for it without end: the filter may protect.
pub(crate) fn asked_for<const N: usize>(types: [&str; N]) -> ExtensionConfigSource {
    ExtensionConfigSource {
        config_source: Some(ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
            initial_fetch_timeout: Some(prost_types::Duration::default()),
            resource_api_version: ApiVersion::V3 as i32,
            ..Default::default()
        }),
        type_urls: types.map(str::to_owned).into(),
        ..Default::default()
    }
}

/// What runs filters of users.
#[derive(Clone, Copy)]
pub struct Has<'a> {
    /// What the proxy can load.
    pub loadable: &'a Loadable,
    /// What it has.
    pub capabilities: Capabilities,
    /// Whether modules are fetched for proxies that have no agent.
    pub fetches: bool,
}

/// Adds the filters of users for one side of a proxy that has such extensions. Returns what the proxy lacks for those that cannot be left out.
pub fn extend<F: FilterOf>(
    phases: &mut Phases<F>,
    extensions: &[Arc<Extension>],
    has: Has<'_>,
    class: Class,
) -> Vec<String> {
    let mut missing = Vec::new();
    let mut named = false;
    for extension in extensions {
        let Some(ports) = ports(&extension.matches, class) else {
            continue;
        };
        let Some(filter) = F::of(extension) else {
            continue;
        };
        match lacks(has, extension, F::engine(extension)) {
            None => {
                let plugin = matches!(extension.origin, Wanted::HigressPlugin(_));
                if plugin && matches!(extension.code, Code::Wasm(_)) && !named {
                    named = true;
                    phases
                        .extensions
                        .extend(F::before_plugins().map(|filter| Placed {
                            phase: Phase::Authn,
                            ports: Vec::new(),
                            filter,
                        }));
                }
                phases.extensions.push(Placed {
                    phase: extension.phase,
                    ports,
                    filter,
                });
            }
            Some(_) if may_be_left_out(extension) => {}
            Some(what) => missing.push(what),
        }
    }
    missing.sort();
    missing.dedup();
    missing
}

/// The ports of one side of a proxy that selectors name, none for all; `None` where they leave that side out.
fn ports(selectors: &[TrafficSelector], class: Class) -> Option<Vec<u32>> {
    if selectors.is_empty() {
        return Some(Vec::new());
    }
    let side = match class {
        Class::SidecarInbound => WorkloadMode::Server,
        Class::SidecarOutbound | Class::Gateway => WorkloadMode::Client,
    };
    let of_side = selectors.iter().filter(|s| {
        let mode = s.mode();
        matches!(
            mode,
            WorkloadMode::Undefined | WorkloadMode::ClientAndServer
        ) || mode == side
    });
    let mut ports: Option<Vec<u32>> = None;
    for selector in of_side {
        if selector.ports.is_empty() {
            return Some(Vec::new());
        }
        let numbers = selector.ports.iter().map(|p| p.number);
        ports
            .get_or_insert_default()
            .extend(numbers.filter(|number| *number != 0));
    }
    ports.filter(|ports| !ports.is_empty())
}

/// Whether it is a filter of one side of a proxy, which can run it.
pub(super) fn runs<F: FilterOf>(extension: &Extension, has: Has<'_>, class: Class) -> bool {
    ports(&extension.matches, class).is_some()
        && F::of(extension).is_some()
        && lacks(has, extension, F::engine(extension)).is_none()
}

/// What the proxy lacks to run it, if it lacks something.
fn lacks(has: Has<'_>, extension: &Extension, engine: &str) -> Option<String> {
    if !has.loadable.has(engine) {
        return Some(engine.to_owned());
    }
    let Code::Wasm(wasm) = &extension.code else {
        return None;
    };
    // An agent beside the proxy fetches modules, as it fetches certificates.
    let agent = has.capabilities.certificates == CertificateSource::Agent;
    match place(wasm, agent) {
        Place::File(_) | Place::Agent => None,
        Place::Fetched(_) if !has.fetches => Some("an agent that fetches Wasm modules".to_owned()),
        // It stands in while there is no module.
        Place::Fetched(_) => {
            let refusal = if is_network(wasm) {
                NETWORK_RBAC
            } else {
                HTTP_RBAC
            };
            (!has.loadable.has(refusal)).then(|| refusal.to_owned())
        }
        Place::Unknown(scheme) => Some(format!("an agent that fetches Wasm modules by {scheme:?}")),
    }
}

fn may_be_left_out(extension: &Extension) -> bool {
    match &extension.code {
        Code::Wasm(wasm) => wasm.fail_strategy() == FailStrategy::FailOpen,
        Code::Lua(_) | Code::Closed { .. } => false,
    }
}

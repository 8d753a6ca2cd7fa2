//! Higress's kinds: registries of services, requests to Dubbo services, and plugins.
//!
//! Their JSON is that of protobuf messages whose `.proto` files are not ours, so that they have Rust types.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Settings that only a plugin understands.
pub type PluginConfig = serde_json::Map<String, serde_json::Value>;

/// What registries are of.
pub const REGISTRIES: [&str; 8] = [
    "nacos",
    "nacos2",
    "nacos3",
    "zookeeper",
    "consul",
    "eureka",
    "static",
    "dns",
];

/// The McpBridge that is read though no flag names it.
pub const BRIDGE: &str = "default";

/// Registries that services are read from: the one named `default`, and others that `--mcp-bridge` names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct McpBridge {
    /// Registries; type and name tell them apart.
    pub registries: Vec<Registry>,
    /// Proxies through which registered services are reached.
    pub proxies: Vec<RegistryProxy>,
}

/// A registry of services, or a service that is listed by its addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Registry {
    /// `nacos`, `nacos2`, `nacos3`, `zookeeper`, `consul`, `eureka`, `static` or `dns`.
    #[serde(rename = "type")]
    pub registry_type: Arc<str>,
    /// Name; that of the service for `static` and `dns`, whose host is `<name>.<type>`.
    pub name: Arc<str>,
    /// Where the registry is; for `static` a list of `ip:port`, for `dns` a list of host names.
    pub domain: Arc<str>,
    /// Port of the registry; for `static` and `dns` that of the service.
    pub port: u32,
    /// Nacos: the server that names the addresses of the registry.
    pub nacos_address_server: Arc<str>,
    /// Nacos: the access key.
    pub nacos_access_key: Arc<str>,
    /// Nacos: the secret key.
    pub nacos_secret_key: Arc<str>,
    /// Nacos: the id of the namespace.
    pub nacos_namespace_id: Arc<str>,
    /// Nacos: the name of the namespace; `public` where neither is set.
    pub nacos_namespace: Arc<str>,
    /// Nacos: groups whose services are read.
    pub nacos_groups: Vec<Arc<str>>,
    /// Nacos: how often services are asked for, in nanoseconds; 30 s where absent, at least 10 s.
    pub nacos_refresh_interval: i64,
    /// Consul: the namespace.
    pub consul_namespace: Arc<str>,
    /// Consul: the datacenter.
    pub consul_datacenter: Arc<str>,
    /// Consul: the tag that services must have.
    pub consul_service_tag: Arc<str>,
    /// Consul: how often services are asked for, in nanoseconds.
    pub consul_refresh_interval: i64,
    /// ZooKeeper: paths below which services are registered.
    pub zk_services_path: Vec<Arc<str>>,
    /// A Secret with the credentials of the registry.
    pub auth_secret_name: Arc<str>,
    /// What the service speaks: `http` where absent; `https`, `http2`, `grpc`, `grpcs`, `dubbo`, `tcp`.
    pub protocol: Arc<str>,
    /// Server name that is sent to the service.
    pub sni: Arc<str>,
    /// The proxy through which the service is reached, by name.
    pub proxy_name: Arc<str>,
    /// Ports that stand for the ports of services.
    pub vport: Option<VirtualPort>,
    /// More settings, by name.
    pub metadata: BTreeMap<Arc<str>, InnerMap>,
    /// Nacos: whether MCP servers are read from its configuration.
    #[serde(rename = "enableMCPServer")]
    pub enable_mcp_server: Option<bool>,
    /// Whether only MCP servers that are listed are read.
    pub enable_scope_mcp_servers: Option<bool>,
    /// MCP servers that are read where only those are, by name.
    pub allow_mcp_servers: Vec<Arc<str>>,
    /// The path below which MCP servers are reached, each under its name.
    pub mcp_server_base_url: Arc<str>,
    /// Hosts on which MCP servers are reached; all where there are none.
    pub mcp_server_export_domains: Vec<Arc<str>>,
}

impl Registry {
    /// How the hosts of its services end, which all types of Nacos have in common.
    pub fn suffix(&self) -> &str {
        match &*self.registry_type {
            "nacos2" | "nacos3" => "nacos",
            stated => stated,
        }
    }

    /// Whether it is one service, listed by its addresses, and need not be asked.
    pub fn is_listed(&self) -> bool {
        matches!(&*self.registry_type, "static" | "dns")
    }

    /// The host of that service.
    pub fn listed_host(&self) -> String {
        format!("{}.{}", self.name, self.registry_type)
    }
}

/// Settings of one name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct InnerMap {
    /// Values by key.
    pub inner_map: BTreeMap<Arc<str>, Arc<str>>,
}

/// Ports that stand for the ports of services.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct VirtualPort {
    /// For every service that is not listed.
    pub default: u32,
    /// For single services.
    pub services: Vec<VirtualServicePort>,
}

/// The port that stands for those of one service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct VirtualServicePort {
    /// The service.
    pub name: Arc<str>,
    /// The port.
    pub value: u32,
}

/// A proxy through which registered services are reached.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RegistryProxy {
    /// `HTTP`.
    #[serde(rename = "type")]
    pub proxy_type: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Where it is.
    pub server_address: Arc<str>,
    /// Its port.
    pub server_port: u32,
    /// The local port that leads to it; one from 50001 to 51000 where absent.
    pub listener_port: u32,
    /// How long connecting may take, in milliseconds; 1200 where absent.
    pub connect_timeout: u32,
}

/// How requests of HTTP become calls of another protocol, for routes of Ingresses that name it with the annotation
/// `rpc-destination-name`, from the namespace of Ingresses. It needs a filter that only Higress's Envoy has.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Http2Rpc {
    /// Calls of a Dubbo service.
    pub dubbo: Option<DubboService>,
    /// Calls of a gRPC service; it has no settings.
    pub grpc: Option<GrpcService>,
}

/// A Dubbo service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DubboService {
    /// Its interface.
    pub service: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// Its group.
    pub group: Arc<str>,
    /// Methods.
    pub methods: Vec<DubboMethod>,
}

/// A method of a Dubbo service, and the requests that call it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DubboMethod {
    /// The method.
    pub service_method: Arc<str>,
    /// Headers that are passed on: a list with commas, or `*` for all.
    pub headers_attach: Arc<str>,
    /// The path of requests.
    pub http_path: Arc<str>,
    /// The methods of requests; only the first counts.
    pub http_methods: Vec<Arc<str>>,
    /// Arguments, in their order.
    pub params: Vec<DubboParam>,
    /// The whole body is the argument.
    pub param_from_entire_body: Option<DubboBodyParam>,
}

/// An argument of a method.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DubboParam {
    /// `QUERY`, `HEADER`, `PATH` or `BODY`.
    pub param_source: Arc<str>,
    /// Its name there.
    pub param_key: Arc<str>,
    /// Its type in Java.
    pub param_type: Arc<str>,
}

/// The body as an argument.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DubboBodyParam {
    /// Its type in Java.
    pub param_type: Arc<str>,
}

/// A gRPC service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GrpcService {}

/// A Wasm plugin of the gateways that serve Ingresses (`--ingress-selector`), with settings for single routes, hosts and
/// services. It counts in the namespace of these gateways (`--ingress-namespace`) only. Istio's kind of this name is of the
/// group `extensions.istio.io`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WasmPlugin {
    /// Where the module is: `file://`, `http://`, `https://` or `oci://`, which is also meant without a scheme.
    pub url: Arc<str>,
    /// SHA-256 of the module or image, in hexadecimal.
    pub sha256: Arc<str>,
    /// When the image is fetched.
    pub image_pull_policy: PullPolicy,
    /// A Secret with the credentials of the image's registry.
    pub image_pull_secret: Arc<str>,
    /// The key that verifies signatures; it has no effect.
    pub verification_key: Arc<str>,
    /// Settings for all requests. Where they are set, `defaultConfig` and `matchRules` have no effect.
    pub plugin_config: Option<PluginConfig>,
    /// The name by which the plugin knows itself.
    pub plugin_name: Arc<str>,
    /// Where among other filters it runs.
    pub phase: PluginPhase,
    /// Plugins of a phase run from high to low.
    pub priority: Option<i32>,
    /// What happens to requests when it fails.
    pub fail_strategy: FailStrategy,
    /// The machine that it runs in.
    pub vm_config: Option<PluginVm>,
    /// Settings for requests that no rule is for.
    pub default_config: Option<PluginConfig>,
    /// Settings for some requests.
    pub match_rules: Vec<MatchRule>,
    /// Whether the plugin is off for requests that no rule is for.
    pub default_config_disable: Option<bool>,
}

/// When an image is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum PullPolicy {
    /// `Always` for the tag `latest`, else `IfNotPresent`.
    #[default]
    #[serde(rename = "UNSPECIFIED_POLICY")]
    Unspecified,
    /// Once.
    IfNotPresent,
    /// Whenever the plugin changes, and now and then.
    Always,
}

/// Where among other filters a plugin runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum PluginPhase {
    /// Last, before the router.
    #[default]
    #[serde(rename = "UNSPECIFIED_PHASE")]
    Unspecified,
    /// Before filters that authenticate.
    #[serde(rename = "AUTHN")]
    Authn,
    /// Between those that authenticate and those that authorize.
    #[serde(rename = "AUTHZ")]
    Authz,
    /// Before filters that count.
    #[serde(rename = "STATS")]
    Stats,
}

/// What happens to requests when a plugin fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum FailStrategy {
    /// They are refused.
    #[default]
    #[serde(rename = "FAIL_CLOSE")]
    Close,
    /// They go on without it.
    #[serde(rename = "FAIL_OPEN")]
    Open,
}

/// The machine that a plugin runs in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PluginVm {
    /// Environment variables.
    pub env: Vec<PluginVariable>,
}

/// An environment variable of a plugin.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PluginVariable {
    /// Name.
    pub name: Arc<str>,
    /// Where the value comes from.
    pub value_from: VariableSource,
    /// The value, where it stands here.
    pub value: Arc<str>,
}

/// Where the value of a variable comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum VariableSource {
    /// It stands in the plugin.
    #[default]
    #[serde(rename = "INLINE")]
    Inline,
    /// The proxy's own variable.
    #[serde(rename = "HOST")]
    Host,
}

/// Settings for some requests; a rule says of at least one route, host or service that it is for it. One that says it of none
/// is left out; a plugin of the phase AUTHN or AUTHZ with such a rule refuses requests unless it is FAIL_OPEN.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MatchRule {
    /// Routes, by the names that Ingresses give them: `namespace/name`, or `name` for those of the gateways' namespace. Routes
    /// of the Gateway API are named in the same way.
    pub ingress: Vec<Arc<str>>,
    /// Hosts.
    pub domain: Vec<Arc<str>>,
    /// The settings.
    pub config: Option<PluginConfig>,
    /// Whether the rule is left out.
    pub config_disable: Option<bool>,
    /// Services.
    pub service: Vec<Arc<str>>,
    /// What kind of routes `ingress` names.
    pub route_type: RouteType,
}

/// What kind of routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum RouteType {
    /// Of HTTP.
    #[default]
    #[serde(rename = "HTTP")]
    Http,
    /// Of gRPC.
    #[serde(rename = "GRPC")]
    Grpc,
}

//! Feature flags that change generation, and where they come from.
//!
//! They have Istio's environment names, so that an installation keeps its settings. One row of [`declare_features!`] is
//! all it takes to add one.

mod known;
mod listed;
mod range;

use std::sync::Arc;

pub use listed::Listed;
use range::{V4Range, V6Range};

use crate::diagnostic::{Diagnostic, Severity};
use crate::names::{Name, Namespace};
use crate::object::ObjectName;
use crate::parse::{code, nearest};

/// A feature flag, for help pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feature {
    /// The environment variable.
    pub name: &'static str,
    /// Its default as text.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
}

/// Declares the flags: `"NAME" field: type = default, "help";`.
macro_rules! declare_features {
    ($($name:literal $field:ident: $type:ty = $default:literal, $help:literal;)*) => {
        /// Feature flags that change generation, by Istio's environment names; a row of the snapshot, never read from
        /// the environment by generation.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Features {
            $(
                #[doc = concat!("`", $name, "`: ", $help)]
                pub $field: $type,
            )*
        }

        impl Default for Features {
            fn default() -> Self {
                Self { $($field: <$type>::from($default)),* }
            }
        }

        impl Features {
            /// Every flag.
            pub const ALL: &'static [Feature] = &[
                $(Feature { name: $name, default: stringify!($default), help: $help }),*
            ];

            /// Sets the flag of a name; `None` where there is none, `Some(false)` where the value has no meaning.
            fn set(&mut self, name: &str, value: &str) -> Option<bool> {
                match name {
                    $($name => Some(self.$field.assign(value)),)*
                    _ => None,
                }
            }
        }
    };
}

declare_features! {
    "K8S_INGRESS_NS" ingress_namespace: Namespace = "istio-system",
        "The namespace of the proxies that serve Ingresses, and of what is derived for them.";
    "ISTIO_DUAL_STACK" dual_stack: bool = false,
        "Listen on and route to both IPv4 and IPv6 addresses.";
    "PILOT_ENABLE_IP_AUTOALLOCATE" ip_auto_allocate: bool = true,
        "Give ServiceEntries without addresses one from a reserved range.";
    "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX" ip_auto_allocate_v4: V4Range = "240.240.0.0/16",
        "The range of IPv4 addresses for ServiceEntries, a /8 at most.";
    "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX" ip_auto_allocate_v6: V6Range = "2001:2::/48",
        "The range of IPv6 addresses for ServiceEntries, a /16 at most.";
    "PILOT_SEND_UNHEALTHY_ENDPOINTS" send_unhealthy_endpoints: bool = false,
        "Send endpoints that are not ready, marked as such.";
    "PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS" auto_send_unhealthy_endpoints: bool = true,
        "Send endpoints that are not ready unless a rule has a panic threshold that would use them.";
    "PILOT_ENABLE_METADATA_EXCHANGE" metadata_exchange: bool = true,
        "Let proxies of both ends tell each other who they are.";
    "PILOT_DISABLE_MX_ALPN" disable_mx_alpn: bool = false,
        "Do not offer the metadata exchange by ALPN.";
    "PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES" eds_for_headless: bool = false,
        "Let sidecars balance over the Pods of headless services.";
    "ENABLE_LOCALITY_WEIGHTED_LB_CONFIG" locality_weighted_lb: bool = false,
        "Balance by the weight of localities everywhere.";
    "LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES" canonical_external: bool = false,
        "Name the canonical service of ServiceEntries outside of the mesh, for telemetry.";
    "ENABLE_MULTICLUSTER_HEADLESS" multicluster_headless: bool = true,
        "Answer names of headless services with workloads of every cluster of the network.";
    "PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS" workload_entry_health_checks: bool = true,
        "Leave out WorkloadEntries whose health checks fail.";
    "PILOT_HTTP10" http10: bool = false,
        "Accept HTTP/1.0 on outbound listeners.";
    "PILOT_ENABLE_QUIC_LISTENERS" quic_listeners: bool = false,
        "Serve HTTP/3 beside TLS on gateways whose service has the port for UDP as well.";
    "PILOT_SCOPE_GATEWAY_TO_NAMESPACE" scope_gateway_to_namespace: bool = false,
        "Let gateway proxies serve Gateways of their own namespace only.";
    "PILOT_ENABLE_STRICT_GATEWAY_MERGING" strict_gateway_merging: bool = true,
        "Keep Gateways of other namespaces off proxies that the Gateway API runs.";
    "PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS" multiple_custom_authz_providers: bool = false,
        "Let policies of one workload ask several authorizers.";
    "PILOT_ENABLE_PERSISTENT_SESSION_FILTER" persistent_session_filter: bool = false,
        "Bind sessions to endpoints for services that are labelled so.";
    "PILOT_JWT_ENABLE_REMOTE_JWKS" jwks_fetch: JwksFetch = "istiod",
        "Who fetches the keys of token issuers: the control plane (`false`, `istiod`), proxies where they know the service and the control plane else (`true`, `hybrid`), or proxies (`envoy`).";
    "PILOT_TRACE_SAMPLING" trace_sampling: Percentage = 1.0,
        "Percentage of requests that are traced where nothing else is stated.";
    "ENABLE_TLS_ON_SIDECAR_INGRESS" sidecar_ingress_tls: bool = false,
        "End the TLS that a Sidecar lists for an ingress port, where mutual TLS is off.";
    "PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER" headless_chains: bool = false,
        "Give headless TCP services one listener with a chain for each endpoint, not a listener for each.";
    "PILOT_ENABLE_REDIS_FILTER" redis_filter: bool = false,
        "Shard Redis over endpoints, and count its commands.";
    "PILOT_ENABLE_MYSQL_FILTER" mysql_filter: bool = false,
        "Count what MySQL is asked.";
    "PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN" absolute_fqdn_vhost_domain: bool = true,
        "Match host names that end in a dot as well.";
    "ENABLE_MCS_HOST" mcs_host: bool = false,
        "Give services that a cluster imports (ServiceImport) a host of the domain clusterset.local.";
    "ENABLE_MCS_SERVICE_DISCOVERY" mcs_service_discovery: bool = false,
        "Keep endpoints of services that their cluster does not export (ServiceExport) to clients of the same cluster.";
    "ENABLE_MCS_CLUSTER_LOCAL" mcs_cluster_local: bool = false,
        "With ENABLE_MCS_SERVICE_DISCOVERY, keep endpoints of hosts of the cluster's own domain to clients of the same cluster.";
    "ENABLE_MCS_AUTO_EXPORT" mcs_auto_export: bool = false,
        "Take every Service for exported that is not clusterLocal; no ServiceExport is written.";
    "PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY" cross_cluster_workload_entries: bool = true,
        "Read WorkloadEntries of remote clusters.";
    "RESOLVE_HOSTNAME_GATEWAYS" resolve_hostname_gateways: bool = true,
        "Resolve the names of gateways between networks, for endpoints that are sent by address.";
    "PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API" gateway_api_network_gateways: bool = true,
        "Take Gateways of the Gateway API that are labelled with a network for gateways between networks.";
    "PILOT_ENABLE_GATEWAY_API" gateway_api: bool = true,
        "Translate the Gateway API.";
    "PILOT_ENABLE_ALPHA_GATEWAY_API" alpha_gateway_api: bool = false,
        "Translate what the Gateway API tries out as well: XBackend, XBackendTrafficPolicy, XMesh.";
    "PILOT_ENABLE_AMBIENT" ambient: bool = false,
        "Allow the ambient mode; without it the other settings of that mode have no effect.";
    "PILOT_ENABLE_AMBIENT_WAYPOINTS" ambient_waypoints: bool = false,
        "Serve the GatewayClass istio-waypoint; with PILOT_ENABLE_AMBIENT, on unless it is set to false.";
    "PILOT_ENABLE_SENDING_HBONE" sending_hbone: bool = false,
        "Give sidecars and gateways what it takes to reach endpoints through tunnels; with PILOT_ENABLE_AMBIENT, on unless it is set to false.";
    "AMBIENT_ENABLE_MULTI_NETWORK" ambient_multi_network: bool = false,
        "Serve the GatewayClass istio-east-west; needs PILOT_ENABLE_AMBIENT.";
    "PILOT_GATEWAY_API_CONTROLLER_NAME" gateway_controller: Name = "istio.io/gateway-controller",
        "The controller of GatewayClasses whose Gateways are ours.";
    "PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME" default_gateway_class: Name = "istio",
        "The GatewayClass that is ours without an object of that name.";
    "ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT" gateway_manual_deployment: bool = true,
        "Let Gateways name the Service of proxies that were deployed otherwise, as an address of the type Hostname.";
    "ENABLE_GATEWAY_API_INFERENCE_EXTENSION" inference_extension: bool = false,
        "Translate InferencePools.";
    "ISTIO_MULTIROOT_MESH" multi_root: bool = false,
        "Tell agents all roots of the mesh: those of its own authority, of caCertificates of the mesh config, and of SPIFFE bundles.";
    "ENABLE_PROXY_FIND_POD_BY_IP" pods_by_address: bool = false,
        "Take a Pod with the address of a proxy for the proxy's own, where no Pod has its name.";
    "PILOTHOUSE_WASM_FETCH" wasm_fetch: bool = true,
        "Fetch the Wasm modules of proxies that have no agent, and hand them over.";
    "PILOTHOUSE_LOCAL_ENDPOINTS" local_endpoints: Listed = "",
        "The namespaces whose services may have endpoints at loopback, link-local, unspecified and metadata addresses and at Unix sockets; * is all.";
    "PILOTHOUSE_GATEWAY_BINDS" gateway_binds: Listed = "",
        "The addresses, ranges and Unix sockets (unix:///path) that servers of Istio's Gateways may bind besides all addresses; * is any.";
    "PILOTHOUSE_PROXY_FILES" proxy_files: Listed = "",
        "The namespaces whose Gateways may name certificates in files of proxies of other namespaces; * is all.";
    "PILOTHOUSE_NAMESPACE_BUDGET" namespace_budget: Mebibytes = 64,
        "How many MiB of routes, clusters and endpoints the objects of one kind in a namespace may make together; the youngest beyond it are closed.";
    "PILOTHOUSE_NAMESPACE_PORTS" namespace_ports: Count = 64,
        "How many ports the objects of a namespace may open at a proxy of another; the youngest beyond it are not served there.";
    "PILOTHOUSE_INGRESS_CLASSES" edge_classes: Words = "",
        "The classes of Ingresses that are served with their annotations, as Higress and ingress-nginx do.";
    "PILOTHOUSE_INGRESS_DIALECT" edge_dialect: Name = "auto",
        "Whose defaults annotations have: nginx, higress, or auto, which is nginx for the class nginx.";
    "PILOTHOUSE_INGRESS_NAMESPACE" edge_namespace: Namespace = "higress-system",
        "The namespace of the gateway that serves such Ingresses.";
    "PILOTHOUSE_INGRESS_SELECTOR" edge_selector: Name = "higress=higress-system-higress-gateway",
        "The label of the proxies that serve such Ingresses.";
    "PILOTHOUSE_INGRESS_HTTP_PORT" edge_http_port: Port = 80,
        "The port of the gateway for plain text.";
    "PILOTHOUSE_INGRESS_HTTPS_PORT" edge_https_port: Port = 443,
        "The port of the gateway for HTTPS.";
    "PILOTHOUSE_INGRESS_CROSS_NAMESPACE" edge_cross_namespace: bool = false,
        "Let annotations name Services and Secrets of other namespaces without a ReferenceGrant.";
    "PILOTHOUSE_INGRESS_SHARED_HOSTS" edge_shared_hosts: bool = false,
        "Let Ingresses of all namespaces add paths to hosts that belong to another namespace, without a ReferenceGrant.";
    "PILOTHOUSE_INGRESS_CERTIFICATE" edge_certificate: Words = "",
        "The Secret, as namespace/name, of the certificate for hosts that name none.";
    "PILOTHOUSE_INGRESS_NGINX_CONFIG_MAP" edge_nginx_config_map: Words = "",
        "The ConfigMap, as namespace/name, with the global options of ingress-nginx.";
    "PILOTHOUSE_INGRESS_SERVICE" edge_service: Words = "",
        "The Service, as namespace/name, whose addresses the status of such Ingresses has.";
    "PILOTHOUSE_INGRESS_ADDRESSES" edge_addresses: Words = "",
        "The addresses or host names that the status of such Ingresses has, in place of a Service's.";
    "PILOTHOUSE_OWNED_HOSTS" owned_hosts: bool = false,
        "Give hosts of Gateways and VirtualServices to the namespace of the oldest object that claims them.";
    "PILOTHOUSE_SECRET_TEMPLATES" secret_templates: bool = false,
        "Replace ${secret.name.key} and ${secret.namespace/name.key} in configuration by values of Secrets.";
    "PILOTHOUSE_ALLOW_ANY_GATEWAY_OVERLAY" any_gateway_overlay: bool = false,
        "Let the ConfigMap of a Gateway's parametersRef set any field of what is deployed for it.";
    "PILOTHOUSE_UNBOUND_FOREIGN_ROOTS" unbound_foreign_roots: bool = false,
        "Give roots of other trust domains to proxies that cannot bind them to these.";
    "PILOTHOUSE_KNATIVE_CLASSES" knative_classes: Words = "",
        "The classes of Knative's Ingresses that are served; higress where none is stated and PILOTHOUSE_INGRESS_CLASSES has it.";
    "PILOTHOUSE_KNATIVE_LOCAL_SELECTOR" knative_local_selector: Name = "",
        "The label of the proxies that serve cluster-local hosts of Knative beside sidecars.";
    "PILOTHOUSE_KNATIVE_LOCAL_PORT" knative_local_port: Port = 80,
        "The port of these proxies for plain text.";
    "PILOTHOUSE_KNATIVE_LOCAL_SERVICE" knative_local_service: Words = "",
        "The Service, as namespace/name, by which these proxies are reached.";
}

/// Who fetches the keys of token issuers that policies name by address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JwksFetch {
    /// The control plane.
    ControlPlane,
    /// Proxies from services that they know, else the control plane.
    Hybrid,
    /// Proxies.
    Proxy,
}

impl JwksFetch {
    /// Istio: pkg/jwt/jwt.go ConvertToJwksFetchMode, 1.32.
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "istiod" | "false" => Self::ControlPlane,
            "hybrid" | "true" => Self::Hybrid,
            "envoy" => Self::Proxy,
            _ => return None,
        })
    }
}

impl From<&str> for JwksFetch {
    /// What has no meaning leaves it to the control plane.
    fn from(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self::ControlPlane)
    }
}

impl Assign for JwksFetch {
    fn assign(&mut self, text: &str) -> bool {
        match Self::parse(text) {
            Some(mode) => *self = mode,
            None => return false,
        }
        true
    }
}

/// A share of 0 to 100.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentage(f64);

impl Percentage {
    /// From 0 to 100.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<f64> for Percentage {
    fn from(value: f64) -> Self {
        Self(value.clamp(0.0, 100.0))
    }
}

impl Assign for Percentage {
    fn assign(&mut self, text: &str) -> bool {
        match text.parse::<f64>() {
            Ok(value) if (0.0..=100.0).contains(&value) => self.0 = value,
            _ => return false,
        }
        true
    }
}

/// Words separated by commas.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words(Arc<[Arc<str>]>);

impl Words {
    /// The words, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first word as `namespace/name`.
    pub fn object(&self) -> Option<ObjectName> {
        let (namespace, name) = self.0.first()?.split_once('/')?;
        Some(ObjectName::new(namespace, name))
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        Self(words.map(Arc::from).collect())
    }
}

impl Assign for Words {
    fn assign(&mut self, text: &str) -> bool {
        *self = Self::from(text);
        true
    }
}

/// A number of MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mebibytes(u32);

impl Mebibytes {
    /// In bytes.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0)
            .unwrap_or(usize::MAX)
            .saturating_mul(1 << 20)
    }
}

impl From<u32> for Mebibytes {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl Assign for Mebibytes {
    fn assign(&mut self, text: &str) -> bool {
        match text.parse() {
            Ok(number) if number > 0 => self.0 = number,
            _ => return false,
        }
        true
    }
}

/// How many there may be of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(u16);

impl Count {
    /// The number, over 0.
    pub fn get(self) -> usize {
        self.0.into()
    }
}

impl From<u16> for Count {
    fn from(number: u16) -> Self {
        Self(number)
    }
}

impl Assign for Count {
    fn assign(&mut self, text: &str) -> bool {
        match text.parse() {
            Ok(number) if number > 0 => self.0 = number,
            _ => return false,
        }
        true
    }
}

/// A port that proxies listen on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port(u16);

impl Port {
    /// Over 0.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl From<u16> for Port {
    fn from(port: u16) -> Self {
        Self(port)
    }
}

impl Assign for Port {
    fn assign(&mut self, text: &str) -> bool {
        match text.parse() {
            Ok(port) if port > 0 => self.0 = port,
            _ => return false,
        }
        true
    }
}

/// A type that a flag may have.
trait Assign {
    /// Reads a value; false leaves the old one.
    fn assign(&mut self, text: &str) -> bool;
}

impl Assign for bool {
    fn assign(&mut self, text: &str) -> bool {
        // Go: strconv.ParseBool.
        *self = match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return false,
        };
        true
    }
}

impl Assign for Namespace {
    fn assign(&mut self, text: &str) -> bool {
        if !text.is_empty() {
            *self = text.into();
        }
        !text.is_empty()
    }
}

impl Assign for Name {
    fn assign(&mut self, text: &str) -> bool {
        if !text.is_empty() {
            *self = text.into();
        }
        !text.is_empty()
    }
}

impl Features {
    /// The flags as the environment sets them; a value without meaning leaves the default.
    pub fn from_env(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::read_env(variables, &[]).0
    }

    /// As [`Features::from_env`], with what there is to say about the variables: values without meaning, names that
    /// look like Istio's and are none, names of Istio's that have no effect here. `handled` are names that others read.
    pub fn read_env(
        variables: impl IntoIterator<Item = (String, String)>,
        handled: &[&str],
    ) -> (Self, Vec<Diagnostic>) {
        let mut features = Self::default();
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort_unstable();
        let findings = variables
            .iter()
            .filter_map(|(name, value)| features.read_variable(name, value, handled));
        let mut findings: Vec<Diagnostic> = findings.collect();
        findings.extend(features.settle_ambient(&variables));
        (features, findings)
    }

    /// Settings of the ambient mode have an effect only with that mode, which turns some of them on.
    ///
    /// Istio: pilot/pkg/features/ambient.go registerAmbient, 1.32.
    fn settle_ambient(&mut self, variables: &[(String, String)]) -> Vec<Diagnostic> {
        let names = [
            "PILOT_ENABLE_AMBIENT_WAYPOINTS",
            "PILOT_ENABLE_SENDING_HBONE",
            "AMBIENT_ENABLE_MULTI_NETWORK",
        ];
        let is_set = |name: &str| variables.iter().any(|(set, _)| set == name);
        if self.ambient {
            self.ambient_waypoints |= !is_set(names[0]);
            self.sending_hbone |= !is_set(names[1]);
            return Vec::new();
        }
        (self.ambient_waypoints, self.sending_hbone) = (false, false);
        self.ambient_multi_network = false;
        let ignored = names.into_iter().filter(|name| is_set(name));
        let ignored = ignored.map(|name| {
            let message = "this setting has no effect without PILOT_ENABLE_AMBIENT";
            Diagnostic::new(code::ENVIRONMENT, Severity::Info, message).at(name)
        });
        ignored.collect()
    }

    fn read_variable(&mut self, name: &str, value: &str, handled: &[&str]) -> Option<Diagnostic> {
        let finding = |severity, message: String| {
            Some(Diagnostic::new(code::ENVIRONMENT, severity, message).at(name))
        };
        if handled.contains(&name) || (value.is_empty() && name.starts_with("PILOT")) {
            return None;
        }
        match self.set(name, value) {
            Some(true) => None,
            Some(false) => {
                let default = Self::ALL.iter().find(|f| f.name == name)?.default;
                finding(
                    Severity::Error,
                    format!("{value:?} has no meaning here; the default, {default}, is used"),
                )
            }
            None if known::KNOWN.contains(&name) => finding(
                Severity::Info,
                "this setting of Istio has no effect".to_owned(),
            ),
            None if name.starts_with("PILOT_") => {
                let names = Self::ALL.iter().map(|f| f.name);
                let near = nearest(name, names.chain(known::KNOWN.iter().copied()));
                let unknown = finding(Severity::Warning, "there is no such setting".to_owned());
                match near {
                    Some(near) => unknown.map(|d| d.help(format!("did you mean {near}?"))),
                    None => unknown,
                }
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Features, Vec<String>) {
        let pairs = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let (features, findings) = Features::read_env(pairs, &["PILOT_MINE"]);
        (features, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn flags_are_set_by_their_names() {
        let (features, findings) =
            read(&[("PILOT_HTTP10", "1"), ("PATH", "x"), ("PILOT_MINE", "y")]);
        assert!(features.http10 && features.ip_auto_allocate);
        assert_eq!(findings, Vec::<String>::new());
    }

    #[test]
    fn odd_variables_are_told() {
        let (features, findings) = read(&[
            ("ISTIO_DUAL_STACK", "yes"),
            ("PILOT_HTTP1", "true"),
            ("XDS_AUTH", "true"),
        ]);
        assert_eq!(features, Features::default());
        assert_eq!(
            findings,
            [
                "error[PIL0007]: ISTIO_DUAL_STACK: \"yes\" has no meaning here; the default, false, is used",
                "warning[PIL0007]: PILOT_HTTP1: there is no such setting (did you mean PILOT_HTTP10?)",
                "info[PIL0007]: XDS_AUTH: this setting of Istio has no effect",
            ]
        );
    }

    #[test]
    fn the_ambient_mode_turns_its_settings_on() {
        let ambient = ("PILOT_ENABLE_AMBIENT", "true");
        let waypoints = "PILOT_ENABLE_AMBIENT_WAYPOINTS";
        assert!(read(&[ambient]).0.ambient_waypoints);
        let (features, _) = read(&[ambient, (waypoints, "false")]);
        assert!(features.sending_hbone && !features.ambient_waypoints);
        let (features, findings) = read(&[(waypoints, "true")]);
        assert_eq!(features, Features::default());
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn no_name_is_both_a_flag_and_without_effect() {
        for flag in Features::ALL {
            assert!(!known::KNOWN.contains(&flag.name), "{}", flag.name);
        }
    }
}

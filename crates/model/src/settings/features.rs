//! Feature flags that change generation, and where they come from.
//!
//! They have Istio's environment names, so that an installation keeps its settings. One row of [`declare_features!`] is
//! all it takes to add one.

mod known;
mod listed;
mod range;
mod value;

pub use listed::{Bind, Listed};
use range::{V4Range, V6Range};
use value::{Count, Mebibytes, Percentage, Port, Taken, take};
pub use value::{JwksFetch, Words};

use crate::diagnostic::{Diagnostic, Severity};
use crate::names::{Name, Namespace};
use crate::parse::{code, nearest};

/// What begins the names of variables that are this program's own.
const OWN: &str = "PILOTHOUSE_";

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

            /// Sets the flag with this name. Returns what was wrong with the value; `None` if no flag has the name.
            fn set<'v>(&mut self, name: &str, value: &'v str) -> Option<Taken<'v>> {
                match name {
                    $($name => Some(take(&mut self.$field, value)),)*
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
    "PILOTHOUSE_LOCAL_ENDPOINTS" local_endpoints: Listed<Namespace> = "",
        "The namespaces, separated by commas, whose services may have endpoints at loopback, link-local, unspecified, multicast and metadata addresses and at Unix sockets; * is all.";
    "PILOTHOUSE_GATEWAY_BINDS" gateway_binds: Listed<Bind> = "",
        "The addresses, ranges and Unix sockets (unix:///path), separated by commas, that servers of Istio's Gateways may bind besides all addresses; * is any.";
    "PILOTHOUSE_PROXY_FILES" proxy_files: Listed<Namespace> = "",
        "The namespaces, separated by commas, whose Gateways may name certificates in files of proxies of other namespaces; * is all.";
    "PILOTHOUSE_NAMESPACE_BUDGET" namespace_budget: Mebibytes = 64,
        "How many MiB of routes, clusters and endpoints the objects of one kind in a namespace may make together; the youngest beyond it are closed.";
    "PILOTHOUSE_NAMESPACE_PORTS" namespace_ports: Count = 64,
        "How many ports the objects of a namespace may open at a proxy of another; the youngest beyond it are not served there.";
    "PILOTHOUSE_INGRESS_CLASSES" edge_classes: Words = "",
        "The classes of Ingresses, separated by commas, that are served with their annotations, as Higress and ingress-nginx do.";
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
        "The addresses or host names, separated by commas, that the status of such Ingresses has, in place of a Service's.";
    "PILOTHOUSE_OWNED_HOSTS" owned_hosts: bool = false,
        "Give hosts of Gateways, VirtualServices and routes of the Gateway API to the namespace of the oldest object that claims them.";
    "PILOTHOUSE_SECRET_TEMPLATES" secret_templates: Listed<Namespace> = "",
        "The namespaces, separated by commas, in whose objects ${secret.name.key} and ${secret.namespace/name.key} are replaced by values of Secrets; * or true is all.";
    "PILOTHOUSE_ALLOW_ANY_GATEWAY_OVERLAY" any_gateway_overlay: bool = false,
        "Let the ConfigMap of a Gateway's parametersRef set any field of what is deployed for it.";
    "PILOTHOUSE_UNBOUND_FOREIGN_ROOTS" unbound_foreign_roots: bool = false,
        "Give roots of other trust domains to proxies that cannot bind them to these.";
    "PILOTHOUSE_KNATIVE_CLASSES" knative_classes: Words = "",
        "The classes of Knative's Ingresses, separated by commas, that are served; higress where none is stated and PILOTHOUSE_INGRESS_CLASSES has it.";
    "PILOTHOUSE_KNATIVE_LOCAL_SELECTOR" knative_local_selector: Name = "",
        "The label of the proxies that serve cluster-local hosts of Knative beside sidecars.";
    "PILOTHOUSE_KNATIVE_LOCAL_PORT" knative_local_port: Port = 80,
        "The port of these proxies for plain text.";
    "PILOTHOUSE_KNATIVE_LOCAL_SERVICE" knative_local_service: Words = "",
        "The Service, as namespace/name, by which these proxies are reached.";
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
        let mut findings = Vec::new();
        for (name, value) in &variables {
            findings.extend(features.read_variable(name, value, handled));
        }
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

    fn read_variable(&mut self, name: &str, value: &str, handled: &[&str]) -> Vec<Diagnostic> {
        let finding = |severity, message: String| {
            Diagnostic::new(code::ENVIRONMENT, severity, message).at(name)
        };
        if handled.contains(&name) || (value.is_empty() && name.starts_with("PILOT")) {
            return Vec::new();
        }
        if let Some(taken) = self.set(name, value) {
            let default = Self::ALL.iter().find(|f| f.name == name);
            let default = default.map_or("", |feature| feature.default);
            let faults = taken.faults(value, default).into_iter();
            return faults.map(|why| finding(Severity::Error, why)).collect();
        }
        if known::KNOWN.contains(&name) {
            let message = "this setting of Istio has no effect".to_owned();
            return vec![finding(Severity::Info, message)];
        }
        let unknown = || finding(Severity::Warning, "there is no such setting".to_owned());
        let names = Self::ALL.iter().map(|f| f.name);
        if let Some(stem) = name.strip_prefix(OWN) {
            // Tests, tools and Services of Kubernetes have variables of this prefix, too: only what is near to a setting is
            // reported. The prefix, which all have, makes none nearer.
            let own = names.chain(handled.iter().copied());
            let near = nearest(stem, own.filter_map(|own| own.strip_prefix(OWN)));
            let found = near.map(|near| unknown().help(format!("did you mean {OWN}{near}?")));
            return found.into_iter().collect();
        }
        if !name.starts_with("PILOT_") {
            return Vec::new();
        }
        let near = nearest(name, names.chain(known::KNOWN.iter().copied()));
        vec![match near {
            Some(near) => unknown().help(format!("did you mean {near}?")),
            None => unknown(),
        }]
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
                "error[PIL0007]: ISTIO_DUAL_STACK: \"yes\" is not one of true, t, 1, false, f and 0; the default, false, is used",
                "warning[PIL0007]: PILOT_HTTP1: there is no such setting (did you mean PILOT_HTTP10?)",
                "info[PIL0007]: XDS_AUTH: this setting of Istio has no effect",
            ]
        );
    }

    #[test]
    fn values_say_what_would_be_accepted() {
        for (name, value, wanted) in [
            ("PILOTHOUSE_OWNED_HOSTS", "on", "true, t, 1, false, f and 0"),
            (
                "PILOTHOUSE_NAMESPACE_PORTS",
                "0",
                "a number from 1 to 65535",
            ),
            (
                "PILOTHOUSE_INGRESS_HTTP_PORT",
                "http",
                "a port from 1 to 65535",
            ),
            ("PILOT_TRACE_SAMPLING", "101", "a number from 0 to 100"),
            (
                "PILOT_JWT_ENABLE_REMOTE_JWKS",
                "yes",
                "istiod, false, hybrid, true and envoy",
            ),
            (
                "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX",
                "10.0.0.0/4",
                "from /8 to /30",
            ),
        ] {
            let (features, findings) = read(&[(name, value)]);
            assert_eq!(features, Features::default(), "{name}");
            assert_eq!(findings.len(), 1, "{findings:?}");
            let says = findings[0].contains(wanted) && findings[0].contains(value);
            assert!(says, "{}", findings[0]);
        }
    }

    #[test]
    fn items_of_lists_that_mean_nothing_are_reported_and_the_others_count() {
        let (features, findings) = read(&[
            (
                "PILOTHOUSE_GATEWAY_BINDS",
                "127.0.0.300, 10.0.0.0/8,unix:run",
            ),
            ("PILOTHOUSE_LOCAL_ENDPOINTS", "shop bank,Ops,infra"),
            ("PILOTHOUSE_PROXY_FILES", "*"),
            ("PILOTHOUSE_SECRET_TEMPLATES", "true"),
        ]);
        assert!(
            features.local_endpoints.allows("infra") && !features.local_endpoints.allows("shop")
        );
        assert!(
            features
                .gateway_binds
                .iter()
                .any(|item| &**item == "10.0.0.0/8")
        );
        assert!(features.proxy_files.allows("any") && features.secret_templates.allows("any"));
        let of_list = "so it allows nothing: items are separated by commas; * or true allows all, off or false none";
        let addresses = "is not an address, a range of addresses or unix:///path";
        let namespaces = "is not the name of a namespace";
        assert_eq!(
            findings,
            [
                format!(
                    "error[PIL0007]: PILOTHOUSE_GATEWAY_BINDS: \"127.0.0.300\" {addresses}, {of_list}"
                ),
                format!(
                    "error[PIL0007]: PILOTHOUSE_GATEWAY_BINDS: \"unix:run\" {addresses}, {of_list}"
                ),
                format!(
                    "error[PIL0007]: PILOTHOUSE_LOCAL_ENDPOINTS: \"shop bank\" {namespaces}, {of_list}"
                ),
                format!(
                    "error[PIL0007]: PILOTHOUSE_LOCAL_ENDPOINTS: \"Ops\" {namespaces}, {of_list}"
                ),
            ]
        );
    }

    #[test]
    fn a_misspelt_variable_of_ours_is_reported_and_those_of_others_are_not() {
        let (features, findings) = read(&[("PILOTHOUSE_LOCAL_ENDPOINT", "shop")]);
        assert_eq!(features, Features::default());
        assert_eq!(
            findings,
            [
                "warning[PIL0007]: PILOTHOUSE_LOCAL_ENDPOINT: there is no such setting (did you mean PILOTHOUSE_LOCAL_ENDPOINTS?)"
            ]
        );
        let of_others = [
            "PILOTHOUSE_BIN",
            "PILOTHOUSE_FUZZ_CACHE",
            "PILOTHOUSE_LOG",
            "PILOTHOUSE_OUT",
            "PILOTHOUSE_PORT_15010_TCP_ADDR",
            "PILOTHOUSE_RECORDINGS",
            "PILOTHOUSE_REQUIRE_ENVOY",
            "PILOTHOUSE_SEED",
            "PILOTHOUSE_SERVICE_HOST",
            "PILOTHOUSE_SERVICE_PORT",
        ];
        assert_eq!(
            read(&of_others.map(|name| (name, "x"))).1,
            Vec::<String>::new()
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

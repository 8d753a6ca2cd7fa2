//! The one list of kinds, and what is derived from it.

pub mod gateway_api;
pub mod higress;
pub mod istio;
pub mod knative;
pub mod kube;
pub mod multicluster;
mod short_names;

use std::fmt;
use std::sync::Arc;

use crate::object::{Object, ObjectKey};

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// One name for the whole cluster.
    Cluster,
}

/// A type that is the spec of one kind.
pub trait Kinded:
    Clone + PartialEq + fmt::Debug + serde::Serialize + Send + Sync + Sized + 'static
{
    /// The kind whose spec this is.
    const KIND: Kind;
    /// The part of the status that generation reads.
    type Status: PartialEq + Clone + Default + fmt::Debug + Send + Sync + 'static;

    /// The typed object inside `object`, if it is of this kind.
    fn of(object: &AnyObject) -> Option<&Arc<Object<Self>>>;
    /// The object as one of any kind.
    fn any(object: Arc<Object<Self>>) -> AnyObject;
}

/// Calls `$callback!` with one row for each kind:
/// `(Variant, spec type, status type, table field, "group", "Kind", "plural", Scope, ["version", ..])`,
/// versions with the preferred one first.
#[macro_export]
macro_rules! for_each_kind {
    ($callback:path) => {
        $callback! {
            (VirtualService, $crate::kinds::istio::VirtualService, (), virtual_services, "networking.istio.io", "VirtualService", "virtualservices", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (DestinationRule, $crate::kinds::istio::DestinationRule, (), destination_rules, "networking.istio.io", "DestinationRule", "destinationrules", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (Gateway, $crate::kinds::istio::Gateway, (), gateways, "networking.istio.io", "Gateway", "gateways", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (ServiceEntry, $crate::kinds::istio::ServiceEntry, $crate::kinds::istio::ServiceEntryStatus, service_entries, "networking.istio.io", "ServiceEntry", "serviceentries", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (Sidecar, $crate::kinds::istio::Sidecar, (), sidecars, "networking.istio.io", "Sidecar", "sidecars", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (WorkloadEntry, $crate::kinds::istio::WorkloadEntry, $crate::kinds::istio::WorkloadEntryStatus, workload_entries, "networking.istio.io", "WorkloadEntry", "workloadentries", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (WorkloadGroup, $crate::kinds::istio::WorkloadGroup, (), workload_groups, "networking.istio.io", "WorkloadGroup", "workloadgroups", Namespaced, ["v1", "v1beta1", "v1alpha3"]),
            (EnvoyFilter, $crate::kinds::istio::EnvoyFilter, (), envoy_filters, "networking.istio.io", "EnvoyFilter", "envoyfilters", Namespaced, ["v1alpha3"]),
            (ProxyConfig, $crate::kinds::istio::ProxyConfig, (), proxy_configs, "networking.istio.io", "ProxyConfig", "proxyconfigs", Namespaced, ["v1beta1"]),
            (AuthorizationPolicy, $crate::kinds::istio::AuthorizationPolicy, $crate::kinds::istio::AuthorizationPolicyStatus, authorization_policies, "security.istio.io", "AuthorizationPolicy", "authorizationpolicies", Namespaced, ["v1", "v1beta1"]),
            (PeerAuthentication, $crate::kinds::istio::PeerAuthentication, (), peer_authentications, "security.istio.io", "PeerAuthentication", "peerauthentications", Namespaced, ["v1", "v1beta1"]),
            (RequestAuthentication, $crate::kinds::istio::RequestAuthentication, (), request_authentications, "security.istio.io", "RequestAuthentication", "requestauthentications", Namespaced, ["v1", "v1beta1"]),
            (Telemetry, $crate::kinds::istio::Telemetry, (), telemetries, "telemetry.istio.io", "Telemetry", "telemetries", Namespaced, ["v1", "v1alpha1"]),
            (WasmPlugin, $crate::kinds::istio::WasmPlugin, (), wasm_plugins, "extensions.istio.io", "WasmPlugin", "wasmplugins", Namespaced, ["v1alpha1"]),
            (TrafficExtension, $crate::kinds::istio::TrafficExtension, (), traffic_extensions, "extensions.istio.io", "TrafficExtension", "trafficextensions", Namespaced, ["v1alpha1"]),

            (Service, $crate::kinds::kube::Service, $crate::kinds::kube::ServiceStatus, kube_services, "", "Service", "services", Namespaced, ["v1"]),
            (EndpointSlice, $crate::kinds::kube::EndpointSlice, (), endpoint_slices, "discovery.k8s.io", "EndpointSlice", "endpointslices", Namespaced, ["v1"]),
            (Pod, $crate::kinds::kube::Pod, $crate::kinds::kube::PodStatus, pods, "", "Pod", "pods", Namespaced, ["v1"]),
            (Node, $crate::kinds::kube::Node, $crate::kinds::kube::NodeStatus, nodes, "", "Node", "nodes", Cluster, ["v1"]),
            (Namespace, $crate::kinds::kube::NamespaceSpec, (), namespaces, "", "Namespace", "namespaces", Cluster, ["v1"]),
            (Secret, $crate::kinds::kube::Secret, (), secrets, "", "Secret", "secrets", Namespaced, ["v1"]),
            (ConfigMap, $crate::kinds::kube::ConfigMap, (), config_maps, "", "ConfigMap", "configmaps", Namespaced, ["v1"]),
            (Ingress, $crate::kinds::kube::Ingress, (), ingresses, "networking.k8s.io", "Ingress", "ingresses", Namespaced, ["v1"]),
            (IngressClass, $crate::kinds::kube::IngressClass, (), ingress_classes, "networking.k8s.io", "IngressClass", "ingressclasses", Cluster, ["v1"]),

            (Deployment, $crate::kinds::kube::Deployment, (), deployments, "apps", "Deployment", "deployments", Namespaced, ["v1"]),
            (MutatingWebhook, $crate::kinds::kube::MutatingWebhookConfiguration, (), mutating_webhooks, "admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", Cluster, ["v1"]),
            (ValidatingWebhook, $crate::kinds::kube::ValidatingWebhookConfiguration, (), validating_webhooks, "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", Cluster, ["v1"]),
            (CustomResourceDefinition, $crate::kinds::kube::CustomResourceDefinition, (), custom_resource_definitions, "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", Cluster, ["v1"]),

            (GatewayClass, $crate::kinds::gateway_api::GatewayClass, (), gateway_classes, "gateway.networking.k8s.io", "GatewayClass", "gatewayclasses", Cluster, ["v1", "v1beta1"]),
            (KubeGateway, $crate::kinds::gateway_api::Gateway, $crate::kinds::gateway_api::GatewayStatus, kube_gateways, "gateway.networking.k8s.io", "Gateway", "gateways", Namespaced, ["v1", "v1beta1"]),
            (ListenerSet, $crate::kinds::gateway_api::ListenerSet, (), listener_sets, "gateway.networking.k8s.io", "ListenerSet", "listenersets", Namespaced, ["v1"]),
            (HttpRoute, $crate::kinds::gateway_api::HttpRoute, $crate::kinds::gateway_api::RouteStatus, http_routes, "gateway.networking.k8s.io", "HTTPRoute", "httproutes", Namespaced, ["v1", "v1beta1"]),
            (GrpcRoute, $crate::kinds::gateway_api::GrpcRoute, $crate::kinds::gateway_api::RouteStatus, grpc_routes, "gateway.networking.k8s.io", "GRPCRoute", "grpcroutes", Namespaced, ["v1"]),
            (TlsRoute, $crate::kinds::gateway_api::TlsRoute, (), tls_routes, "gateway.networking.k8s.io", "TLSRoute", "tlsroutes", Namespaced, ["v1", "v1alpha3", "v1alpha2"]),
            (TcpRoute, $crate::kinds::gateway_api::TcpRoute, (), tcp_routes, "gateway.networking.k8s.io", "TCPRoute", "tcproutes", Namespaced, ["v1", "v1alpha2"]),
            (UdpRoute, $crate::kinds::gateway_api::UdpRoute, (), udp_routes, "gateway.networking.k8s.io", "UDPRoute", "udproutes", Namespaced, ["v1", "v1alpha2"]),
            (ReferenceGrant, $crate::kinds::gateway_api::ReferenceGrant, (), reference_grants, "gateway.networking.k8s.io", "ReferenceGrant", "referencegrants", Namespaced, ["v1", "v1beta1"]),
            (BackendTlsPolicy, $crate::kinds::gateway_api::BackendTlsPolicy, (), backend_tls_policies, "gateway.networking.k8s.io", "BackendTLSPolicy", "backendtlspolicies", Namespaced, ["v1", "v1alpha3"]),
            (XBackend, $crate::kinds::gateway_api::XBackend, (), x_backends, "gateway.networking.x-k8s.io", "XBackend", "xbackends", Namespaced, ["v1alpha1"]),
            (XBackendTrafficPolicy, $crate::kinds::gateway_api::XBackendTrafficPolicy, (), x_backend_traffic_policies, "gateway.networking.x-k8s.io", "XBackendTrafficPolicy", "xbackendtrafficpolicies", Namespaced, ["v1alpha1"]),
            (XMesh, $crate::kinds::gateway_api::XMesh, (), x_meshes, "gateway.networking.x-k8s.io", "XMesh", "xmeshes", Cluster, ["v1alpha1"]),

            (InferencePool, $crate::kinds::gateway_api::InferencePool, (), inference_pools, "inference.networking.k8s.io", "InferencePool", "inferencepools", Namespaced, ["v1"]),

            (ServiceExport, $crate::kinds::multicluster::ServiceExport, $crate::kinds::multicluster::ServiceExportStatus, service_exports, "multicluster.x-k8s.io", "ServiceExport", "serviceexports", Namespaced, ["v1alpha1"]),
            (ServiceImport, $crate::kinds::multicluster::ServiceImport, (), service_imports, "multicluster.x-k8s.io", "ServiceImport", "serviceimports", Namespaced, ["v1alpha1"]),

            (McpBridge, $crate::kinds::higress::McpBridge, (), mcp_bridges, "networking.higress.io", "McpBridge", "mcpbridges", Namespaced, ["v1"]),
            (Http2Rpc, $crate::kinds::higress::Http2Rpc, (), http2_rpcs, "networking.higress.io", "Http2Rpc", "http2rpcs", Namespaced, ["v1"]),
            (HigressWasmPlugin, $crate::kinds::higress::WasmPlugin, (), higress_wasm_plugins, "extensions.higress.io", "WasmPlugin", "wasmplugins", Namespaced, ["v1alpha1"]),

            (KnativeIngress, $crate::kinds::knative::Ingress, (), knative_ingresses, "networking.internal.knative.dev", "Ingress", "ingresses", Namespaced, ["v1alpha1"]),
        }
    };
}

macro_rules! declare_kinds {
    ($(($variant:ident, $spec:ty, $status:ty, $table:ident, $group:literal, $kind:literal, $plural:literal, $scope:ident, [$($version:literal),+])),+ $(,)?) => {
        /// What an object is.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind {
            $(#[doc = concat!("`", $kind, ".", $group, "`.")] $variant),+
        }

        impl Kind {
            /// Every kind, in the order of the list.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant),+];

            /// The name in `kind:`.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $kind),+ }
            }

            /// The API group; empty for the core group.
            pub fn group(self) -> &'static str {
                match self { $(Kind::$variant => $group),+ }
            }

            /// The name in paths and on command lines.
            pub fn plural(self) -> &'static str {
                match self { $(Kind::$variant => $plural),+ }
            }

            /// Whether its objects live in namespaces.
            pub fn scope(self) -> Scope {
                match self { $(Kind::$variant => Scope::$scope),+ }
            }

            /// The versions that are read, the preferred one first. All mean the same.
            pub fn versions(self) -> &'static [&'static str] {
                match self { $(Kind::$variant => &[$($version),+]),+ }
            }
        }

        /// An object of any kind; clones share it.
        #[derive(Clone, Debug)]
        pub enum AnyObject {
            $(#[doc = concat!("A ", $kind, ".")] $variant(Arc<Object<$spec>>)),+
        }

        impl AnyObject {
            /// The object's key.
            pub fn key(&self) -> ObjectKey {
                match self { $(AnyObject::$variant(o) => o.key()),+ }
            }

            /// What it is.
            pub fn kind(&self) -> Kind {
                match self { $(AnyObject::$variant(_) => Kind::$variant),+ }
            }

            /// The object's metadata.
            pub fn meta(&self) -> &crate::object::Meta {
                match self { $(AnyObject::$variant(o) => &o.meta),+ }
            }

            /// Says where the object was read from. An object that is shared already stays as it is.
            pub fn set_origin(&mut self, origin: crate::object::Origin) {
                match self {
                    $(AnyObject::$variant(o) => {
                        if let Some(o) = Arc::get_mut(o) {
                            o.meta.origin = origin;
                        }
                    }),+
                }
            }

            /// Says which remote cluster the object is in.
            pub fn set_cluster(&mut self, cluster: Option<&crate::names::ClusterId>) {
                match self {
                    $(AnyObject::$variant(o) => {
                        if o.meta.name.cluster.as_ref() != cluster {
                            Arc::make_mut(o).meta.name.cluster = cluster.cloned();
                        }
                    }),+
                }
            }

            /// The spec as JSON, for people: values of secrets are left out, secret templates stand as written.
            pub fn spec_json(&self) -> serde_json::Value {
                let mut json = match self {
                    $(AnyObject::$variant(o) => serde_json::to_value(&o.spec)),+
                }
                .unwrap_or_default();
                crate::template::written_json(&mut json);
                json
            }

            /// Whether generation would see no difference between the two.
            pub fn means_the_same(&self, other: &AnyObject) -> bool {
                match (self, other) {
                    $((AnyObject::$variant(a), AnyObject::$variant(b)) => a.means_the_same(b),)+
                    _ => false,
                }
            }
        }

        $(
            impl Kinded for $spec {
                const KIND: Kind = Kind::$variant;
                type Status = $status;

                fn of(object: &AnyObject) -> Option<&Arc<Object<Self>>> {
                    match object { AnyObject::$variant(o) => Some(o), _ => None }
                }

                fn any(object: Arc<Object<Self>>) -> AnyObject {
                    AnyObject::$variant(object)
                }
            }
        )+
    };
}

for_each_kind!(declare_kinds);

impl Kind {
    /// The kind that `group` and `kind` name together.
    pub fn find(group: &str, kind: &str) -> Option<Kind> {
        Kind::ALL
            .iter()
            .copied()
            .find(|k| k.name() == kind && k.group() == group)
    }

    /// Whether each cluster has its own objects of the kind, so that those of equal names in two clusters are two: what
    /// runs in a cluster, and what the cluster's own API server is told. The rest configures the whole mesh, whichever
    /// cluster it was written in.
    pub fn is_per_cluster(self) -> bool {
        let workloads = matches!(
            self,
            Kind::Service
                | Kind::EndpointSlice
                | Kind::Pod
                | Kind::Node
                | Kind::Namespace
                | Kind::Deployment
                | Kind::ServiceExport
                | Kind::ServiceImport
                | Kind::WorkloadEntry
                | Kind::KubeGateway
        );
        let ingresses = self.is_read_remotely_on_request();
        // Istio reads credentials in the cluster of the gateway that asks for them.
        let credentials = matches!(self, Kind::Secret | Kind::ConfigMap);
        let api_server = matches!(
            self,
            Kind::MutatingWebhook | Kind::ValidatingWebhook | Kind::CustomResourceDefinition
        );
        workloads || credentials || ingresses || api_server
    }

    /// Whether the status of its objects may say what analysis finds: Istio's kinds.
    pub fn has_analysis_status(self) -> bool {
        self.group().ends_with(".istio.io")
    }

    /// Whether objects of the kind count in a remote cluster, too: what runs there, how it is entered, and credentials.
    /// Other configuration counts in the configured cluster only.
    ///
    /// Istio: pilot/pkg/serviceregistry/kube/controller/multicluster.go, 1.32.
    pub fn is_read_remotely(self) -> bool {
        // Webhooks that inject sidecars are called by our roots there, too.
        let of_api_server = matches!(
            self,
            Kind::ValidatingWebhook | Kind::CustomResourceDefinition
        );
        let on_request = self.is_read_remotely_on_request();
        self.is_per_cluster() && !of_api_server && !on_request && self != Kind::Deployment
    }

    /// Whether objects of the kind count in those remote clusters of which whoever configures the mesh says so.
    ///
    /// Higress: pkg/ingress/config/ingress_config.go AddLocalCluster, remoteIngressControllers, 2.1.
    pub fn is_read_remotely_on_request(self) -> bool {
        matches!(self, Kind::Ingress | Kind::IngressClass)
    }

    /// `group/version` as objects are written, with the preferred version.
    pub fn api_version(self) -> String {
        let version = self.versions()[0];
        if self.group().is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group())
        }
    }
}

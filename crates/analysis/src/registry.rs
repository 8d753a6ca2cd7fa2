//! Every analyzer: what it is called, what it is for, and what it looks at.

use incr::Cx;
use model::kinds::{
    Kinded, gateway_api, higress as higress_kinds, istio, knative, kube,
    multicluster as multicluster_kinds,
};
use model::{Kind, Namespace, Object};
use store::{Reads, Snapshot};

use crate::analyzers::{
    annotations, attachment, authentication, authorization, conditions, deployment, deprecation,
    destination_rule, endpoints, envoy_filter, external_control_plane, gateway, gateway_conflict,
    grant, higress, ingress, injection, kube_gateway, mesh_networks, multicluster,
    peer_authentication, policy, route, service, service_entry, shared_host, sidecar, telemetry,
    virtual_service, webhook,
};
use crate::finding::Report;

/// Looks at one object.
pub(crate) type Check<T> = fn(&Cx<'_, Snapshot>, &Object<T>, &mut Report<'_>);
/// Looks at the objects of a namespace together.
type NamespaceCheck = fn(&Cx<'_, Snapshot>, &Namespace, &mut Report<'_>);
/// Looks at the whole mesh.
type MeshCheck = fn(&Cx<'_, Snapshot>, &mut Report<'_>);

/// An analyzer of single objects.
pub(crate) struct ObjectAnalyzer<T: Kinded> {
    pub(crate) name: &'static str,
    pub(crate) check: Check<T>,
}

/// A kind, with the analyzers of its objects.
pub(crate) trait Analyzed: Kinded {
    const ANALYZERS: &'static [ObjectAnalyzer<Self>];
}

macro_rules! object_analyzers {
    ($($spec:ty: [$($name:literal => $check:path),* $(,)?]),+ $(,)?) => {
        $(impl Analyzed for $spec {
            const ANALYZERS: &'static [ObjectAnalyzer<Self>] =
                &[$(ObjectAnalyzer { name: $name, check: $check }),*];
        })+
    };
}

object_analyzers! {
    istio::VirtualService: [
        "deprecation.DeprecationAnalyzer" => deprecation::virtual_service,
        "virtualservice.DestinationHostAnalyzer" => virtual_service::destinations::hosts,
        "virtualservice.DestinationRuleAnalyzer" => virtual_service::destinations::subsets,
        "virtualservice.GatewayAnalyzer" => virtual_service::gateways::check,
        "virtualservice.JWTClaimRouteAnalyzer" => virtual_service::claims::check,
        "pilothouse.HiddenRule" => virtual_service::hidden::check,
        "pilothouse.HostWithoutService" => virtual_service::without_service::check,
        "pilothouse.Reference" => virtual_service::delegates::check,
        "pilothouse.Reference" => virtual_service::destinations::below_wildcards,
    ],
    istio::DestinationRule: [
        "destinationrule.CaCertificateAnalyzer" => destination_rule::ca_certificates,
        "destinationrule.SubsetSelectPodAnalyzer" => destination_rule::subsets,
        "pilothouse.HiddenSubset" => destination_rule::hidden::check,
        "pilothouse.Reference" => destination_rule::references,
        "pilothouse.SelectsNothing" => policy::destination_rule,
    ],
    istio::Gateway: [
        "gateway.IngressGatewayPortAnalyzer" => gateway::ports,
        "gateway.SecretAnalyzer" => gateway::secrets,
        "gateway.CertificateAnalyzer" => gateway::certificates,
    ],
    istio::ServiceEntry: [
        "conditions.ConditionAnalyzer" => conditions::service_entry,
        "serviceentry.Analyzer" => service_entry::addresses,
    ],
    istio::Sidecar: ["deprecation.DeprecationAnalyzer" => deprecation::sidecar],
    istio::WorkloadEntry: ["conditions.ConditionAnalyzer" => conditions::workload_entry],
    istio::WorkloadGroup: [],
    istio::EnvoyFilter: [
        "pilothouse.SelectsNothing" => policy::envoy_filter,
        "pilothouse.Reference" => policy::envoy_filter_targets,
    ],
    istio::ProxyConfig: ["pilothouse.SelectsNothing" => policy::proxy_config],
    istio::AuthorizationPolicy: [
        "auth.AuthorizationPoliciesAnalyzer" => authorization::check,
        "conditions.ConditionAnalyzer" => conditions::authorization_policy,
        "k8sgateway.SelectorAnalyzer" => kube_gateway::authorization_policy,
        "pilothouse.Pattern" => authorization::patterns,
        "pilothouse.Reference" => policy::authorization_policy_targets,
    ],
    istio::PeerAuthentication: [
        "pilothouse.MutualTls" => peer_authentication::check,
        "pilothouse.SelectsNothing" => policy::peer_authentication,
    ],
    istio::RequestAuthentication: [
        "k8sgateway.SelectorAnalyzer" => kube_gateway::request_authentication,
        "pilothouse.SelectsNothing" => policy::request_authentication,
        "pilothouse.Reference" => policy::request_authentication_targets,
    ],
    istio::Telemetry: [
        "k8sgateway.SelectorAnalyzer" => kube_gateway::telemetry,
        "telemetry.ProviderAnalyzer" => telemetry::providers,
        "telemetry.LightstepAnalyzer" => telemetry::lightstep,
        "pilothouse.Reference" => policy::telemetry_targets,
    ],
    istio::WasmPlugin: [
        "k8sgateway.SelectorAnalyzer" => kube_gateway::wasm_plugin,
        "pilothouse.SelectsNothing" => policy::wasm_plugin,
        "pilothouse.Reference" => policy::wasm_plugin_targets,
    ],
    istio::TrafficExtension: [
        "pilothouse.SelectsNothing" => policy::traffic_extension,
        "pilothouse.Reference" => policy::traffic_extension_targets,
    ],
    kube::Service: [
        "annotations.K8sAnalyzer" => annotations::service,
        "annotations.AlphaAnalyzer" => annotations::alpha_service,
        "conditions.ConditionAnalyzer" => conditions::service,
        "service.PortNameAnalyzer" => service::port_names,
        "pilothouse.Endpoints" => endpoints::check,
    ],
    kube::EndpointSlice: [],
    kube::Pod: [
        "annotations.K8sAnalyzer" => annotations::pod,
        "annotations.AlphaAnalyzer" => annotations::alpha_pod,
        "applicationUID.Analyzer" => deployment::pod_user,
        "injection.Analyzer" => injection::pod,
        "injection.ImageAutoAnalyzer" => injection::pod_image_auto,
    ],
    kube::Node: [],
    kube::NamespaceSpec: [
        "annotations.K8sAnalyzer" => annotations::namespace,
        "annotations.AlphaAnalyzer" => annotations::alpha_namespace,
        "injection.Analyzer" => injection::namespace,
        "injection.ImageAnalyzer" => injection::images,
    ],
    kube::Secret: [],
    kube::ConfigMap: [],
    kube::Ingress: ["pilothouse.Reference" => ingress::check],
    kube::IngressClass: [],
    kube::Deployment: [
        "annotations.K8sAnalyzer" => annotations::deployment,
        "annotations.AlphaAnalyzer" => annotations::alpha_deployment,
        "applicationUID.Analyzer" => deployment::template_user,
        "authn.BlockedCIDRsAnalyzer" => authentication::blocked_cidrs,
        "deployment.MultiServiceAnalyzer" => deployment::services,
        "injection.ImageAutoAnalyzer" => injection::deployment_image_auto,
    ],
    kube::MutatingWebhookConfiguration: [
        "externalcontrolplane.ExternalControlPlaneAnalyzer" => external_control_plane::mutating,
    ],
    kube::ValidatingWebhookConfiguration: [
        "externalcontrolplane.ExternalControlPlaneAnalyzer" => external_control_plane::validating,
    ],
    kube::CustomResourceDefinition: [
        "deprecation.DeprecationAnalyzer" => deprecation::definition,
        "k8sgateway.CRDVersionAnalyzer" => kube_gateway::definition,
    ],
    gateway_api::GatewayClass: [],
    gateway_api::Gateway: [
        "conditions.ConditionAnalyzer" => conditions::kube_gateway,
        "pilothouse.Attachment" => attachment::gateway,
        "pilothouse.Reference" => route::gateway,
    ],
    gateway_api::ListenerSet: [
        "pilothouse.Attachment" => attachment::listener_set,
        "pilothouse.Reference" => route::listener_set,
    ],
    gateway_api::HttpRoute: [
        "conditions.ConditionAnalyzer" => conditions::http_route,
        "pilothouse.Attachment" => attachment::route,
        "pilothouse.Reference" => route::http,
    ],
    gateway_api::GrpcRoute: [
        "conditions.ConditionAnalyzer" => conditions::grpc_route,
        "pilothouse.Attachment" => attachment::route,
        "pilothouse.Reference" => route::grpc,
    ],
    gateway_api::TlsRoute: [
        "pilothouse.Attachment" => attachment::route,
        "pilothouse.Reference" => route::tls,
    ],
    gateway_api::TcpRoute: [
        "pilothouse.Attachment" => attachment::route,
        "pilothouse.Reference" => route::tcp,
    ],
    gateway_api::UdpRoute: [
        "pilothouse.Attachment" => attachment::route,
        "pilothouse.Reference" => route::udp,
    ],
    gateway_api::ReferenceGrant: ["pilothouse.Grant" => grant::check],
    gateway_api::BackendTlsPolicy: ["pilothouse.Reference" => route::backend_tls_policy],
    gateway_api::XBackend: [],
    gateway_api::XBackendTrafficPolicy: [
        "pilothouse.Reference" => route::x_backend_traffic_policy,
    ],
    gateway_api::XMesh: [],
    gateway_api::InferencePool: ["pilothouse.Reference" => route::inference_pool],
    multicluster_kinds::ServiceExport: ["pilothouse.Reference" => multicluster::service_export],
    multicluster_kinds::ServiceImport: [],
    higress_kinds::McpBridge: ["pilothouse.Reference" => higress::mcp_bridge],
    higress_kinds::Http2Rpc: [],
    higress_kinds::WasmPlugin: ["pilothouse.Reference" => higress::wasm_plugin],
    knative::Ingress: [],
}

/// Analyzers of a namespace.
pub(crate) const NAMESPACE: &[(&str, NamespaceCheck)] = &[
    ("sidecar.SelectorAnalyzer", sidecar::check),
    ("telemetry.SelectorAnalyzer", telemetry::selectors),
    ("telemetry.DefaultSelectorAnalyzer", telemetry::defaults),
];

/// Analyzers of the mesh.
pub(crate) const MESH: &[(&str, MeshCheck)] = &[
    ("envoyfilter.EnvoyPatchAnalyzer", envoy_filter::check),
    (
        "gateway.ConflictingGatewayAnalyzer",
        gateway_conflict::check,
    ),
    ("meshnetworks.MeshNetworksAnalyzer", mesh_networks::check),
    (
        "serviceentry.ConflictingServiceEntryProtocolAnalyzer",
        service_entry::protocols,
    ),
    (
        "virtualservice.ConflictingMeshGatewayHostsAnalyzer",
        virtual_service::conflicts::check,
    ),
    ("webhook.Analyzer", webhook::check),
    ("pilothouse.SharedHost", shared_host::check),
];

macro_rules! by_kind {
    ($(($variant:ident, $spec:ty, $($rest:tt)*)),+ $(,)?) => {
        fn is_analyzed(kind: Kind) -> bool {
            match kind { $(Kind::$variant => !<$spec as Analyzed>::ANALYZERS.is_empty()),+ }
        }
    };
}

model::for_each_kind!(by_kind);

/// The kinds whose objects are analysed one by one.
pub(crate) fn analyzed_kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| is_analyzed(*kind))
}

/// The namespaces that hold objects which are analysed together.
pub(crate) fn namespaces_analyzed(cx: &Cx<'_, Snapshot>) -> Vec<Namespace> {
    let mut all = cx.namespaces::<istio::Sidecar>();
    all.extend(cx.namespaces::<istio::Telemetry>());
    all.sort();
    all.dedup();
    all
}

/// Every analyzer by name, with what it is for. The names are istioctl's where it has the same.
pub const DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "annotations.AlphaAnalyzer",
        "annotations that may change or go; asked for by name only",
    ),
    (
        "annotations.K8sAnalyzer",
        "annotations of Istio's that are unknown, deprecated, misplaced or do not fit",
    ),
    (
        "applicationUID.Analyzer",
        "containers that run as the proxy's user",
    ),
    (
        "auth.AuthorizationPoliciesAnalyzer",
        "authorization policies that apply to no workload or name namespaces that do not exist",
    ),
    (
        "authn.BlockedCIDRsAnalyzer",
        "an istiod that fetches token keys from any address",
    ),
    (
        "conditions.ConditionAnalyzer",
        "objects whose status says that they do not work",
    ),
    (
        "deployment.MultiServiceAnalyzer",
        "Services that disagree about a Deployment",
    ),
    (
        "deprecation.DeprecationAnalyzer",
        "deprecated fields and kinds",
    ),
    (
        "destinationrule.CaCertificateAnalyzer",
        "TLS without a check of who answers",
    ),
    (
        "destinationrule.SubsetSelectPodAnalyzer",
        "subsets without workloads, rules without a host",
    ),
    (
        "envoyfilter.EnvoyPatchAnalyzer",
        "patches whose operation has no effect or depends on their order",
    ),
    (
        "externalcontrolplane.ExternalControlPlaneAnalyzer",
        "webhooks of a control plane elsewhere",
    ),
    (
        "gateway.CertificateAnalyzer",
        "certificates that gateways of one workload share",
    ),
    (
        "gateway.ConflictingGatewayAnalyzer",
        "gateways that serve the same host on the same port",
    ),
    (
        "gateway.IngressGatewayPortAnalyzer",
        "ports of gateways that no Service leads to",
    ),
    (
        "gateway.SecretAnalyzer",
        "certificates of gateways that are missing, unusable or expired",
    ),
    (
        "injection.Analyzer",
        "namespaces and pods that injection passes over",
    ),
    (
        "injection.ImageAnalyzer",
        "sidecars of another version than injection adds",
    ),
    (
        "injection.ImageAutoAnalyzer",
        "placeholders for the proxy's image that nobody replaces",
    ),
    (
        "k8sgateway.CRDVersionAnalyzer",
        "definitions of the Gateway API that are too old",
    ),
    (
        "k8sgateway.SelectorAnalyzer",
        "policies that select a gateway where they must target it",
    ),
    (
        "meshnetworks.MeshNetworksAnalyzer",
        "networks with registries that do not exist",
    ),
    (
        "pilothouse.Attachment",
        "routes and listeners of the Gateway API that are not served, and why",
    ),
    (
        "pilothouse.Endpoints",
        "Services without endpoints that Ingresses and routes lead to",
    ),
    ("pilothouse.Grant", "ReferenceGrants that nothing uses"),
    (
        "pilothouse.HiddenRule",
        "rules of a VirtualService that an earlier rule hides",
    ),
    (
        "pilothouse.HiddenSubset",
        "subsets that a DestinationRule hides from its namespace",
    ),
    (
        "pilothouse.HostWithoutService",
        "rules for sidecars whose hosts no service has",
    ),
    (
        "pilothouse.MutualTls",
        "workloads that ask for mutual TLS which clients do not speak",
    ),
    (
        "pilothouse.Pattern",
        "patterns of authorization policies that match nothing",
    ),
    (
        "pilothouse.Reference",
        "backends, parents, Secrets, targets and delegates that do not exist",
    ),
    (
        "pilothouse.SelectsNothing",
        "selectors of policies that match no workload",
    ),
    (
        "pilothouse.SharedHost",
        "objects that configure the same host, and which of them counts",
    ),
    (
        "service.PortNameAnalyzer",
        "ports whose names do not say what they speak",
    ),
    (
        "serviceentry.Analyzer",
        "TCP ports of ServiceEntries without addresses",
    ),
    (
        "serviceentry.ConflictingServiceEntryProtocolAnalyzer",
        "ServiceEntries that disagree about the protocol of a port",
    ),
    (
        "services.MultiClusterServiceAnalyzer",
        "services that differ between clusters",
    ),
    (
        "sidecar.SelectorAnalyzer",
        "Sidecars that select nothing, the same workload, or workloads without a sidecar",
    ),
    (
        "telemetry.DefaultSelectorAnalyzer",
        "several Telemetries for all of a namespace",
    ),
    (
        "telemetry.LightstepAnalyzer",
        "the Lightstep provider, which is going away",
    ),
    (
        "telemetry.ProviderAnalyzer",
        "access logs without a provider",
    ),
    (
        "telemetry.SelectorAnalyzer",
        "Telemetries that select nothing or the same workload",
    ),
    (
        "virtualservice.ConflictingMeshGatewayHostsAnalyzer",
        "hosts that several VirtualServices route for sidecars",
    ),
    (
        "virtualservice.DestinationHostAnalyzer",
        "destinations that do not exist, or need a port",
    ),
    (
        "virtualservice.DestinationRuleAnalyzer",
        "subsets that no DestinationRule defines",
    ),
    (
        "virtualservice.GatewayAnalyzer",
        "gateways that do not exist or do not serve the host",
    ),
    (
        "virtualservice.JWTClaimRouteAnalyzer",
        "routes by claims of tokens that nobody verifies",
    ),
    (
        "webhook.Analyzer",
        "injection webhooks that overlap or lead nowhere",
    ),
];

/// Analyzers whose findings are left out unless they are asked for by name.
pub const ON_REQUEST: &[&str] = &["annotations.AlphaAnalyzer"];

//! Limits of the kinds of Kubernetes that are read: those whose breach a person would notice.
// Kubernetes: pkg/apis/{core,discovery,networking,apps,admissionregistration}/validation, 1.34.

mod conditions;

use model::Kind;

use super::gateway_api::{is_domain_path, is_host, is_lower_label, is_subdomain};
use super::limits::Limit::{
    self, Between, Choice, Entries, Form, Length, Needs, OneOf, Other, Unique,
};
use super::metadata::check_labels;
use super::shape::Row::{self, Has, Is, Only};
use super::shape::Spec;
use crate::text::is_ip;

use conditions as c;

/// The shape of each kind, and where it stands.
pub(super) const SPECS: &[(Kind, &str, Spec)] = &[
    (Kind::Service, "Service", Spec::Needed),
    (Kind::EndpointSlice, "EndpointSlice", Spec::None),
    (Kind::Pod, "PodObject", Spec::None),
    (Kind::Node, "NodeObject", Spec::None),
    (Kind::Secret, "Secret", Spec::None),
    (Kind::ConfigMap, "ConfigMap", Spec::None),
    (Kind::Ingress, "Ingress", Spec::Needed),
    (Kind::IngressClass, "IngressClass", Spec::Optional),
    (Kind::Deployment, "Deployment", Spec::Needed),
    (Kind::CustomResourceDefinition, "Definition", Spec::None),
];

pub(super) const PORT: Limit = Between(1.0, 65_535.0);
pub(super) const IP: Limit = Other(c::ip);
const OPTIONAL_IP: Limit = Other(c::optional_ip);
pub(super) const PROTOCOL: Limit = Choice(&["TCP", "UDP", "SCTP"]);
const NAME: Limit = Form(is_name, "an object");
const HOST: Limit = Form(is_host_without_address, "a host");
const LABELS: Limit = Other(check_labels);
const POLICY: Limit = Choice(&["Cluster", "Local"]);
const KEYS: Limit = Other(c::keys);

pub(super) const ROWS: &[(&str, &str, Row)] = &[
    ("Service", "", Only(SERVICE_FIELDS)),
    ("Service", "", Has(Other(c::service))),
    (
        "Service",
        "type",
        Has(Choice(&[
            "ClusterIP",
            "NodePort",
            "LoadBalancer",
            "ExternalName",
        ])),
    ),
    ("Service", "selector", Has(LABELS)),
    ("Service", "ports", Has(Other(c::service_ports))),
    ("Service", "ports[]", Is("ServicePort")),
    ("Service", "clusterIP", Has(Other(c::cluster_ip))),
    ("Service", "clusterIPs", Has(Entries(0, 2))),
    ("Service", "clusterIPs[]", Has(Other(c::cluster_ip))),
    ("Service", "externalIPs[]", Has(IP)),
    ("Service", "loadBalancerIP", Has(OPTIONAL_IP)),
    (
        "Service",
        "loadBalancerSourceRanges[]",
        Has(Other(c::range)),
    ),
    (
        "Service",
        "sessionAffinity",
        Has(Choice(&["ClientIP", "None"])),
    ),
    ("Service", "internalTrafficPolicy", Has(POLICY)),
    ("Service", "externalTrafficPolicy", Has(POLICY)),
    (
        "Service",
        "ipFamilyPolicy",
        Has(Choice(&[
            "SingleStack",
            "PreferDualStack",
            "RequireDualStack",
        ])),
    ),
    ("Service", "ipFamilies", Has(Entries(0, 2))),
    ("Service", "ipFamilies[]", Has(Choice(&["IPv4", "IPv6"]))),
    (
        "Service",
        "trafficDistribution",
        Has(Choice(&["PreferClose", "PreferSameZone", "PreferSameNode"])),
    ),
    (
        "ServicePort",
        "",
        Only(&[
            "name",
            "protocol",
            "appProtocol",
            "port",
            "targetPort",
            "nodePort",
        ]),
    ),
    ("ServicePort", "", Has(Needs(&["port"]))),
    ("ServicePort", "name", Has(Form(is_port_label, "a port"))),
    ("ServicePort", "port", Has(PORT)),
    ("ServicePort", "nodePort", Has(Between(0.0, 65_535.0))),
    ("ServicePort", "protocol", Has(PROTOCOL)),
    ("ServicePort", "targetPort", Has(Other(c::target_port))),
    ("EndpointSlice", "", Only(SLICE_FIELDS)),
    ("EndpointSlice", "", Has(Needs(&["addressType"]))),
    (
        "EndpointSlice",
        "addressType",
        Has(Choice(&["IPv4", "IPv6", "FQDN"])),
    ),
    ("EndpointSlice", "", Has(Other(c::slice_addresses))),
    ("EndpointSlice", "endpoints", Has(Entries(0, 1000))),
    ("EndpointSlice", "endpoints[]", Is("SliceEndpoint")),
    ("EndpointSlice", "ports", Has(Entries(0, 20_000))),
    ("EndpointSlice", "ports", Has(Unique("name"))),
    ("EndpointSlice", "ports[]", Is("SlicePort")),
    ("SliceEndpoint", "", Has(Needs(&["addresses"]))),
    ("SliceEndpoint", "addresses", Has(Entries(1, 100))),
    (
        "SliceEndpoint",
        "hostname",
        Has(Form(is_lower_label, "a host")),
    ),
    ("SliceEndpoint", "nodeName", Has(NAME)),
    ("SlicePort", "name", Has(Form(is_port_label, "a port"))),
    ("SlicePort", "port", Has(PORT)),
    ("SlicePort", "protocol", Has(PROTOCOL)),
    ("PodObject", "spec", Is("Pod")),
    ("PodObject", "status", Is("PodStatus")),
    ("PodStatus", "podIP", Has(OPTIONAL_IP)),
    ("PodStatus", "podIPs[]", Is("PodIP")),
    ("PodIP", "ip", Has(OPTIONAL_IP)),
    ("Pod", "containers", Has(Unique("name"))),
    ("Pod", "containers[]", Is("Container")),
    ("Pod", "initContainers[]", Is("Container")),
    ("Pod", "hostname", Has(Form(is_lower_label, "a host"))),
    (
        "Pod",
        "serviceAccountName",
        Has(Form(is_name_or_none, "an object")),
    ),
    ("Container", "", Has(Needs(&["name"]))),
    (
        "Container",
        "name",
        Has(Form(is_lower_label, "a container")),
    ),
    ("Container", "ports", Has(Other(c::container_ports))),
    ("Container", "ports[]", Is("ContainerPort")),
    (
        "ContainerPort",
        "",
        Only(&["name", "containerPort", "hostPort", "hostIP", "protocol"]),
    ),
    ("ContainerPort", "", Has(Needs(&["containerPort"]))),
    (
        "ContainerPort",
        "name",
        Has(Form(c::is_service_name, "a port")),
    ),
    ("ContainerPort", "containerPort", Has(PORT)),
    ("ContainerPort", "hostPort", Has(Between(0.0, 65_535.0))),
    ("ContainerPort", "protocol", Has(PROTOCOL)),
    ("NodeObject", "status", Is("NodeStatus")),
    ("NodeStatus", "addresses[]", Is("NodeAddress")),
    ("NodeAddress", "", Has(Needs(&["type", "address"]))),
    (
        "NodeAddress",
        "type",
        Has(Choice(&[
            "Hostname",
            "InternalIP",
            "ExternalIP",
            "InternalDNS",
            "ExternalDNS",
        ])),
    ),
    ("NodeAddress", "", Has(Other(c::node_address))),
    (
        "Secret",
        "",
        Only(&[
            "apiVersion",
            "kind",
            "metadata",
            "type",
            "data",
            "stringData",
            "immutable",
        ]),
    ),
    ("Secret", "", Has(Other(c::secret))),
    ("Secret", "data", Has(KEYS)),
    ("Secret", "stringData", Has(KEYS)),
    (
        "ConfigMap",
        "",
        Only(&[
            "apiVersion",
            "kind",
            "metadata",
            "data",
            "binaryData",
            "immutable",
        ]),
    ),
    ("ConfigMap", "", Has(Other(c::config_map))),
    ("ConfigMap", "data", Has(KEYS)),
    ("ConfigMap", "binaryData", Has(KEYS)),
    (
        "Ingress",
        "",
        Only(&["defaultBackend", "ingressClassName", "rules", "tls"]),
    ),
    ("Ingress", "", Has(Other(c::ingress))),
    ("Ingress", "ingressClassName", Has(NAME)),
    ("Ingress", "defaultBackend", Is("IngressBackend")),
    ("Ingress", "rules[]", Is("IngressRule")),
    ("Ingress", "tls[]", Is("IngressTLS")),
    ("IngressTLS", "", Only(&["hosts", "secretName"])),
    ("IngressTLS", "hosts[]", Has(HOST)),
    (
        "IngressTLS",
        "secretName",
        Has(Form(is_name_or_none, "a Secret")),
    ),
    ("IngressRule", "", Only(&["host", "http"])),
    ("IngressRule", "host", Has(HOST)),
    ("IngressRule", "http", Is("IngressPaths")),
    ("IngressPaths", "", Has(Needs(&["paths"]))),
    ("IngressPaths", "paths", Has(Entries(1, usize::MAX))),
    ("IngressPaths", "paths[]", Is("IngressPath")),
    ("IngressPath", "", Only(&["path", "pathType", "backend"])),
    ("IngressPath", "", Has(Needs(&["pathType", "backend"]))),
    ("IngressPath", "", Has(Other(c::ingress_path))),
    ("IngressPath", "backend", Is("IngressBackend")),
    ("IngressBackend", "", Only(&["service", "resource"])),
    ("IngressBackend", "", Has(OneOf(&["service", "resource"]))),
    ("IngressBackend", "", Has(Other(c::ingress_backend))),
    ("IngressBackend", "service", Is("IngressService")),
    ("IngressBackend", "resource", Has(Needs(&["kind", "name"]))),
    ("IngressService", "", Only(&["name", "port"])),
    ("IngressService", "", Has(Needs(&["name", "port"]))),
    (
        "IngressService",
        "name",
        Has(Form(is_lower_label, "a Service")),
    ),
    ("IngressService", "port", Is("IngressPort")),
    ("IngressPort", "", Only(&["name", "number"])),
    ("IngressPort", "", Has(OneOf(&["name", "number"]))),
    ("IngressPort", "", Has(Other(c::ingress_port))),
    (
        "IngressPort",
        "name",
        Has(Form(c::is_service_name, "a port")),
    ),
    ("IngressPort", "number", Has(PORT)),
    ("IngressClass", "", Only(&["controller", "parameters"])),
    ("IngressClass", "", Has(Needs(&["controller"]))),
    ("IngressClass", "controller", Has(Length(1, 250))),
    (
        "IngressClass",
        "controller",
        Has(Form(is_domain_path, "DOMAIN/PATH")),
    ),
    ("IngressClass", "parameters", Has(Needs(&["kind", "name"]))),
    ("IngressClass", "parameters", Is("ClassParameters")),
    (
        "ClassParameters",
        "scope",
        Has(Choice(&["Cluster", "Namespace"])),
    ),
    ("Deployment", "", Has(Needs(&["selector", "template"]))),
    ("Deployment", "", Has(Other(c::deployment))),
    ("Deployment", "replicas", Has(Between(0.0, f64::MAX))),
    ("Deployment", "template", Is("PodTemplate")),
    ("PodTemplate", "metadata", Is("TemplateMeta")),
    ("TemplateMeta", "labels", Has(LABELS)),
    ("PodTemplate", "spec", Is("Pod")),
    ("Definition", "", Has(Needs(&["spec"]))),
    ("Definition", "", Has(Other(c::definition))),
    (
        "Definition",
        "spec",
        Has(Needs(&["group", "names", "scope", "versions"])),
    ),
    ("Definition", "spec", Is("DefinitionSpec")),
    (
        "DefinitionSpec",
        "scope",
        Has(Choice(&["Namespaced", "Cluster"])),
    ),
    ("DefinitionSpec", "versions", Has(Unique("name"))),
    ("DefinitionSpec", "names", Has(Needs(&["kind", "plural"]))),
];

const SERVICE_FIELDS: &[&str] = &[
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "publishNotReadyAddresses",
    "selector",
    "sessionAffinity",
    "sessionAffinityConfig",
    "trafficDistribution",
    "type",
];
const SLICE_FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "addressType",
    "endpoints",
    "ports",
];

fn is_name(text: &str) -> bool {
    text.len() <= 253 && is_subdomain(text)
}

fn is_name_or_none(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// The name of a port, which may be absent.
pub(super) fn is_port_label(text: &str) -> bool {
    text.is_empty() || (text.len() <= 63 && is_lower_label(text))
}

/// A host, which may begin with `*.`, or none.
fn is_host_without_address(text: &str) -> bool {
    text.is_empty() || (text.len() <= 253 && is_host(text) && !is_ip(text))
}

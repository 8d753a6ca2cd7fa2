//! Limits of the Gateway API's kinds.
// Gateway API v1.6, experimental channel.

mod conditions;
mod experimental;
mod inference;

use model::Kind;

use super::limits::Limit::{self, Between, Choice, Entries, Form, Length, Needs, Other, Unique};
use super::shape::Row::{self, Has, Is};
use super::shape::Spec;
use crate::text::is_label;

use conditions as c;
pub(super) use experimental::ROWS as EXPERIMENTAL;
pub(super) use inference::ROWS as INFERENCE;

/// The shape of each kind's spec.
pub(super) const SPECS: &[(Kind, &str, Spec)] = &[
    (Kind::GatewayClass, "GatewayClass", Spec::Needed),
    (Kind::KubeGateway, "Gateway", Spec::Needed),
    (Kind::ListenerSet, "ListenerSet", Spec::Needed),
    (Kind::HttpRoute, "HTTPRoute", Spec::Needed),
    (Kind::GrpcRoute, "GRPCRoute", Spec::Needed),
    (Kind::TlsRoute, "TLSRoute", Spec::Needed),
    (Kind::TcpRoute, "StreamRoute", Spec::Needed),
    (Kind::UdpRoute, "StreamRoute", Spec::Needed),
    (Kind::ReferenceGrant, "ReferenceGrant", Spec::Needed),
    (Kind::BackendTlsPolicy, "BackendTLSPolicy", Spec::Needed),
    (Kind::XBackend, "XBackend", Spec::Needed),
    (
        Kind::XBackendTrafficPolicy,
        "XBackendTrafficPolicy",
        Spec::Needed,
    ),
    (Kind::XMesh, "XMesh", Spec::Needed),
    (Kind::InferencePool, "InferencePool", Spec::Needed),
];

const PORT: Limit = Between(1.0, 65_535.0);
const NAME: Limit = Length(1, 253);
const HOST: Limit = Form(is_host, "a host");
const EXACT_HOST: Limit = Form(is_subdomain, "a host");
const TOKEN: Limit = Form(crate::text::is_token, "a header");
const GROUP: Limit = Form(super::limits::is_group, "a group");
const KIND: Limit = Form(super::limits::is_kind, "a kind");
const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];
/// More than any list has.
const ANY: usize = usize::MAX;
const TIME: Limit = Form(is_duration, "a time such as 10s or 1h30m");

/// Shape, field (empty for the shape, with `[]` for the items of a list or map), what it is.
pub(super) const ROWS: &[(&str, &str, Row)] = &[
    ("GatewayClass", "", Has(Needs(&["controllerName"]))),
    ("GatewayClass", "controllerName", Has(NAME)),
    (
        "GatewayClass",
        "controllerName",
        Has(Form(is_domain_path, "DOMAIN/PATH")),
    ),
    ("GatewayClass", "parametersRef", Is("ObjectRef")),
    ("GatewayClass", "description", Has(Length(0, 64))),
    (
        "Gateway",
        "",
        Has(Needs(&["gatewayClassName", "listeners"])),
    ),
    ("Gateway", "gatewayClassName", Has(NAME)),
    ("Gateway", "listeners", Has(Entries(1, 64))),
    ("Gateway", "listeners", Has(Other(c::listeners))),
    ("Gateway", "listeners[]", Is("Listener")),
    ("Gateway", "addresses", Has(Entries(0, 16))),
    ("Gateway", "addresses", Has(Other(c::addresses))),
    ("Gateway", "addresses[]", Is("Address")),
    ("Gateway", "infrastructure", Is("Infrastructure")),
    ("Gateway", "tls", Is("GatewayTLS")),
    ("Gateway", "defaultScope", Has(Choice(&["All", "None"]))),
    ("Address", "type", Has(NAME)),
    (
        "Address",
        "type",
        Has(Form(is_address_type, "a type of addresses")),
    ),
    ("Address", "value", Has(Length(0, 253))),
    ("Address", "", Has(Other(c::address))),
    ("Infrastructure", "annotations", Has(Entries(0, 16))),
    ("Infrastructure", "annotations[]", Has(Length(0, 4096))),
    ("Infrastructure", "labels", Has(Entries(0, 8))),
    ("Infrastructure", "labels", Has(Other(c::labels))),
    ("Infrastructure", "labels[]", Has(Length(0, 63))),
    ("Infrastructure", "parametersRef", Is("ObjectRef")),
    ("GatewayTLS", "backend", Is("GatewayBackendTLS")),
    ("GatewayBackendTLS", "clientCertificateRef", Is("NamedRef")),
    ("GatewayTLS", "frontend", Is("FrontendTLS")),
    ("FrontendTLS", "", Has(Needs(&["default"]))),
    ("FrontendTLS", "default", Is("FrontendValidation")),
    ("FrontendTLS", "perPort", Has(Entries(0, 64))),
    ("FrontendTLS", "perPort", Has(Unique("port"))),
    ("FrontendTLS", "perPort[]", Is("PortTLS")),
    ("PortTLS", "", Has(Needs(&["port", "tls"]))),
    ("PortTLS", "port", Has(PORT)),
    ("PortTLS", "tls", Is("FrontendValidation")),
    (
        "FrontendValidation",
        "validation",
        Is("CertificateValidation"),
    ),
    (
        "CertificateValidation",
        "",
        Has(Needs(&["caCertificateRefs"])),
    ),
    (
        "CertificateValidation",
        "caCertificateRefs",
        Has(Entries(1, 16)),
    ),
    (
        "CertificateValidation",
        "caCertificateRefs[]",
        Is("ObjectRef"),
    ),
    ("ListenerSet", "", Has(Needs(&["listeners", "parentRef"]))),
    ("ListenerSet", "listeners", Has(Entries(1, 64))),
    ("ListenerSet", "listeners", Has(Other(c::listeners))),
    ("ListenerSet", "listeners[]", Is("Listener")),
    ("ListenerSet", "parentRef", Is("NamedRef")),
    ("Listener", "", Has(Needs(&["name", "port", "protocol"]))),
    ("Listener", "name", Has(NAME)),
    ("Listener", "name", Has(Form(is_subdomain, "a listener"))),
    ("Listener", "hostname", Has(NAME)),
    ("Listener", "hostname", Has(HOST)),
    ("Listener", "port", Has(PORT)),
    ("Listener", "protocol", Has(Length(1, 255))),
    ("Listener", "protocol", Has(Form(is_protocol, "a protocol"))),
    ("Listener", "tls", Is("ListenerTLS")),
    ("Listener", "allowedRoutes", Is("AllowedRoutes")),
    ("ListenerTLS", "", Has(Other(c::listener_tls))),
    ("ListenerTLS", "certificateRefs", Has(Entries(0, 64))),
    ("ListenerTLS", "certificateRefs[]", Is("NamedRef")),
    ("ListenerTLS", "options", Has(Entries(0, 16))),
    ("ListenerTLS", "options[]", Has(Length(0, 4096))),
    ("AllowedRoutes", "namespaces", Is("FromNamespaces")),
    ("FromNamespaces", "selector", Is("LabelSelector")),
    ("LabelSelector", "matchLabels", Has(Entries(0, ANY))),
    ("LabelSelector", "matchExpressions", Has(Entries(0, ANY))),
    ("AllowedRoutes", "kinds", Has(Entries(0, 8))),
    ("AllowedRoutes", "kinds[]", Is("RouteKind")),
    ("RouteKind", "", Has(Needs(&["kind"]))),
    ("RouteKind", "group", Has(GROUP)),
    ("RouteKind", "kind", Has(Length(1, 63))),
    ("RouteKind", "kind", Has(KIND)),
    ("ObjectRef", "", Has(Needs(&["group", "kind", "name"]))),
    ("ObjectRef", "", Is("Ref")),
    ("NamedRef", "", Has(Needs(&["name"]))),
    ("NamedRef", "", Is("Ref")),
    ("Ref", "group", Has(GROUP)),
    ("Ref", "group", Has(Length(0, 253))),
    ("Ref", "kind", Has(Length(1, 63))),
    ("Ref", "kind", Has(KIND)),
    ("Ref", "name", Has(NAME)),
    ("Ref", "namespace", Has(Length(1, 63))),
    ("Ref", "namespace", Has(Form(is_lower_label, "a namespace"))),
    ("ParentRef", "", Is("NamedRef")),
    ("ParentRef", "port", Has(PORT)),
    ("ParentRef", "sectionName", Has(NAME)),
    (
        "ParentRef",
        "sectionName",
        Has(Form(is_subdomain, "a section")),
    ),
    ("Backend", "", Is("NamedRef")),
    ("Backend", "", Has(Other(c::service_port))),
    ("Backend", "port", Has(PORT)),
    ("WeightedBackend", "", Is("Backend")),
    ("WeightedBackend", "weight", Has(Between(0.0, 1_000_000.0))),
    ("Route", "parentRefs", Has(Entries(0, 32))),
    ("Route", "parentRefs", Has(Other(c::parents))),
    ("Route", "parentRefs[]", Is("ParentRef")),
    ("Route", "hostnames[]", Has(NAME)),
    ("Route", "hostnames[]", Has(HOST)),
    ("Route", "rules", Has(Other(c::rule_names))),
    ("Route", "useDefaultGateways", Has(Choice(&["All", "None"]))),
    ("HTTPRoute", "", Is("Route")),
    ("HTTPRoute", "hostnames", Has(Entries(0, 16))),
    ("HTTPRoute", "rules", Has(Entries(1, 16))),
    ("HTTPRoute", "rules", Has(Other(c::total_matches))),
    ("HTTPRoute", "rules[]", Is("HTTPRule")),
    ("GRPCRoute", "", Is("Route")),
    ("GRPCRoute", "hostnames", Has(Entries(0, 16))),
    ("GRPCRoute", "rules", Has(Entries(0, 16))),
    ("GRPCRoute", "rules", Has(Other(c::total_matches))),
    ("GRPCRoute", "rules[]", Is("GRPCRule")),
    ("TLSRoute", "", Is("StreamRoute")),
    ("TLSRoute", "", Has(Needs(&["hostnames"]))),
    ("TLSRoute", "hostnames", Has(Entries(1, 1024))),
    ("TLSRoute", "hostnames", Has(Other(c::no_addresses))),
    ("StreamRoute", "", Is("Route")),
    ("StreamRoute", "", Has(Needs(&["rules"]))),
    ("StreamRoute", "rules", Has(Entries(1, 1))),
    ("StreamRoute", "rules[]", Is("StreamRule")),
    ("StreamRule", "", Has(Needs(&["backendRefs"]))),
    ("StreamRule", "backendRefs", Has(Entries(1, 16))),
    ("StreamRule", "backendRefs[]", Is("WeightedBackend")),
    ("StreamRule", "name", Is("SectionName")),
    ("SectionName", "", Has(NAME)),
    ("SectionName", "", Has(Form(is_subdomain, "a rule"))),
    ("HTTPRule", "", Has(Other(c::http_rule))),
    ("HTTPRule", "name", Is("SectionName")),
    ("HTTPRule", "matches", Has(Entries(0, 64))),
    ("HTTPRule", "matches[]", Is("HTTPMatch")),
    ("HTTPRule", "filters", Has(Entries(0, 16))),
    ("HTTPRule", "filters", Has(Other(c::filters))),
    ("HTTPRule", "filters[]", Is("HTTPFilter")),
    ("HTTPRule", "backendRefs", Has(Entries(0, 16))),
    ("HTTPRule", "backendRefs[]", Is("HTTPBackend")),
    ("HTTPRule", "timeouts", Is("Timeouts")),
    ("HTTPRule", "retry", Is("Retry")),
    ("HTTPRule", "sessionPersistence", Is("SessionPersistence")),
    ("HTTPBackend", "", Is("WeightedBackend")),
    ("HTTPBackend", "filters", Has(Entries(0, 16))),
    ("HTTPBackend", "filters", Has(Other(c::filters))),
    ("HTTPBackend", "filters[]", Is("HTTPFilter")),
    ("Timeouts", "", Has(Other(c::timeouts))),
    ("Timeouts", "request", Has(TIME)),
    ("Timeouts", "backendRequest", Has(TIME)),
    ("Retry", "attempts", Has(Between(1.0, f64::MAX))),
    ("Retry", "backoff", Has(TIME)),
    ("Retry", "codes[]", Has(Between(400.0, 599.0))),
    ("SessionPersistence", "", Has(Other(c::session))),
    ("SessionPersistence", "absoluteTimeout", Has(TIME)),
    ("SessionPersistence", "cookie", Is("Cookie")),
    ("SessionPersistence", "header", Is("SessionHeader")),
    ("Cookie", "name", Has(Length(1, 256))),
    ("Cookie", "name", Has(TOKEN)),
    ("Cookie", "path", Has(Length(0, 1024))),
    ("SessionHeader", "", Has(Needs(&["name"]))),
    ("SessionHeader", "name", Has(Length(1, 256))),
    ("SessionHeader", "name", Has(TOKEN)),
    ("HTTPMatch", "path", Is("PathMatch")),
    ("HTTPMatch", "method", Has(Length(1, 7))),
    ("HTTPMatch", "method", Has(Choice(METHODS))),
    ("HTTPMatch", "headers", Has(Entries(0, 16))),
    ("HTTPMatch", "headers", Has(Unique("name"))),
    ("HTTPMatch", "headers[]", Is("HeaderMatch")),
    ("HTTPMatch", "queryParams", Has(Entries(0, 16))),
    ("HTTPMatch", "queryParams", Has(Unique("name"))),
    ("HTTPMatch", "queryParams[]", Is("QueryMatch")),
    ("PathMatch", "value", Has(Length(0, 1024))),
    ("PathMatch", "", Has(Other(c::path))),
    ("HeaderMatch", "", Has(Needs(&["name", "value"]))),
    ("HeaderMatch", "name", Has(Length(1, 256))),
    ("HeaderMatch", "name", Has(TOKEN)),
    ("HeaderMatch", "value", Has(Length(1, 4096))),
    ("HeaderMatch", "value", Has(Other(c::header_value))),
    ("QueryMatch", "", Has(Needs(&["name", "value"]))),
    ("QueryMatch", "name", Has(Length(1, 256))),
    ("QueryMatch", "name", Has(TOKEN)),
    ("QueryMatch", "value", Has(Length(1, 1024))),
    ("HTTPFilter", "", Has(Needs(&["type"]))),
    ("HTTPFilter", "", Has(Other(c::filter))),
    ("HTTPFilter", "requestHeaderModifier", Is("HeaderModifier")),
    ("HTTPFilter", "responseHeaderModifier", Is("HeaderModifier")),
    ("HTTPFilter", "requestMirror", Is("Mirror")),
    ("HTTPFilter", "requestRedirect", Is("Redirect")),
    ("HTTPFilter", "urlRewrite", Is("Rewrite")),
    ("HTTPFilter", "cors", Is("CORS")),
    ("HTTPFilter", "externalAuth", Is("ExternalAuth")),
    ("HTTPFilter", "extensionRef", Is("ObjectRef")),
    ("HeaderModifier", "set", Has(Entries(0, 16))),
    ("HeaderModifier", "set", Has(Unique("name"))),
    ("HeaderModifier", "set[]", Is("HeaderMatch")),
    ("HeaderModifier", "add", Has(Entries(0, 16))),
    ("HeaderModifier", "add", Has(Unique("name"))),
    ("HeaderModifier", "add[]", Is("HeaderMatch")),
    ("HeaderModifier", "remove", Has(Entries(0, 16))),
    ("HeaderModifier", "remove", Has(Other(c::distinct))),
    ("Mirror", "", Has(Needs(&["backendRef"]))),
    ("Mirror", "", Has(Limit::OneOf(&["percent", "fraction"]))),
    ("Mirror", "backendRef", Is("Backend")),
    ("Mirror", "percent", Has(Between(0.0, 100.0))),
    ("Mirror", "fraction", Is("Fraction")),
    ("Fraction", "", Has(Needs(&["numerator"]))),
    ("Fraction", "", Has(Other(c::fraction))),
    ("Fraction", "numerator", Has(Between(0.0, f64::MAX))),
    ("Fraction", "denominator", Has(Between(1.0, f64::MAX))),
    ("Redirect", "hostname", Has(NAME)),
    ("Redirect", "hostname", Has(EXACT_HOST)),
    ("Redirect", "port", Has(PORT)),
    ("Redirect", "path", Is("PathModifier")),
    ("Rewrite", "hostname", Has(NAME)),
    ("Rewrite", "hostname", Has(EXACT_HOST)),
    ("Rewrite", "path", Is("PathModifier")),
    ("PathModifier", "", Has(Needs(&["type"]))),
    ("PathModifier", "", Has(Other(c::path_modifier))),
    ("PathModifier", "replaceFullPath", Has(Length(0, 1024))),
    ("PathModifier", "replacePrefixMatch", Has(Length(0, 1024))),
    ("CORS", "allowOrigins", Has(Entries(0, 64))),
    ("CORS", "allowOrigins", Has(Other(c::lone_wildcard))),
    ("CORS", "allowOrigins[]", Has(NAME)),
    ("CORS", "allowMethods", Has(Entries(0, 9))),
    ("CORS", "allowMethods", Has(Other(c::lone_wildcard))),
    ("CORS", "allowHeaders", Has(Entries(0, 64))),
    ("CORS", "allowHeaders", Has(Other(c::lone_wildcard))),
    ("CORS", "allowHeaders[]", Has(Length(1, 256))),
    ("CORS", "allowHeaders[]", Has(TOKEN)),
    ("CORS", "exposeHeaders", Has(Entries(0, 64))),
    ("CORS", "exposeHeaders[]", Has(Length(1, 256))),
    ("CORS", "exposeHeaders[]", Has(TOKEN)),
    ("CORS", "maxAge", Has(Between(1.0, f64::MAX))),
    ("ExternalAuth", "", Has(Needs(&["backendRef", "protocol"]))),
    ("ExternalAuth", "", Has(Other(c::external_auth))),
    ("ExternalAuth", "backendRef", Is("Backend")),
    ("GRPCRule", "name", Is("SectionName")),
    ("GRPCRule", "matches", Has(Entries(0, 64))),
    ("GRPCRule", "matches[]", Is("GRPCMatch")),
    ("GRPCRule", "filters", Has(Entries(0, 16))),
    ("GRPCRule", "filters", Has(Other(c::filters))),
    ("GRPCRule", "filters[]", Is("HTTPFilter")),
    ("GRPCRule", "backendRefs", Has(Entries(0, 16))),
    ("GRPCRule", "backendRefs[]", Is("HTTPBackend")),
    ("GRPCRule", "sessionPersistence", Is("SessionPersistence")),
    ("GRPCMatch", "headers", Has(Entries(0, 16))),
    ("GRPCMatch", "headers", Has(Unique("name"))),
    ("GRPCMatch", "headers[]", Is("HeaderMatch")),
    ("GRPCMatch", "method", Is("MethodMatch")),
    ("MethodMatch", "", Has(Other(c::method))),
    ("MethodMatch", "service", Has(Length(0, 1024))),
    ("MethodMatch", "method", Has(Length(0, 1024))),
    ("ReferenceGrant", "", Has(Needs(&["from", "to"]))),
    ("ReferenceGrant", "from", Has(Entries(1, 16))),
    ("ReferenceGrant", "from[]", Is("GrantFrom")),
    ("ReferenceGrant", "to", Has(Entries(1, 16))),
    ("ReferenceGrant", "to[]", Is("GrantTo")),
    ("GrantFrom", "", Has(Needs(&["group", "kind", "namespace"]))),
    ("GrantFrom", "", Is("Ref")),
    ("GrantTo", "", Has(Needs(&["group", "kind"]))),
    ("GrantTo", "", Is("Ref")),
    (
        "BackendTLSPolicy",
        "",
        Has(Needs(&["targetRefs", "validation"])),
    ),
    ("BackendTLSPolicy", "options", Has(Entries(0, 16))),
    ("BackendTLSPolicy", "targetRefs", Has(Entries(1, 16))),
    ("BackendTLSPolicy", "targetRefs", Has(Other(c::targets))),
    ("BackendTLSPolicy", "targetRefs[]", Is("PolicyTarget")),
    ("BackendTLSPolicy", "validation", Is("BackendValidation")),
    ("PolicyTarget", "", Is("ObjectRef")),
    ("PolicyTarget", "sectionName", Is("SectionName")),
    ("BackendValidation", "", Has(Needs(&["hostname"]))),
    ("BackendValidation", "", Has(Other(c::backend_validation))),
    ("BackendValidation", "hostname", Has(NAME)),
    ("BackendValidation", "hostname", Has(EXACT_HOST)),
    ("BackendValidation", "caCertificateRefs", Has(Entries(0, 8))),
    ("BackendValidation", "caCertificateRefs[]", Is("ObjectRef")),
    ("BackendValidation", "wellKnownCACertificates", Has(NAME)),
    (
        "BackendValidation",
        "wellKnownCACertificates",
        Has(Form(is_well_known, "a set of authorities, such as System")),
    ),
    ("BackendValidation", "subjectAltNames", Has(Entries(0, 5))),
    (
        "BackendValidation",
        "subjectAltNames[]",
        Is("SubjectAltName"),
    ),
    ("SubjectAltName", "", Has(Needs(&["type"]))),
    ("SubjectAltName", "", Has(Other(c::subject))),
    ("SubjectAltName", "hostname", Has(NAME)),
    ("SubjectAltName", "hostname", Has(HOST)),
    ("SubjectAltName", "uri", Has(NAME)),
];

pub(super) fn is_lower_label(text: &str) -> bool {
    is_label(text) && !text.contains(|c: char| c.is_ascii_uppercase())
}

/// A domain name in lower case.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        part.bytes().all(good) && ends(part.as_bytes().first()) && ends(part.as_bytes().last())
    };
    text.split('.').all(part)
}

pub(super) fn is_host(text: &str) -> bool {
    is_subdomain(text.strip_prefix("*.").unwrap_or(text))
}

pub(super) fn is_domain_path(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(domain, path)| is_subdomain(domain) && !path.is_empty())
}

fn is_address_type(text: &str) -> bool {
    matches!(text, "IPAddress" | "Hostname" | "NamedAddress") || is_domain_path(text)
}

fn is_well_known(text: &str) -> bool {
    text == "System" || is_domain_path(text)
}

fn is_protocol(text: &str) -> bool {
    is_label(text) || is_domain_path(text)
}

/// A time as the Gateway API writes it: up to four numbers of up to five digits with their units.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let unit = &rest[digits..];
        let Some(unit) = ["ms", "h", "m", "s"].iter().find(|u| unit.starts_with(**u)) else {
            return false;
        };
        parts += 1;
        if !(1..=5).contains(&digits) || parts > 4 {
            return false;
        }
        rest = &rest[digits + unit.len()..];
    }
    parts > 0
}

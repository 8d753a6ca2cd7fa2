//! The limits.

mod check;

use model::Kind;
use model::parse::Raw;

use crate::report::{At, Report};

use check::{
    endpoints_of_none, port_names, tag_to_remove, unix_socket, value_from_host, waypoint_match,
};
pub(super) use check::{is_group, is_kind};

/// A limit of a value as it is written.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// A map has these keys.
    Needs(&'static [&'static str]),
    /// At most one of these keys.
    OneOf(&'static [&'static str]),
    /// A text has so many characters.
    Length(usize, usize),
    /// A list, or a map, has so many entries.
    Entries(usize, usize),
    /// A number lies between, the bounds included.
    Between(f64, f64),
    /// A time of at least a millisecond.
    Time,
    /// The items of a list differ by this key.
    Unique(&'static str),
    /// A text is one of these, or empty.
    Choice(&'static [&'static str]),
    /// A text is of a form that has a name.
    Form(fn(&str) -> bool, &'static str),
    /// Anything else.
    Other(fn(Raw<'_>, &At<'_>, &mut Report)),
}

use Limit::{Between, Entries, Form, Length, Needs, OneOf, Other, Time, Unique};

/// The message of each kind's spec, and whether it must be there.
pub(super) const SPECS: [(Kind, &str, bool); 15] = [
    (
        Kind::VirtualService,
        "istio.networking.v1alpha3.VirtualService",
        false,
    ),
    (
        Kind::DestinationRule,
        "istio.networking.v1alpha3.DestinationRule",
        false,
    ),
    (Kind::Gateway, "istio.networking.v1alpha3.Gateway", false),
    (
        Kind::ServiceEntry,
        "istio.networking.v1alpha3.ServiceEntry",
        true,
    ),
    (Kind::Sidecar, "istio.networking.v1alpha3.Sidecar", false),
    (
        Kind::WorkloadEntry,
        "istio.networking.v1alpha3.WorkloadEntry",
        true,
    ),
    (
        Kind::WorkloadGroup,
        "istio.networking.v1alpha3.WorkloadGroup",
        true,
    ),
    (
        Kind::EnvoyFilter,
        "istio.networking.v1alpha3.EnvoyFilter",
        false,
    ),
    (
        Kind::ProxyConfig,
        "istio.networking.v1beta1.ProxyConfig",
        false,
    ),
    (
        Kind::AuthorizationPolicy,
        "istio.security.v1beta1.AuthorizationPolicy",
        false,
    ),
    (
        Kind::PeerAuthentication,
        "istio.security.v1beta1.PeerAuthentication",
        false,
    ),
    (
        Kind::RequestAuthentication,
        "istio.security.v1beta1.RequestAuthentication",
        false,
    ),
    (Kind::Telemetry, "istio.telemetry.v1alpha1.Telemetry", false),
    (
        Kind::WasmPlugin,
        "istio.extensions.v1alpha1.WasmPlugin",
        true,
    ),
    (
        Kind::TrafficExtension,
        "istio.extensions.v1alpha1.TrafficExtension",
        true,
    ),
];

const PORT: Limit = Between(1.0, 65_535.0);
const TARGETS: &[&str] = &["selector", "targetRef", "targetRefs"];
/// More than any text has.
const ANY: usize = usize::MAX;

/// Message without `istio.`, field (empty for the message, with `[]` for the items of a list or map), limit.
pub(super) const LIMITS: &[(&str, &str, Limit)] = &[
    (
        "type.v1beta1.WorkloadSelector",
        "matchLabels",
        Entries(0, 4096),
    ),
    (
        "type.v1beta1.WorkloadSelector",
        "matchLabels[]",
        Length(0, 63),
    ),
    (
        "type.v1beta1.PolicyTargetReference",
        "",
        Needs(&["kind", "name"]),
    ),
    (
        "type.v1beta1.PolicyTargetReference",
        "group",
        Form(is_group, "a group"),
    ),
    (
        "type.v1beta1.PolicyTargetReference",
        "group",
        Length(0, 253),
    ),
    (
        "type.v1beta1.PolicyTargetReference",
        "kind",
        Form(is_kind, "a kind"),
    ),
    ("type.v1beta1.PolicyTargetReference", "kind", Length(1, 63)),
    ("type.v1beta1.PolicyTargetReference", "name", Length(1, 253)),
    (
        "type.v1beta1.PolicyTargetReference",
        "namespace",
        Length(0, 0),
    ),
    ("type.v1beta1.PortSelector", "", Needs(&["number"])),
    ("type.v1beta1.PortSelector", "number", PORT),
    (
        "networking.v1alpha3.WorkloadSelector",
        "labels",
        Entries(0, 256),
    ),
    (
        "networking.v1alpha3.WorkloadSelector",
        "labels[]",
        Length(0, 63),
    ),
    ("networking.v1alpha3.DestinationRule", "", Needs(&["host"])),
    ("networking.v1alpha3.Subset", "", Needs(&["name"])),
    (
        "networking.v1alpha3.TrafficPolicy",
        "portLevelSettings",
        Entries(0, 4096),
    ),
    (
        "networking.v1alpha3.TrafficPolicy.RetryBudget",
        "percent",
        Between(0.0, 100.0),
    ),
    (
        "networking.v1alpha3.TrafficPolicy.TunnelSettings",
        "",
        Needs(&["targetHost", "targetPort"]),
    ),
    (
        "networking.v1alpha3.LoadBalancerSettings",
        "warmupDurationSecs",
        Time,
    ),
    (
        "networking.v1alpha3.LoadBalancerSettings.ConsistentHashLB.HTTPCookie",
        "",
        Needs(&["name"]),
    ),
    (
        "networking.v1alpha3.LoadBalancerSettings.ConsistentHashLB.HTTPCookie.Attribute",
        "",
        Needs(&["name"]),
    ),
    (
        "networking.v1alpha3.WarmupConfiguration",
        "",
        Needs(&["duration"]),
    ),
    (
        "networking.v1alpha3.WarmupConfiguration",
        "minimumPercent",
        Between(0.0, 100.0),
    ),
    (
        "networking.v1alpha3.WarmupConfiguration",
        "aggression",
        Between(0.0, f64::MAX),
    ),
    (
        "networking.v1alpha3.ZoneAwareLoadBalancerSetting",
        "minClusterSize",
        Between(1.0, f64::MAX),
    ),
    (
        "networking.v1alpha3.OutlierDetection",
        "outlierDetectionHttpErrorCodes[]",
        Between(100.0, 599.0),
    ),
    ("networking.v1alpha3.Server", "", Needs(&["port", "hosts"])),
    (
        "networking.v1alpha3.Port",
        "",
        Needs(&["number", "protocol", "name"]),
    ),
    (
        "networking.v1alpha3.ServerTLSSettings",
        "",
        OneOf(&["tlsCertificates", "credentialNames"]),
    ),
    (
        "networking.v1alpha3.ServerTLSSettings",
        "",
        OneOf(&["credentialName", "credentialNames"]),
    ),
    (
        "networking.v1alpha3.ServerTLSSettings",
        "credentialNames",
        Entries(1, 2),
    ),
    (
        "networking.v1alpha3.ServerTLSSettings",
        "tlsCertificates",
        Entries(1, 2),
    ),
    (
        "networking.v1beta1.ProxyConfig",
        "environmentVariables[]",
        Length(0, 2048),
    ),
    ("networking.v1alpha3.ServiceEntry", "", Needs(&["hosts"])),
    (
        "networking.v1alpha3.ServiceEntry",
        "",
        OneOf(&["workloadSelector", "endpoints"]),
    ),
    (
        "networking.v1alpha3.ServiceEntry",
        "",
        Other(endpoints_of_none),
    ),
    ("networking.v1alpha3.ServiceEntry", "hosts", Entries(1, 256)),
    (
        "networking.v1alpha3.ServiceEntry",
        "addresses",
        Entries(0, 256),
    ),
    (
        "networking.v1alpha3.ServiceEntry",
        "addresses[]",
        Length(0, 64),
    ),
    (
        "networking.v1alpha3.ServiceEntry",
        "endpoints",
        Entries(0, 4096),
    ),
    ("networking.v1alpha3.ServiceEntry", "ports", Entries(0, 256)),
    ("networking.v1alpha3.ServiceEntry", "ports", Unique("name")),
    (
        "networking.v1alpha3.ServicePort",
        "",
        Needs(&["number", "name"]),
    ),
    ("networking.v1alpha3.ServicePort", "name", Length(0, 256)),
    (
        "networking.v1alpha3.ServicePort",
        "protocol",
        Length(0, 256),
    ),
    ("networking.v1alpha3.ServicePort", "number", PORT),
    ("networking.v1alpha3.ServicePort", "targetPort", PORT),
    ("networking.v1alpha3.WorkloadEntry", "", Other(unix_socket)),
    (
        "networking.v1alpha3.WorkloadEntry",
        "address",
        Length(0, 256),
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "labels",
        Entries(0, 256),
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "locality",
        Length(0, 2048),
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "network",
        Length(0, 2048),
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "ports",
        Entries(0, 128),
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "ports",
        Other(port_names),
    ),
    ("networking.v1alpha3.WorkloadEntry", "ports[]", PORT),
    (
        "networking.v1alpha3.WorkloadEntry",
        "serviceAccount",
        Length(0, 253),
    ),
    (
        "networking.v1alpha3.WorkloadGroup",
        "",
        Needs(&["template"]),
    ),
    (
        "networking.v1alpha3.WorkloadGroup.ObjectMeta",
        "annotations",
        Entries(0, 256),
    ),
    (
        "networking.v1alpha3.WorkloadGroup.ObjectMeta",
        "labels",
        Entries(0, 256),
    ),
    (
        "networking.v1alpha3.ReadinessProbe",
        "initialDelaySeconds",
        Between(0.0, f64::MAX),
    ),
    (
        "networking.v1alpha3.ExecHealthCheckConfig",
        "",
        Needs(&["command"]),
    ),
    (
        "networking.v1alpha3.ExecHealthCheckConfig",
        "command[]",
        Length(1, ANY),
    ),
    ("networking.v1alpha3.GrpcHealthCheckConfig", "port", PORT),
    (
        "networking.v1alpha3.HTTPHealthCheckConfig",
        "",
        Needs(&["port"]),
    ),
    ("networking.v1alpha3.HTTPHealthCheckConfig", "port", PORT),
    (
        "networking.v1alpha3.TCPHealthCheckConfig",
        "",
        Needs(&["port"]),
    ),
    ("networking.v1alpha3.TCPHealthCheckConfig", "port", PORT),
    (
        "networking.v1alpha3.IstioEgressListener",
        "",
        Needs(&["hosts"]),
    ),
    (
        "networking.v1alpha3.IstioIngressListener",
        "",
        Needs(&["port"]),
    ),
    ("networking.v1alpha3.Destination", "", Needs(&["host"])),
    (
        "networking.v1alpha3.HTTPRouteDestination",
        "",
        Needs(&["destination"]),
    ),
    (
        "networking.v1alpha3.RouteDestination",
        "",
        Needs(&["destination"]),
    ),
    (
        "networking.v1alpha3.HTTPMirrorPolicy",
        "",
        Needs(&["destination"]),
    ),
    (
        "networking.v1alpha3.HTTPDirectResponse",
        "",
        Needs(&["status"]),
    ),
    ("networking.v1alpha3.TLSRoute", "", Needs(&["match"])),
    (
        "networking.v1alpha3.TLSMatchAttributes",
        "",
        Needs(&["sniHosts"]),
    ),
    (
        "networking.v1alpha3.EnvoyFilter",
        "",
        OneOf(&["workloadSelector", "targetRefs"]),
    ),
    (
        "networking.v1alpha3.EnvoyFilter",
        "targetRefs",
        Entries(0, 16),
    ),
    (
        "networking.v1alpha3.EnvoyFilter.EnvoyConfigObjectMatch",
        "",
        Other(waypoint_match),
    ),
    (
        "networking.v1alpha3.EnvoyFilter.WaypointMatch",
        "portNumber",
        PORT,
    ),
    ("security.v1beta1.AuthorizationPolicy", "", OneOf(TARGETS)),
    (
        "security.v1beta1.AuthorizationPolicy",
        "targetRefs",
        Entries(0, 16),
    ),
    (
        "security.v1beta1.AuthorizationPolicy",
        "rules",
        Entries(0, 512),
    ),
    ("security.v1beta1.Rule", "from", Entries(0, 512)),
    ("security.v1beta1.Source", "serviceAccounts", Entries(0, 16)),
    (
        "security.v1beta1.Source",
        "serviceAccounts[]",
        Length(0, 320),
    ),
    (
        "security.v1beta1.Source",
        "notServiceAccounts",
        Entries(0, 16),
    ),
    (
        "security.v1beta1.Source",
        "notServiceAccounts[]",
        Length(0, 320),
    ),
    ("security.v1beta1.Condition", "", Needs(&["key"])),
    (
        "security.v1beta1.PeerAuthentication",
        "portLevelMtls",
        Entries(1, ANY),
    ),
    ("security.v1beta1.RequestAuthentication", "", OneOf(TARGETS)),
    (
        "security.v1beta1.RequestAuthentication",
        "targetRefs",
        Entries(0, 16),
    ),
    (
        "security.v1beta1.RequestAuthentication",
        "jwtRules",
        Entries(0, 4096),
    ),
    (
        "security.v1beta1.JWTRule",
        "",
        OneOf(&["jwksUri", "jwks_uri", "jwks"]),
    ),
    ("security.v1beta1.JWTRule", "issuer", Length(1, ANY)),
    ("security.v1beta1.JWTRule", "audiences[]", Length(1, ANY)),
    ("security.v1beta1.JWTRule", "jwksUri", Length(1, 2048)),
    ("security.v1beta1.JWTRule", "fromParams[]", Length(1, ANY)),
    ("security.v1beta1.JWTRule", "fromCookies[]", Length(1, ANY)),
    (
        "security.v1beta1.JWTRule",
        "spaceDelimitedClaims",
        Entries(0, 64),
    ),
    (
        "security.v1beta1.JWTRule",
        "spaceDelimitedClaims[]",
        Length(1, ANY),
    ),
    ("security.v1beta1.JWTHeader", "", Needs(&["name"])),
    ("security.v1beta1.JWTHeader", "name", Length(1, ANY)),
    (
        "security.v1beta1.ClaimToHeader",
        "",
        Needs(&["header", "claim"]),
    ),
    ("security.v1beta1.ClaimToHeader", "claim", Length(1, ANY)),
    ("security.v1beta1.ClaimToHeader", "header", Length(1, ANY)),
    ("telemetry.v1alpha1.Telemetry", "", OneOf(TARGETS)),
    ("telemetry.v1alpha1.Telemetry", "targetRefs", Entries(0, 16)),
    ("telemetry.v1alpha1.ProviderRef", "", Needs(&["name"])),
    ("telemetry.v1alpha1.ProviderRef", "name", Length(1, ANY)),
    ("telemetry.v1alpha1.Metrics", "reportingInterval", Time),
    (
        "telemetry.v1alpha1.MetricSelector",
        "customMetric",
        Length(1, ANY),
    ),
    (
        "telemetry.v1alpha1.MetricsOverrides.TagOverride",
        "",
        Other(tag_to_remove),
    ),
    (
        "telemetry.v1alpha1.Tracing",
        "randomSamplingPercentage",
        Between(0.0, 100.0),
    ),
    ("extensions.v1alpha1.WasmPlugin", "", Needs(&["url"])),
    ("extensions.v1alpha1.WasmPlugin", "", OneOf(TARGETS)),
    (
        "extensions.v1alpha1.WasmPlugin",
        "targetRefs",
        Entries(0, 16),
    ),
    ("extensions.v1alpha1.WasmPlugin", "url", Length(1, ANY)),
    (
        "extensions.v1alpha1.WasmPlugin",
        "imagePullSecret",
        Length(1, 253),
    ),
    (
        "extensions.v1alpha1.WasmPlugin",
        "pluginName",
        Length(1, 256),
    ),
    ("extensions.v1alpha1.TrafficExtension", "", OneOf(TARGETS)),
    (
        "extensions.v1alpha1.TrafficExtension",
        "targetRefs",
        Entries(0, 16),
    ),
    (
        "extensions.v1alpha1.WasmPlugin.TrafficSelector",
        "ports",
        Unique("number"),
    ),
    (
        "extensions.v1alpha1.TrafficSelector",
        "ports",
        Unique("number"),
    ),
    ("extensions.v1alpha1.WasmConfig", "", Needs(&["url"])),
    ("extensions.v1alpha1.WasmConfig", "url", Length(1, ANY)),
    (
        "extensions.v1alpha1.WasmConfig",
        "imagePullSecret",
        Length(1, 253),
    ),
    (
        "extensions.v1alpha1.WasmConfig",
        "pluginName",
        Length(1, 256),
    ),
    ("extensions.v1alpha1.LuaConfig", "", Needs(&["inlineCode"])),
    (
        "extensions.v1alpha1.LuaConfig",
        "inlineCode",
        Length(1, 65_536),
    ),
    ("extensions.v1alpha1.VmConfig", "env", Entries(0, 256)),
    ("extensions.v1alpha1.VmConfig", "env", Unique("name")),
    ("extensions.v1alpha1.EnvVar", "", Needs(&["name"])),
    ("extensions.v1alpha1.EnvVar", "", Other(value_from_host)),
    ("extensions.v1alpha1.EnvVar", "name", Length(1, 256)),
    ("extensions.v1alpha1.EnvVar", "value", Length(0, 2048)),
];

//! Limits of Higress's kinds. What their values mean together is for `rules`.

use model::Kind;

use super::limits::Limit::{Between, Choice, Needs, OneOf};
use super::shape::Row::{self, Has, Is};
use super::shape::Spec;

pub(super) const SPECS: &[(Kind, &str, Spec)] = &[
    (Kind::McpBridge, "McpBridge", Spec::Optional),
    (Kind::Http2Rpc, "Http2Rpc", Spec::Needed),
    (Kind::HigressWasmPlugin, "HigressPlugin", Spec::Needed),
];

const PORT: super::limits::Limit = Between(0.0, 65_535.0);

pub(super) const ROWS: &[(&str, &str, Row)] = &[
    ("McpBridge", "registries[]", Is("Registry")),
    ("McpBridge", "proxies[]", Is("RegistryProxy")),
    ("Registry", "", Has(Needs(&["type", "name", "domain"]))),
    ("Registry", "port", Has(PORT)),
    ("Registry", "vport", Is("VirtualPort")),
    ("VirtualPort", "default", Has(PORT)),
    ("VirtualPort", "services[]", Is("VirtualServicePort")),
    ("VirtualServicePort", "", Has(Needs(&["name", "value"]))),
    ("VirtualServicePort", "value", Has(PORT)),
    (
        "RegistryProxy",
        "",
        Has(Needs(&["type", "name", "serverAddress", "serverPort"])),
    ),
    ("RegistryProxy", "serverPort", Has(Between(1.0, 65_535.0))),
    ("RegistryProxy", "listenerPort", Has(PORT)),
    ("Http2Rpc", "", Has(OneOf(&["dubbo", "grpc"]))),
    ("Http2Rpc", "dubbo", Is("DubboService")),
    ("DubboService", "", Has(Needs(&["service", "methods"]))),
    ("DubboService", "methods[]", Is("DubboMethod")),
    (
        "DubboMethod",
        "",
        Has(Needs(&["serviceMethod", "httpPath", "httpMethods"])),
    ),
    ("DubboMethod", "params[]", Is("DubboParam")),
    (
        "DubboMethod",
        "paramFromEntireBody",
        Has(Needs(&["paramType"])),
    ),
    (
        "DubboParam",
        "",
        Has(Needs(&["paramSource", "paramKey", "paramType"])),
    ),
    (
        "DubboParam",
        "paramSource",
        Has(Choice(&["QUERY", "HEADER", "PATH", "BODY"])),
    ),
    ("HigressPlugin", "", Has(Needs(&["url"]))),
];

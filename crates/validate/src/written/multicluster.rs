//! Limits of the kinds of services that clusters share.

use model::Kind;

use super::kubernetes::{IP, PORT, PROTOCOL, is_port_label};
use super::limits::Limit::{Between, Choice, Entries, Form, Needs, Unique};
use super::shape::Row::{self, Has, Is};
use super::shape::Spec;

pub(super) const SPECS: &[(Kind, &str, Spec)] = &[
    (Kind::ServiceExport, "ServiceExport", Spec::Optional),
    (Kind::ServiceImport, "ServiceImport", Spec::Needed),
];

pub(super) const ROWS: &[(&str, &str, Row)] = &[
    ("ServiceImport", "", Has(Needs(&["ports", "type"]))),
    ("ServiceImport", "ips", Has(Entries(0, 1))),
    ("ServiceImport", "ips[]", Has(IP)),
    ("ServiceImport", "ports", Has(Unique("name"))),
    ("ServiceImport", "ports[]", Is("ImportPort")),
    (
        "ServiceImport",
        "sessionAffinity",
        Has(Choice(&["ClientIP", "None"])),
    ),
    (
        "ServiceImport",
        "sessionAffinityConfig",
        Is("ImportAffinity"),
    ),
    ("ImportAffinity", "clientIP", Is("ImportClientAffinity")),
    (
        "ImportClientAffinity",
        "timeoutSeconds",
        Has(Between(1.0, 86_400.0)),
    ),
    ("ImportPort", "", Has(Needs(&["port"]))),
    ("ImportPort", "name", Has(Form(is_port_label, "a port"))),
    ("ImportPort", "port", Has(PORT)),
    ("ImportPort", "protocol", Has(PROTOCOL)),
];

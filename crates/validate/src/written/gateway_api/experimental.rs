//! Limits of the kinds that the Gateway API tries out.

use proto_istio::wkt::Duration;

use model::parse::Raw;

use super::c;
use super::{EXACT_HOST, NAME, PORT, TIME, is_domain_path};
use crate::report::{At, Report};
use crate::text::is_ip;
use crate::written::limits::Limit::{Between, Entries, Form, Length, Needs, Other};
use crate::written::shape::Row::{self, Has, Is};

pub(in crate::written) const ROWS: &[(&str, &str, Row)] = &[
    ("XBackend", "", Has(Needs(&["type", "port"]))),
    ("XBackend", "", Has(Other(external_hostname))),
    ("XBackend", "externalHostname", Is("ExternalHostname")),
    ("XBackend", "port", Is("XBackendPort")),
    ("XBackend", "tls", Is("XBackendTLS")),
    ("ExternalHostname", "", Has(Needs(&["hostname"]))),
    ("ExternalHostname", "hostname", Has(NAME)),
    ("ExternalHostname", "hostname", Has(EXACT_HOST)),
    ("ExternalHostname", "hostname", Has(Other(outside))),
    ("XBackendPort", "", Has(Needs(&["port"]))),
    ("XBackendPort", "name", Has(Length(0, 63))),
    (
        "XBackendPort",
        "name",
        Has(Form(is_label_or_none, "a port")),
    ),
    ("XBackendPort", "port", Has(PORT)),
    ("XBackendTLS", "", Has(Needs(&["mode"]))),
    ("XBackendTLS", "", Has(Other(client_certificate))),
    ("XBackendTLS", "clientCertificateRef", Is("NamedRef")),
    ("XBackendTLS", "validation", Is("BackendValidation")),
    ("XBackendTrafficPolicy", "", Has(Needs(&["targetRefs"]))),
    ("XBackendTrafficPolicy", "targetRefs", Has(Entries(1, 16))),
    (
        "XBackendTrafficPolicy",
        "targetRefs",
        Has(Other(c::targets)),
    ),
    ("XBackendTrafficPolicy", "targetRefs[]", Is("ObjectRef")),
    (
        "XBackendTrafficPolicy",
        "retryConstraint",
        Is("RetryConstraint"),
    ),
    (
        "XBackendTrafficPolicy",
        "sessionPersistence",
        Is("SessionPersistence"),
    ),
    ("RetryConstraint", "budget", Is("RetryBudget")),
    ("RetryConstraint", "minRetryRate", Is("RetryRate")),
    ("RetryBudget", "percent", Has(Between(0.0, 100.0))),
    ("RetryBudget", "interval", Has(TIME)),
    ("RetryBudget", "interval", Has(Other(from_a_second))),
    ("RetryRate", "count", Has(Between(1.0, 1_000_000.0))),
    ("RetryRate", "interval", Has(TIME)),
    ("RetryRate", "interval", Has(Other(up_to_an_hour))),
    ("XMesh", "", Has(Needs(&["controllerName"]))),
    ("XMesh", "controllerName", Has(NAME)),
    (
        "XMesh",
        "controllerName",
        Has(Form(is_domain_path, "DOMAIN/PATH")),
    ),
    ("XMesh", "description", Has(Length(0, 64))),
    ("XMesh", "parametersRef", Is("ObjectRef")),
];

fn is_label_or_none(text: &str) -> bool {
    text.is_empty() || super::is_lower_label(text)
}

fn external_hostname(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let external = value.get("type").and_then(Raw::as_str) == Some("ExternalHostname");
    let at = at.field("externalHostname");
    match (external, value.get("externalHostname").is_some()) {
        (true, false) => report.error(&at, "the type ExternalHostname needs it"),
        (false, true) => report.error(&at, "has a meaning only where the type is ExternalHostname"),
        _ => {}
    }
}

fn outside(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let host = value.as_str().unwrap_or_default();
    if is_ip(host) || host.ends_with(".cluster.local") {
        let message = format!("{host:?} is an address, or a host within the cluster");
        report.error(at, message);
    }
}

fn client_certificate(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let both = value.get("mode").and_then(Raw::as_str) == Some("ClientAndServer");
    let at = at.field("clientCertificateRef");
    match (both, value.get("clientCertificateRef").is_some()) {
        (true, false) => report.error(&at, "the mode ClientAndServer needs it"),
        (false, true) => report.error(&at, "has a meaning only where the mode is ClientAndServer"),
        _ => {}
    }
}

const SECOND: i128 = 1_000_000_000;
const HOUR: i128 = 3600 * SECOND;

fn nanos(value: Raw<'_>) -> Option<i128> {
    let time = value.as_str()?.parse::<Duration>().ok()?;
    Some(time.as_nanos())
}

fn from_a_second(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if nanos(value).is_some_and(|time| !(SECOND..=HOUR).contains(&time)) {
        report.error(at, "must be from 1s to 1h");
    }
}

fn up_to_an_hour(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if nanos(value).is_some_and(|time| time == 0 || time > HOUR) {
        report.error(at, "must be more than 0s, and at most 1h");
    }
}

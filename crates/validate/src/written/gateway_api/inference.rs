//! Limits of the inference extension's kinds.
// Inference extension v1.5.

use model::parse::Raw;

use super::{NAME, PORT};
use crate::report::{At, Report};
use crate::text::is_label_value;
use crate::written::limits::Limit::{Choice, Entries, Form, Length, Needs, Other, Unique};
use crate::written::shape::Row::{self, Has, Is};

pub(in crate::written) const ROWS: &[(&str, &str, Row)] = &[
    (
        "InferencePool",
        "",
        Has(Needs(&["endpointPickerRef", "selector", "targetPorts"])),
    ),
    ("InferencePool", "selector", Is("PoolSelector")),
    ("InferencePool", "targetPorts", Has(Entries(1, 8))),
    ("InferencePool", "targetPorts", Has(Unique("number"))),
    ("InferencePool", "targetPorts[]", Is("PoolPort")),
    (
        "InferencePool",
        "appProtocol",
        Has(Choice(&["http", "kubernetes.io/h2c"])),
    ),
    ("InferencePool", "endpointPickerRef", Is("EndpointPicker")),
    ("PoolSelector", "", Has(Needs(&["matchLabels"]))),
    ("PoolSelector", "matchLabels", Has(Entries(1, 64))),
    ("PoolSelector", "matchLabels[]", Has(Length(0, 63))),
    (
        "PoolSelector",
        "matchLabels[]",
        Has(Form(is_label_value, "the value of a label")),
    ),
    ("PoolPort", "", Has(Needs(&["number"]))),
    ("PoolPort", "number", Has(PORT)),
    ("EndpointPicker", "", Is("NamedRef")),
    ("EndpointPicker", "", Has(Other(service_port))),
    ("EndpointPicker", "name", Has(NAME)),
    ("EndpointPicker", "port", Is("PoolPort")),
    (
        "EndpointPicker",
        "failureMode",
        Has(Choice(&["FailOpen", "FailClose"])),
    ),
];

fn service_port(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let kind = value.get("kind").and_then(Raw::as_str);
    if kind.is_none_or(|kind| kind == "Service") && value.get("port").is_none() {
        report.error(&at.field("port"), "a Service needs it");
    }
}

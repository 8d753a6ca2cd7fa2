//! Knative's Ingress.
// Knative: networking/pkg/apis/networking/v1alpha1/ingress_validation.go, 1.19.

use model::Meta;
use model::kinds::knative::{Ingress, IngressPath, IngressSplit};
use model::kinds::kube::IntOrString;

use crate::report::{At, Report};
use crate::text::{header_name_to_match, header_name_to_set, header_value, literal_format, port};

pub(super) fn ingress(spec: &Ingress, meta: &Meta, at: &At<'_>, report: &mut Report) {
    for (at, tls) in at.field("tls").each(&spec.tls) {
        for (name, text) in [
            ("secretName", &tls.secret_name),
            ("secretNamespace", &tls.secret_namespace),
        ] {
            if text.is_empty() {
                report.error(&at.field(name), "must not be empty");
            }
        }
    }
    if spec.rules.is_empty() {
        report.error(&at.field("rules"), "a rule is needed");
    }
    for (at, rule) in at.field("rules").each(&spec.rules) {
        let at = at.field("http");
        let at = at.field("paths");
        let Some(http) = &rule.http else { continue };
        if http.paths.is_empty() {
            report.error(&at, "a path is needed");
        }
        for (at, one) in at.each(&http.paths) {
            path(one, meta, &at, report);
        }
    }
}

fn path(path: &IngressPath, meta: &Meta, at: &At<'_>, report: &mut Report) {
    let at_headers = at.field("headers");
    for name in path.headers.keys() {
        report.check(&at_headers.field(name), header_name_to_match(name));
    }
    let at_appended = at.field("appendHeaders");
    for (name, value) in &path.append_headers {
        report.check(&at_appended.field(name), header_name_to_set(name));
        let format = literal_format(value);
        report.check(&at_appended.field(name), header_value(&format));
    }
    let at_splits = at.field("splits");
    if path.splits.is_empty() {
        report.error(&at_splits, "a Service is needed");
        return;
    }
    for (at, one) in at_splits.each(&path.splits) {
        split(one, meta, &at, report);
    }
    let total: i64 = path.splits.iter().map(|s| i64::from(s.percent)).sum();
    let is_alone = path.splits.len() == 1 && total == 0;
    if !is_alone && total != 100 {
        report.error(
            &at_splits,
            format!("the percentages sum up to {total}, not 100"),
        );
    }
}

fn split(split: &IngressSplit, meta: &Meta, at: &At<'_>, report: &mut Report) {
    let namespace = &meta.name.namespace;
    if **namespace != *split.service_namespace {
        let message = "must be the namespace of the Ingress";
        report.error(&at.field("serviceNamespace"), message);
    }
    if split.service_name.is_empty() {
        report.error(&at.field("serviceName"), "must not be empty");
    }
    let at_port = at.field("servicePort");
    match &split.service_port {
        Some(IntOrString::Int(number)) => report.check(&at_port, port((*number).into())),
        Some(IntOrString::String(name)) if name.is_empty() => {
            report.error(&at_port, "must not be empty");
        }
        Some(IntOrString::String(_)) | None => {}
    }
    let at_headers = at.field("appendHeaders");
    for (name, value) in &split.append_headers {
        report.check(&at_headers.field(name), header_name_to_set(name));
        let format = literal_format(value);
        report.check(&at_headers.field(name), header_value(&format));
    }
}

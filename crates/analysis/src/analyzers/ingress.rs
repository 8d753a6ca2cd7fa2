//! What Ingresses refer to.

use incr::Cx;
use model::kinds::kube::{Ingress, IngressBackend, Secret, Service};
use model::{Object, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::hosts::alias_lacks;
use crate::facts::several;
use crate::finding::Report;

pub(crate) fn check(cx: &Cx<'_, Snapshot>, ingress: &Object<Ingress>, report: &mut Report<'_>) {
    let spec = &ingress.spec;
    if let Some(default) = &spec.default_backend {
        leads(
            cx,
            ingress,
            default,
            "spec.defaultBackend".to_owned(),
            report,
        );
    }
    for (i, rule) in spec.rules.iter().enumerate() {
        let paths = rule.http.iter().flat_map(|h| &h.paths);
        for (j, path) in paths.enumerate() {
            let at = format!("spec.rules[{i}].http.paths[{j}].backend");
            leads(cx, ingress, &path.backend, at, report);
        }
    }
    for (i, tls) in spec.tls.iter().enumerate() {
        let name = ObjectName::new(ingress.namespace().clone(), tls.secret_name.clone());
        let name = name.in_cluster(ingress.meta.name.cluster.as_ref());
        // Istio reads it in the namespace of the proxies, other controllers in that of the Ingress.
        let proxies = cx.settings().features.ingress_namespace.clone();
        let of_proxies = ObjectName::new(proxies, tls.secret_name.clone());
        let is_there = |name| cx.get::<Secret>(name).is_some();
        let is_told = is_served_with_annotations(cx, ingress);
        if !is_told && !tls.secret_name.is_empty() && !is_there(&of_proxies) && !is_there(&name) {
            report
                .add(
                    ingress,
                    &code::SECRET_NOT_FOUND,
                    format!("spec.tls[{i}].secretName"),
                    format!("there is no Secret {name}"),
                )
                .help("HTTPS for these hosts fails until the Secret exists");
        }
    }
}

/// Whether an Ingress is one of those with annotations, of whose Secrets their translation tells.
fn is_served_with_annotations(cx: &Cx<'_, Snapshot>, ingress: &Object<Ingress>) -> bool {
    let stated = ingress.meta.annotations.get("kubernetes.io/ingress.class");
    let class = stated.or(ingress.spec.ingress_class_name.as_deref());
    let served = |word: &str| {
        cx.settings()
            .features
            .edge_classes
            .iter()
            .any(|c| **c == *word)
    };
    served("*") || served(class.unwrap_or("nginx"))
}

fn leads(
    cx: &Cx<'_, Snapshot>,
    ingress: &Object<Ingress>,
    backend: &IngressBackend,
    path: String,
    report: &mut Report<'_>,
) {
    let Some(to) = &backend.service else { return };
    let name = ObjectName::new(ingress.namespace().clone(), to.name.clone());
    let name = name.in_cluster(ingress.meta.name.cluster.as_ref());
    let Some(service) = cx.get::<Service>(&name) else {
        report
            .add(
                ingress,
                &code::BACKEND_NOT_FOUND,
                format!("{path}.service.name"),
                format!("there is no Service {name}"),
            )
            .help("an Ingress leads to Services of its own namespace; requests to others get 503");
        return;
    };
    let mut missing = |message: String, help: String| {
        let at = format!("{path}.service.port");
        let reported = report.add(ingress, &code::BACKEND_NOT_FOUND, at, message);
        reported.help(format!("{help}; requests get 503"));
    };
    let stated = &to.port;
    let mut ports = service.spec.ports.iter();
    let found = match stated.name.is_empty() {
        true => ports.find(|port| port.port == stated.number),
        false => ports.find(|port| port.name == stated.name),
    };
    let is_alias = &*service.spec.service_type == "ExternalName";
    // One that stands for another name need not state its ports.
    let number = found.map(|port| port.port);
    let number = number.or((is_alias && stated.name.is_empty()).then_some(stated.number));
    let Some(number) = number else {
        let port = match stated.name.is_empty() {
            true => stated.number.to_string(),
            false => stated.name.to_string(),
        };
        missing(
            format!("the Service {name} has no port {port}"),
            listed(&service),
        );
        return;
    };
    // What annotations ask TLS for is looked up by its name, whatever ports are known of that.
    if !is_alias || asks_for_tls(ingress) {
        return;
    }
    let port = u32::try_from(number).unwrap_or_default();
    if let Some((host, ports)) = alias_lacks(cx, ingress.namespace(), &service, port) {
        missing(
            format!("the Service {name} is an alias of {host}, which has no port {number}"),
            format!("its ports are {}", several(&ports)),
        );
    }
}

/// The ports of a Service, for people.
fn listed(service: &Object<Service>) -> String {
    let ports: Vec<String> = service
        .spec
        .ports
        .iter()
        .map(|port| match port.name.is_empty() {
            true => port.port.to_string(),
            false => format!("{} ({})", port.port, port.name),
        })
        .collect();
    match ports.is_empty() {
        true => "it states no ports".to_owned(),
        false => format!("its ports are {}", several(&ports)),
    }
}

/// Whether annotations of an Ingress have its Services spoken to over TLS.
fn asks_for_tls(ingress: &Object<Ingress>) -> bool {
    let of_tls = ["/backend-protocol", "/proxy-ssl-secret"];
    let mut keys = ingress.meta.annotations.iter().map(|(key, _)| key);
    keys.any(|key| of_tls.iter().any(|name| key.ends_with(name)))
}

//! Where VirtualServices lead.

use std::collections::BTreeSet;

use incr::Cx;
use model::kinds::higress::BRIDGE;
use model::kinds::istio::{DestinationRule, VirtualService};
use model::kinds::kube::Service;
use model::{Object, Severity};
use proto_istio::networking::Destination;
use store::{ObjectIndex, Reads, Snapshot};

use super::{Named, destinations};
use crate::code;
use crate::facts::{hosts, several};
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/virtualservice/destinationhosts.go, 1.32.
pub(crate) fn hosts(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    for named in destinations(&object.spec) {
        let Destination { host, port, .. } = named.destination;
        let export_to = &object.spec.export_to;
        let Some(found) = hosts::find(cx, object.namespace(), export_to, host) else {
            missing(cx, object, &named, report);
            continue;
        };
        let Some(ports) = found.ports else {
            if let Some(port) = port {
                alias_without(cx, object, &named, port.number, report);
            }
            continue;
        };
        match port {
            None if ports.len() > 1 => {
                report
                    .add(
                        object,
                        &code::PORT_REQUIRED,
                        named.path,
                        format!("{host} has several ports, and the destination does not say which"),
                    )
                    .help(format!(
                        "add `port: {{number: ...}}`, one of {}",
                        several(&ports)
                    ));
            }
            Some(port) if !ports.contains(&port.number) => {
                report
                    .add(
                        object,
                        &code::NOT_FOUND,
                        format!("{}.port.number", named.path),
                        format!("{host} has no port {}", port.number),
                    )
                    .help(format!("its ports are {}", several(&ports)));
            }
            _ => {}
        }
    }
    unaffected(cx, object, report);
}

/// Reports a destination that is a Service of the type ExternalName whose host has no such port.
fn alias_without(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    named: &Named<'_>,
    port: u32,
    report: &mut Report<'_>,
) {
    let domain = &cx.settings().domain;
    let host = &named.destination.host;
    let service = hosts::service_of(&hosts::full_name(object.namespace(), host, domain), domain);
    let Some(service) = service.and_then(|name| cx.get::<Service>(&name)) else {
        return;
    };
    if let Some((alias, ports)) = hosts::alias_lacks(cx, object.namespace(), &service, port) {
        report
            .add(
                object,
                &code::BACKEND_NOT_FOUND,
                format!("{}.port.number", named.path),
                format!("{host} is an alias of {alias}, which has no port {port}"),
            )
            .help(format!("its ports are {}", several(&ports)));
    }
}

/// Destinations that only a wildcard covers: proxies have a cluster for the wildcard, and none for the host.
pub(crate) fn below_wildcards(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    for named in destinations(&object.spec) {
        let host = &named.destination.host;
        let export_to = &object.spec.export_to;
        let Some(wildcard) = hosts::only_below(cx, object.namespace(), export_to, host) else {
            continue;
        };
        let message = format!(
            "{host} is only below {wildcard}, and proxies have no cluster for it, so requests to it get 503"
        );
        report
            .add(
                object,
                &code::BACKEND_NOT_FOUND,
                format!("{}.host", named.path),
                message,
            )
            .help(format!("add a ServiceEntry with the host {host}"));
    }
}

/// Reports a destination that is not there. A host as registries have it may come from one that `--registry` names.
fn missing(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    named: &Named<'_>,
    report: &mut Report<'_>,
) {
    let host = &named.destination.host;
    let reported = report.add(
        object,
        &code::NOT_FOUND,
        format!("{}.host", named.path),
        format!("there is no service {host}"),
    );
    match hosts::registry_of(host).filter(|of_type| !hosts::names_registry(cx, of_type)) {
        Some(of_type) => {
            let namespace = &cx.settings().features.edge_namespace;
            reported.at_most(Severity::Warning).help(format!(
                "name a registry of the type {of_type} in the McpBridge {namespace}/{BRIDGE}, or by --registry of the server; until it \
                 has the service requests to it get 503"
            ));
        }
        None => {
            reported.help("correct the name, create the Service or ServiceEntry, or export it to this namespace; requests to it get 503");
        }
    }
}

/// Routes of a gateway to a whole service for which another VirtualService has rules by subset: those apply to sidecars.
fn unaffected(cx: &Cx<'_, Snapshot>, object: &Object<VirtualService>, report: &mut Report<'_>) {
    if object.spec.gateways.is_empty() {
        return;
    }
    let mut told = BTreeSet::new();
    for (i, rule) in object.spec.http.iter().enumerate() {
        for (j, route) in rule.route.iter().enumerate() {
            let whole = Destination::default();
            let destination = route.destination.as_ref().unwrap_or(&whole);
            if !destination.subset.is_empty() {
                continue;
            }
            let host = &destination.host;
            for other in cx.list_by::<VirtualService>(ObjectIndex::Host, &host.to_ascii_lowercase())
            {
                let routes = other.spec.http.iter().flat_map(|r| &r.route);
                let mut to = routes.filter_map(|r| r.destination.as_ref());
                let by_subset = to.any(|d| d.host == *host && !d.subset.is_empty());
                let its_own = other.spec.hosts.contains(host);
                if by_subset && its_own && told.insert(other.meta.name.clone()) {
                    report
                        .add(
                            object,
                            &code::ROUTES_NOT_AFFECTED,
                            format!("spec.http[{i}].route[{j}].destination"),
                            format!(
                                "requests from the gateway to {host} do not pass the rules by subset of {}",
                                other.meta.name
                            ),
                        )
                        .help("name the subset in this destination as well");
                }
            }
        }
    }
}

/// Istio: pkg/config/analysis/analyzers/virtualservice/destinationrules.go, 1.32.
pub(crate) fn subsets(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    report: &mut Report<'_>,
) {
    for named in destinations(&object.spec) {
        let Destination { host, subset, .. } = named.destination;
        if subset.is_empty() || is_defined(cx, object, host, subset) {
            continue;
        }
        report
            .add(
                object,
                &code::NOT_FOUND,
                format!("{}.subset", named.path),
                format!("no DestinationRule defines the subset {subset} of {host}"),
            )
            .help("add the subset to the DestinationRule of the host; requests to it get 503");
    }
}

fn is_defined(
    cx: &Cx<'_, Snapshot>,
    object: &Object<VirtualService>,
    host: &str,
    subset: &str,
) -> bool {
    let domain = &cx.settings().domain;
    let wanted = hosts::resource_of(object.namespace(), host, domain);
    let full = format!("{}.{}.svc.{domain}", wanted.name, wanted.namespace);
    [full.as_str(), wanted.name.as_str()]
        .into_iter()
        .any(|host| {
            let rules =
                cx.list_by::<DestinationRule>(ObjectIndex::Host, &host.to_ascii_lowercase());
            rules.iter().any(|rule| {
                hosts::resource_of(rule.namespace(), &rule.spec.host, domain) == wanted
                    && rule.spec.subsets.iter().any(|s| s.name == subset)
            })
        })
}

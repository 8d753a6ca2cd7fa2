//! The kinds that are built in: those of the model, and those that clients of the API need besides.

mod printed;
mod stored;

use std::sync::Arc;

use model::kinds::{Kind, Scope};
use serde_json::{Value, json};

use super::{Column, Resource, Schemas, Shows, Version};
use crate::store::ResourceName;

/// Columns besides the age, by path, of kinds that show more than their age.
const COLUMNS: &[(Kind, &[(&str, &str)])] = &[
    (Kind::DestinationRule, &[("Host", ".spec.host")]),
    (
        Kind::ServiceEntry,
        &[
            ("Hosts", ".spec.hosts"),
            ("Location", ".spec.location"),
            ("Resolution", ".spec.resolution"),
        ],
    ),
    (
        Kind::VirtualService,
        &[("Gateways", ".spec.gateways"), ("Hosts", ".spec.hosts")],
    ),
    (Kind::AuthorizationPolicy, &[("Action", ".spec.action")]),
    (Kind::PeerAuthentication, &[("Mode", ".spec.mtls.mode")]),
    (Kind::WorkloadEntry, &[("Address", ".spec.address")]),
    (Kind::HttpRoute, &[("Hostnames", ".spec.hostnames")]),
    (Kind::GrpcRoute, &[("Hostnames", ".spec.hostnames")]),
    (
        Kind::GatewayClass,
        &[
            ("Controller", ".spec.controllerName"),
            (
                "Accepted",
                ".status.conditions[?(@.type==\"Accepted\")].status",
            ),
        ],
    ),
    (
        Kind::KubeGateway,
        &[
            ("Class", ".spec.gatewayClassName"),
            ("Address", ".status.addresses[*].value"),
            (
                "Programmed",
                ".status.conditions[?(@.type==\"Programmed\")].status",
            ),
        ],
    ),
    (
        Kind::KnativeIngress,
        &[
            ("Ready", ".status.conditions[?(@.type==\"Ready\")].status"),
            ("Reason", ".status.conditions[?(@.type==\"Ready\")].reason"),
        ],
    ),
    (
        Kind::XMesh,
        &[(
            "Accepted",
            ".status.conditions[?(@.type==\"Accepted\")].status",
        )],
    ),
    (
        Kind::ServiceImport,
        &[("Type", ".spec.type"), ("IP", ".spec.ips")],
    ),
    (
        Kind::ListenerSet,
        &[
            (
                "Accepted",
                ".status.conditions[?(@.type==\"Accepted\")].status",
            ),
            (
                "Programmed",
                ".status.conditions[?(@.type==\"Programmed\")].status",
            ),
        ],
    ),
];

/// Every kind that is built in.
pub(super) fn resources(schemas: &Schemas) -> Vec<Resource> {
    let model = Kind::ALL.iter().map(|kind| of_model(*kind, schemas));
    model.chain(stored::resources()).collect()
}

/// A kind of the model.
pub(crate) fn of_model(kind: Kind, schemas: &Schemas) -> Resource {
    // The groups of kinds that Kubernetes has without a definition.
    let native = matches!(
        kind.group(),
        "" | "apps"
            | "discovery.k8s.io"
            | "networking.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
    );
    let schema = schemas.0.get(&kind).cloned();
    let columns = columns(kind);
    let version = |name: &&'static str| Version {
        patterns: crate::schema::Patterns::default(),
        name: (*name).into(),
        schema: schema.clone(),
        judge: None,
        columns: columns.clone(),
    };
    let categories: &[&str] = match kind.group() {
        "gateway.networking.k8s.io" | "gateway.networking.x-k8s.io" => &["gateway-api"],
        group if group.ends_with(".higress.io") => &["higress-io"],
        group if group.ends_with(".istio.io") => &["istio-io"],
        _ if matches!(kind, Kind::Service | Kind::Pod | Kind::Deployment) => &["all"],
        "apiextensions.k8s.io" | "admissionregistration.k8s.io" => &["api-extensions"],
        _ => &[],
    };
    Resource {
        group: kind.group().into(),
        versions: kind.versions().iter().map(version).collect(),
        storage: kind.versions()[0].into(),
        kind: kind.name().into(),
        list_kind: format!("{}List", kind.name()).into(),
        plural: kind.plural().into(),
        singular: kind.name().to_ascii_lowercase().into(),
        short_names: kind.short_names().iter().map(|n| (*n).into()).collect(),
        categories: categories.iter().map(|c| (*c).into()).collect(),
        namespaced: kind.scope() == Scope::Namespaced,
        has_status: !matches!(
            kind,
            Kind::ConfigMap
                | Kind::Secret
                | Kind::EndpointSlice
                | Kind::IngressClass
                | Kind::ReferenceGrant
                | Kind::MutatingWebhook
                | Kind::ValidatingWebhook
        ),
        has_generation: !matches!(
            kind,
            Kind::Service | Kind::Node | Kind::Namespace | Kind::Secret | Kind::ConfigMap
        ),
        native,
        custom: false,
        model: Some(kind),
        name: ResourceName::new(kind.plural(), kind.group()),
    }
}

/// The column that every kind has: how old the object is.
pub(super) fn age() -> Column {
    column(
        "Age",
        "date",
        Shows::Path(".metadata.creationTimestamp".into()),
    )
}

pub(super) fn column(name: &str, kind: &str, shows: Shows) -> Column {
    Column {
        name: name.into(),
        kind: kind.into(),
        format: "".into(),
        description: "".into(),
        priority: 0,
        shows,
    }
}

fn path(name: &str, kind: &str, path: &str) -> Column {
    column(name, kind, Shows::Path(path.into()))
}

fn made(name: &str, kind: &str, make: fn(&Value) -> Value) -> Column {
    column(name, kind, Shows::Made(make))
}

fn columns(kind: Kind) -> Arc<[Column]> {
    let mut columns = match kind {
        Kind::ConfigMap => vec![made("Data", "string", |o| {
            json!(entries(&o["data"]) + entries(&o["binaryData"]))
        })],
        Kind::Secret => vec![
            made("Type", "string", |o| o["type"].clone()),
            made("Data", "string", |o| json!(entries(&o["data"]))),
        ],
        Kind::CustomResourceDefinition => {
            let created = made("Created At", "date", |o| {
                o["metadata"]["creationTimestamp"].clone()
            });
            return [created].into();
        }
        Kind::Deployment => vec![
            made("Ready", "string", stored::ready),
            made("Up-to-date", "integer", |o| {
                stored::count(o, "updatedReplicas")
            }),
            made("Available", "integer", |o| {
                stored::count(o, "availableReplicas")
            }),
        ],
        Kind::Ingress => vec![
            made("Class", "string", |o| {
                or_none(&o["spec"]["ingressClassName"])
            }),
            made("Hosts", "string", |o| ingress_hosts(&o["spec"]["rules"])),
            made("Address", "string", ingress_addresses),
            made("Ports", "string", |o| {
                let has_tls = o["spec"]["tls"]
                    .as_array()
                    .is_some_and(|tls| !tls.is_empty());
                if has_tls { "80, 443" } else { "80" }.into()
            }),
        ],
        Kind::IngressClass => vec![
            path("Controller", "string", ".spec.controller"),
            made("Parameters", "string", printed::class_parameters),
        ],
        Kind::MutatingWebhook | Kind::ValidatingWebhook => {
            vec![made("Webhooks", "integer", printed::webhooks)]
        }
        Kind::EndpointSlice => printed::of_slices(),
        Kind::Pod => return printed::of_pods().into(),
        Kind::Node => return printed::of_nodes().into(),
        Kind::Namespace => vec![made("Status", "string", |o| o["status"]["phase"].clone())],
        Kind::Service => vec![
            made("Type", "string", |o| o["spec"]["type"].clone()),
            made("Cluster-IP", "string", |o| or_none(&o["spec"]["clusterIP"])),
            made("External-IP", "string", printed::external_address),
            made("Port(s)", "string", service_ports),
        ],
        _ => {
            let paths = COLUMNS.iter().find(|(k, _)| *k == kind);
            let paths = paths.map_or(&[][..], |(_, p)| p);
            let of =
                |(name, path): &(&str, &str)| column(name, "string", Shows::Path((*path).into()));
            paths.iter().map(of).collect()
        }
    };
    columns.push(age());
    columns.into()
}

fn entries(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

fn or_none(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if !text.is_empty() => text.into(),
        _ => "<none>".into(),
    }
}

/// The hosts of rules, as kube-apiserver shows them: three, and how many there are more.
fn ingress_hosts(rules: &Value) -> Value {
    const SHOWN: usize = 3;
    let rules = rules.as_array().map(Vec::as_slice).unwrap_or_default();
    let hosts = rules.iter().filter_map(|rule| rule["host"].as_str());
    let hosts: Vec<&str> = hosts.filter(|host| !host.is_empty()).take(SHOWN).collect();
    let shown = hosts.join(",");
    match rules.len().saturating_sub(SHOWN) {
        _ if hosts.is_empty() => "*".into(),
        more if more > 0 && hosts.len() == SHOWN => format!("{shown} + {more} more...").into(),
        _ => shown.into(),
    }
}

/// Where an Ingress is reached, by its status.
fn ingress_addresses(object: &Value) -> Value {
    let points = object["status"]["loadBalancer"]["ingress"].as_array();
    let address = |point: &Value| {
        let stated = |field: &str| point[field].as_str().filter(|text| !text.is_empty());
        Some(stated("ip").or_else(|| stated("hostname"))?.to_owned())
    };
    let addresses: Vec<String> = points.into_iter().flatten().filter_map(address).collect();
    addresses.join(",").into()
}

fn service_ports(object: &Value) -> Value {
    let ports = object["spec"]["ports"].as_array();
    let shown: Vec<String> = ports
        .into_iter()
        .flatten()
        .map(|p| {
            let node = p["nodePort"].as_u64().filter(|n| *n != 0);
            let node = node.map_or(String::new(), |n| format!(":{n}"));
            format!(
                "{}{node}/{}",
                p["port"],
                p["protocol"].as_str().unwrap_or("TCP")
            )
        })
        .collect();
    if shown.is_empty() {
        "<none>".into()
    } else {
        shown.join(",").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ingress_is_shown_as_kube_apiserver_shows_it() {
        let rules =
            |hosts: &[&str]| -> Value { hosts.iter().map(|host| json!({"host": host})).collect() };
        for (hosts, wanted) in [
            (&[][..], "*"),
            (&[""], "*"),
            (&["a.test"], "a.test"),
            (&["a.test", "b.test", "c.test"], "a.test,b.test,c.test"),
            (
                &["a.test", "b.test", "c.test", "d.test", "e.test"],
                "a.test,b.test,c.test + 2 more...",
            ),
        ] {
            assert_eq!(ingress_hosts(&rules(hosts)), wanted, "{hosts:?}");
        }
        let reached = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.50"}, {"hostname": "lb.test"}]}}});
        assert_eq!(ingress_addresses(&reached), "192.0.2.50,lb.test");
        assert_eq!(ingress_addresses(&json!({})), "");
    }
}

//! Objects that a mesh has though no folder holds them: the ingress gateway that the mesh config names, services of registries,
//! and the Services of the control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use model::kinds::higress::REGISTRIES;
use model::parse::{Validation, parse};
use model::settings::Settings;
use model::{AnyObject, Kind, ObjectName, Origin};
use proto_istio::mesh::mesh_config::IngressControllerMode;
use serde_json::json;
use store::Snapshot;

use crate::finding::Finding;

/// Where implied objects say that they come from.
const ORIGIN: &str = "implied by the configuration";

/// The namespace of services that come from registries.
const REGISTERED: &str = "mcp";

/// The objects that the settings imply. Findings about them are of no use ([`is_about`]).
///
/// Istio: pkg/config/analysis/local/defaults.go, 1.32.
pub fn objects(settings: &Settings) -> Vec<AnyObject> {
    let mesh = &settings.mesh;
    if mesh.ingress_controller_mode() == IngressControllerMode::Off
        || mesh.ingress_service.is_empty()
    {
        return Vec::new();
    }
    let (name, namespace) = (&mesh.ingress_service, &settings.system_namespace);
    let port = |number: u16| format!("{{name: http-{number}, port: {number}, protocol: TCP}}");
    let ports = [80, 443, 31400, 15443].map(port).join(", ");
    let text = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, \
         labels: {{istio: ingressgateway}}}}, spec: {{containers: [{{name: istio-proxy, image: proxy}}]}}}}\n---\n\
         {{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: {namespace}, \
         labels: {{istio: ingressgateway}}}}, spec: {{ports: [{ports}], selector: {{istio: ingressgateway}}}}}}\n"
    );
    implied(&text)
}

/// What stands for services of registries: an entry for each that an McpBridge lists by its addresses, and one with a wildcard for
/// each registry that has to be asked. Of an entry without ports nothing is known but that it is there.
pub fn of_registries(snapshot: &Snapshot) -> Vec<AnyObject> {
    let mut ports: BTreeMap<String, Option<u32>> = BTreeMap::new();
    for object in snapshot.tables.iter_any(Kind::McpBridge) {
        let AnyObject::McpBridge(bridge) = object else {
            continue;
        };
        if *bridge.namespace() != snapshot.settings.features.edge_namespace {
            continue;
        }
        for registry in &bridge.spec.registries {
            if !REGISTRIES.contains(&&*registry.registry_type) {
                continue;
            }
            let is_stated = registry.port > 0 && registry.vport.is_none();
            let (host, port) = match registry.is_listed() {
                true => (registry.listed_host(), is_stated.then_some(registry.port)),
                false => (format!("*.{}", registry.suffix()), None),
            };
            ports.insert(host, port);
        }
    }
    // What files say of a host counts.
    for object in snapshot.tables.iter_any(Kind::ServiceEntry) {
        if let AnyObject::ServiceEntry(entry) = object {
            ports.retain(|host, _| !entry.spec.hosts.contains(host));
        }
    }
    let documents = ports.iter().enumerate().map(|(index, (host, port))| {
        let ports =
            port.map(|number| json!({"number": number, "name": "http", "protocol": "HTTP"}));
        let document = json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": format!("registered-{index}"), "namespace": REGISTERED},
            "spec": {"hosts": [host], "ports": Vec::from_iter(ports)},
        });
        format!("{document}\n---\n")
    });
    implied(&documents.collect::<String>())
}

/// The Services by which webhooks call a control plane, which is in no folder of manifests: those of istiod and of this program.
pub fn of_control_plane(snapshot: &Snapshot) -> Vec<AnyObject> {
    let system = &snapshot.settings.system_namespace;
    let mut names = BTreeSet::new();
    for object in snapshot.tables.iter_any(Kind::MutatingWebhook) {
        let AnyObject::MutatingWebhook(configuration) = object else {
            continue;
        };
        let webhooks = configuration.spec.webhooks.iter();
        let called = webhooks.filter_map(|webhook| webhook.client_config.service.as_ref());
        let ours = called
            .filter(|service| *service.namespace == **system && is_control_plane(&service.name));
        names.extend(
            ours.map(|service| ObjectName::new(service.namespace.clone(), service.name.clone())),
        );
    }
    names.retain(|name| snapshot.tables.get_any(Kind::Service, name).is_none());
    let documents = names.iter().map(|name| {
        let document = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": &*name.name, "namespace": &*name.namespace},
            "spec": {"ports": [{"name": "https-webhook", "port": 443}]},
        });
        format!("{document}\n---\n")
    });
    implied(&documents.collect::<String>())
}

/// Whether a Service of that name is of a control plane, of whatever revision.
fn is_control_plane(service: &str) -> bool {
    let names = ["istiod", "pilothouse"].into_iter();
    let mut rests = names.filter_map(|name| service.strip_prefix(name));
    rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn implied(text: &str) -> Vec<AnyObject> {
    let origin: Arc<Path> = Path::new(ORIGIN).into();
    let parsed = parse(text, &origin, Validation::Warn);
    parsed.objects().cloned().collect()
}

/// Whether a finding is about an implied object.
pub fn is_about(finding: &Finding) -> bool {
    finding.diagnostic.origin.as_ref().is_some_and(is_from)
}

/// Whether an object is implied.
pub fn is(object: &AnyObject) -> bool {
    is_from(&object.meta().origin)
}

/// Whether implied objects come from there.
pub(crate) fn is_from(origin: &Origin) -> bool {
    matches!(origin, Origin::File { path, .. } if **path == *Path::new(ORIGIN))
}

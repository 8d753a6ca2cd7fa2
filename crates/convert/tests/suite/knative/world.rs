//! A world of Knative's Ingresses, and what is derived from them.

use std::collections::BTreeMap;

use model::settings::Settings;
use model::{AnyObject, Change, Kind, Owner};
use serde_json::{Value, json};
use testkit::{World, settings};

/// Settings that serve the class `higress`, with flags as `name=value`.
pub(crate) fn served(flags: &str) -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.edge_classes = "nginx,higress".into();
    features.edge_addresses = "192.0.2.1,edge.example.com".into();
    for flag in flags.split_whitespace() {
        let (name, value) = flag.split_once('=').unwrap();
        match name {
            "knative_local_selector" => features.knative_local_selector = value.into(),
            "knative_local_service" => features.knative_local_service = value.into(),
            "edge_service" => {
                features.edge_addresses = "".into();
                features.edge_service = value.into();
            }
            "knative_local_port" => {
                features.knative_local_port = value.parse::<u16>().unwrap().into();
            }
            _ => unreachable!("{name} is no flag of a case"),
        }
    }
    settings.features = features.into();
    settings
}

/// Changes that put objects.
pub(crate) fn puts(objects: impl IntoIterator<Item = AnyObject>) -> Vec<Change> {
    let owner = Owner::new(0, "test");
    let changes = objects.into_iter();
    changes
        .map(|object| Change::Put(owner.clone(), object))
        .collect()
}

/// A world of the objects of a text.
pub(crate) fn world(yaml: &str, settings: Settings) -> World {
    let mut world = World::new(settings);
    world.apply(puts(World::objects(yaml)));
    world
}

/// The derived objects, what is found wrong, and statuses, as JSON.
pub(crate) fn shown(world: &World) -> Value {
    let snapshot = world.store.snapshot();
    let kinds = [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule];
    let objects = kinds
        .iter()
        .flat_map(|kind| snapshot.tables.iter_any(*kind))
        .filter(|object| object.meta().derived.is_some());
    let objects: BTreeMap<String, Value> = objects
        .map(|object| {
            let derived = object.meta().derived.clone().unwrap();
            let shown = json!({
                "from": derived.from.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "semantics": format!("{:?}", derived.semantics),
                "spec": object.spec_json(),
            });
            (object.key().to_string(), shown)
        })
        .collect();
    let findings = world.stage.current_findings().into_iter().map(|found| {
        let object = found.object.as_ref().unwrap();
        let severity = format!("{:?}", found.severity).to_lowercase();
        format!(
            "{} {severity} {object} {}: {}",
            found.code, found.path, found.message
        )
    });
    let statuses = world.statuses.iter();
    let of_ingresses = [Kind::KnativeIngress, Kind::Ingress];
    let statuses = statuses.filter(|(object, _)| of_ingresses.contains(&object.kind));
    let statuses: BTreeMap<String, &Value> = statuses
        .map(|(object, status)| (object.to_string(), status))
        .collect();
    json!({ "objects": objects, "findings": findings.collect::<Vec<_>>(), "statuses": statuses })
}

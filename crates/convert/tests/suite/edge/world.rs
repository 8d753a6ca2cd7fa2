//! A world of Ingresses with annotations, and what is derived from them.

use std::sync::Arc;

use model::settings::Settings;
use model::{AnyObject, Change, Kind, Owner};
use pilothouse_convert::{Loaded, load};
use serde_json::{Value, json};
use testkit::{World, settings};

/// Settings that serve the classes `nginx` and `higress`.
pub(crate) fn served() -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.edge_classes = "nginx,higress".into();
    features.edge_addresses = "192.0.2.1".into();
    settings.features = features.into();
    settings
}

/// What is derived from the objects of a text.
pub(crate) fn loaded(yaml: &str) -> Loaded {
    loaded_with(yaml, Vec::new())
}

/// What is derived from the objects of a text, and those of remote clusters beside it.
pub(crate) fn loaded_with(yaml: &str, beside: Vec<Change>) -> Loaded {
    loaded_in(served(), yaml, beside)
}

/// The same with these settings.
pub(crate) fn loaded_in(settings: Settings, yaml: &str, beside: Vec<Change>) -> Loaded {
    let changes = puts(None, yaml).into_iter().chain(beside);
    load(Arc::new(settings), changes)
}

/// The objects of a text as those of a cluster.
pub(crate) fn puts(cluster: Option<&str>, yaml: &str) -> Vec<Change> {
    let owner = Owner {
        cluster: cluster.map(Into::into),
        ..Owner::new(0, "test")
    };
    let changes = World::objects(yaml).into_iter();
    let changes = changes.map(|object| Change::Put(owner.clone(), object));
    changes.collect()
}

/// What is derived.
pub(crate) struct Edge {
    objects: Vec<Value>,
    findings: Vec<String>,
}

impl Edge {
    /// The derived objects and the findings of a world.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let snapshot = loaded.store.snapshot();
        let kinds = [
            Kind::Gateway,
            Kind::VirtualService,
            Kind::DestinationRule,
            Kind::ServiceEntry,
        ];
        let objects = kinds
            .iter()
            .flat_map(|kind| snapshot.tables.iter_any(*kind))
            .filter(|object| object.meta().derived.is_some());
        let findings = loaded.findings.iter().map(|found| {
            let object = found.object.as_ref().unwrap();
            let severity = format!("{:?}", found.severity).to_lowercase();
            format!(
                "{} {severity} {object} {}: {}",
                found.code, found.path, found.message
            )
        });
        let mut objects: Vec<_> = objects.map(|o| (o.key(), shown(&o))).collect();
        objects.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            objects: objects.into_iter().map(|(_, shown)| shown).collect(),
            findings: findings.collect(),
        }
    }

    /// As JSON.
    pub(crate) fn shown(&self) -> Value {
        json!({ "objects": self.objects, "findings": self.findings })
    }
}

fn shown(object: &AnyObject) -> Value {
    let spec = match object {
        AnyObject::Gateway(object) => serde_json::to_value(&object.spec),
        AnyObject::VirtualService(object) => serde_json::to_value(&object.spec),
        AnyObject::DestinationRule(object) => serde_json::to_value(&object.spec),
        AnyObject::ServiceEntry(object) => serde_json::to_value(&object.spec),
        _ => unreachable!("no other kind is derived"),
    };
    let derived = object.meta().derived.as_ref().unwrap();
    let edge = derived.edge.iter();
    let edge: Vec<String> = edge.map(|(at, route)| format!("{at}: {route:?}")).collect();
    json!({
        "object": object.key().to_string(),
        "from": derived.from.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "spec": spec.unwrap(),
        "edge": edge,
    })
}

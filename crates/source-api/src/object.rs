//! Objects as a Kubernetes API has them.

use std::path::Path;
use std::sync::Arc;

use model::object::{ObjectKey, Origin};
use model::parse::{Validation, from_json};
use model::{Change, Diagnostic, Owner};
use serde_json::Value;

/// Reads an object of an API: what to report of it, and what is wrong with it. An object that cannot be used leaves its last
/// valid version in force, and where there is none, its substitutes.
pub fn read(
    owner: &Owner,
    key: ObjectKey,
    object: Value,
    validation: Validation,
) -> (Change, Vec<Diagnostic>) {
    let file: Arc<Path> = Path::new("api").into();
    let parsed = from_json(object, &file, validation);
    let origin = Origin::Source(owner.source.clone());
    let diagnostics = parsed.diagnostics.into_iter().map(|mut d| {
        d.origin = Some(origin.clone());
        d.excerpt = None;
        d
    });
    let diagnostics = diagnostics.collect();
    let (mut object, mut substitutes) = (None, Vec::new());
    for document in parsed.documents {
        object = object.or(document.object);
        substitutes.extend(document.substitute);
    }
    for read in object.iter_mut().chain(&mut substitutes) {
        read.set_origin(origin.clone());
    }
    let change = match object {
        Some(object) => Change::Put(owner.clone(), object),
        None => Change::Keep(owner.clone(), key, substitutes),
    };
    (change, diagnostics)
}

#[cfg(test)]
mod tests {
    use model::{Kind, ObjectName};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_that_cannot_be_used_comes_with_its_substitute() {
        let owner = Owner::new(1, "api");
        let read = |kind: Kind, spec: Value| {
            let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(),
                "metadata": {"name": "a", "namespace": "shop"}, "spec": spec});
            let name = ObjectName::new("shop", "a");
            super::read(&owner, ObjectKey { kind, name }, object, Validation::Warn).0
        };
        let rejected = read(Kind::AuthorizationPolicy, json!({"action": "DENYY"}));
        let Change::Keep(_, key, substitutes) = &rejected else {
            panic!("{rejected:?}");
        };
        let [substitute] = substitutes.as_slice() else {
            panic!("{rejected:?}");
        };
        assert_eq!(substitute.key(), *key);
        assert!(substitute.meta().closed.is_some());
        assert_eq!(
            substitute.meta().origin,
            Origin::Source(owner.source.clone())
        );
        let other = read(Kind::ServiceEntry, json!({"hosts": 3}));
        let Change::Keep(_, _, substitutes) = other else {
            panic!("{other:?}");
        };
        assert!(substitutes.is_empty(), "{substitutes:?}");
        let valid = read(Kind::AuthorizationPolicy, json!({"action": "DENY"}));
        assert!(matches!(valid, Change::Put(..)), "{valid:?}");
        // A rule has one host; where it names several, each is closed by a substitute of its own.
        let rule = json!({"hosts": ["a.test", "b.test", "c.test"],
            "trafficPolicy": {"tls": {"mode": "SIMPLE"}}});
        let Change::Keep(_, _, substitutes) = read(Kind::DestinationRule, rule) else {
            panic!("a rule without a host is not used");
        };
        let hosts: Vec<_> = substitutes
            .iter()
            .map(|s| s.spec_json()["host"].clone())
            .collect();
        assert_eq!(hosts, ["a.test", "b.test", "c.test"]);
        let origin = Origin::Source(owner.source.clone());
        assert!(substitutes.iter().all(|s| s.meta().origin == origin));
    }
}

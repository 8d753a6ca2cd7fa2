//! Objects as a Kubernetes API has them.

use std::path::Path;
use std::sync::Arc;

use model::object::{ObjectKey, Origin};
use model::parse::{Validation, from_json};
use model::{Change, Diagnostic, Owner};
use serde_json::Value;

/// Reads an object of an API: what to report of it, and what is wrong with it. An object that cannot be used leaves its last
/// valid version in force, and where there is none, its substitute.
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
    let (mut object, mut substitute) = (None, None);
    for document in parsed.documents {
        object = object.or(document.object);
        substitute = substitute.or(document.substitute);
    }
    for read in [&mut object, &mut substitute].into_iter().flatten() {
        read.set_origin(origin.clone());
    }
    let change = match object {
        Some(object) => Change::Put(owner.clone(), object),
        None => Change::Keep(owner.clone(), key, substitute),
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
        let Change::Keep(_, key, Some(substitute)) = rejected else {
            panic!("{rejected:?}");
        };
        assert_eq!(substitute.key(), key);
        assert!(substitute.meta().closed.is_some());
        assert_eq!(
            substitute.meta().origin,
            Origin::Source(owner.source.clone())
        );
        let other = read(Kind::ServiceEntry, json!({"hosts": 3}));
        assert!(matches!(other, Change::Keep(_, _, None)), "{other:?}");
        let valid = read(Kind::AuthorizationPolicy, json!({"action": "DENY"}));
        assert!(matches!(valid, Change::Put(..)), "{valid:?}");
    }
}

//! What is wrong with Ingresses of ingress-nginx whatever else there is.

use std::collections::BTreeMap;

use annotations::{Dialect, Note};
use convert::code;
use model::{AnyObject, Diagnostic, Kind, ObjectName};

use crate::{Wanted, World};

/// The kinds that decide what Ingresses mean. Services and Secrets that they name are taken to be there.
pub const KINDS: [Kind; 3] = [Kind::Ingress, Kind::IngressClass, Kind::ReferenceGrant];

/// What a server says of the annotations of Ingresses that are ingress-nginx's, and of those of their paths that it closes. What
/// depends on other objects is left out. `classes` are those whose Ingresses are looked at; where empty, those of ingress-nginx.
pub fn findings(objects: Vec<AnyObject>, classes: &[String]) -> Vec<Diagnostic> {
    let wanted = Wanted {
        classes: classes.to_vec(),
        ..Wanted::default()
    };
    let world = World::load(objects, &wanted);
    let notes = world.ingresses.iter().map(|ingress| {
        let stated = &ingress.meta.annotations;
        let read = annotations::read(stated, Dialect::Nginx, &world.defaults);
        (ingress.meta.name.clone(), read.notes)
    });
    let notes: BTreeMap<ObjectName, Vec<Note>> = notes.collect();
    let alone = world.findings.iter().filter(|finding| {
        let of = finding.object.as_ref();
        let of = of.filter(|object| object.kind == Kind::Ingress);
        let Some(notes) = of.and_then(|object| notes.get(&object.name)) else {
            return false;
        };
        let is_note = || notes.iter().any(|note| note.message == finding.message);
        let is_path = finding.path.starts_with("spec.rules[");
        matches!(finding.code, code::ANNOTATION | code::CLOSED) && (is_path || is_note())
    });
    let placed = alone.map(|finding| world.snapshot.placed(finding.clone()));
    placed.collect()
}

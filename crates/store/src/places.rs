//! Where objects come from, for those who wrote them.

use model::{Diagnostic, ObjectKey, Origin};

use crate::snapshot::Snapshot;

impl Snapshot {
    /// Where an object was read from; for a derived one, where the first was that it was made from.
    pub fn place_of(&self, key: &ObjectKey) -> Option<Origin> {
        let object = self.tables.get_any(key.kind, &key.name)?;
        let derived = object.meta().derived.as_ref();
        let written = derived.and_then(|derived| derived.from.first());
        let written = written.and_then(|key| self.tables.get_any(key.kind, &key.name));
        Some(written.unwrap_or(object).meta().origin.clone())
    }

    /// The finding as an author can act on it: with where its object was read from, and about the written object in
    /// place of one that was derived from it.
    pub fn placed(&self, mut finding: Diagnostic) -> Diagnostic {
        let Some(key) = finding.object.clone() else {
            return finding;
        };
        let object = self.tables.get_any(key.kind, &key.name);
        let derived = object.and_then(|object| object.meta().derived.clone());
        if let Some(written) = derived.as_ref().and_then(|derived| derived.from.first()) {
            let at = match &*finding.path {
                "" => String::new(),
                path => format!("{path} of "),
            };
            let message = format!("{} (in {at}the {key} derived from it)", finding.message);
            finding.message = message.into();
            finding.path = "".into();
            finding.object = Some(written.clone());
            finding.origin = self.place_of(&key);
        } else if finding.origin.is_none() {
            finding.origin = self.place_of(&key);
        }
        finding
    }
}

//! Objects that several sources hold, of which one is used: who writes the others must be told.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use model::object::ObjectKey;
use model::{Change, Diagnostic, Severity, SourceId};

/// An object of a source is not used because another source has it as well.
pub const SHADOWED: &str = "PIL0013";

/// Which sources hold which object. Nothing is remembered where there is one source only.
#[derive(Default)]
pub struct Shadows(Option<Mutex<Held>>);

#[derive(Default)]
struct Held {
    by: HashMap<ObjectKey, Vec<SourceId>>,
    found: BTreeMap<ObjectKey, Vec<Diagnostic>>,
}

impl Shadows {
    /// For so many sources.
    pub fn of(sources: usize) -> Self {
        Self((sources > 1).then(Mutex::default))
    }

    /// Takes in what a source says; returns all that is shadowed, if that has changed.
    pub fn see(&self, changes: &[Change]) -> Option<Vec<Diagnostic>> {
        let mut held = self
            .0
            .as_ref()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut differs = false;
        for change in changes {
            match change {
                Change::Put(source, object) => {
                    let key = object.key();
                    let by = held.by.entry(key.clone()).or_default();
                    if !by.contains(source) {
                        by.push(source.clone());
                        by.sort();
                        differs |= held.judge(&key);
                    }
                }
                Change::Delete(source, key) => differs |= held.remove(source, key),
                Change::Restart(source) => {
                    // It says again what it still has.
                    let of = |(key, by): (&ObjectKey, &Vec<SourceId>)| {
                        by.contains(source).then(|| key.clone())
                    };
                    let keys: Vec<ObjectKey> = held.by.iter().filter_map(of).collect();
                    for key in keys {
                        differs |= held.remove(source, &key);
                    }
                }
                _ => {}
            }
        }
        differs.then(|| held.found.values().flatten().cloned().collect())
    }

    /// The source whose object is used in place of that of `source`.
    pub fn instead_of(&self, source: &SourceId, key: &ObjectKey) -> Option<SourceId> {
        let held = self
            .0
            .as_ref()?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let first = held.by.get(key)?.first()?;
        (first < source).then(|| first.clone())
    }
}

impl Held {
    fn remove(&mut self, source: &SourceId, key: &ObjectKey) -> bool {
        let Some(by) = self.by.get_mut(key) else {
            return false;
        };
        by.retain(|s| s != source);
        if by.is_empty() {
            self.by.remove(key);
        }
        self.judge(key)
    }

    /// Makes the findings of an object anew; whether they differ.
    fn judge(&mut self, key: &ObjectKey) -> bool {
        let by = self.by.get(key).map(Vec::as_slice).unwrap_or_default();
        let found: Vec<Diagnostic> = by
            .split_first()
            .into_iter()
            .flat_map(|(used, others)| others.iter().map(move |other| (used, other)))
            .map(|(used, other)| {
                let message = format!("is not used as {other} has it: {used} has it as well");
                let mut finding = Diagnostic::new(SHADOWED, Severity::Warning, message);
                finding.object = Some(key.clone());
                finding.help = Some(format!("delete it from {other} or from {used}").into());
                finding
            })
            .collect();
        let before = if found.is_empty() {
            self.found.remove(key)
        } else {
            self.found.insert(key.clone(), found.clone())
        };
        before.unwrap_or_default() != found
    }
}

#[cfg(test)]
mod tests {
    use model::parse::{Validation, from_json};

    use super::*;

    fn source(rank: u8, name: &str) -> SourceId {
        SourceId {
            rank,
            name: name.into(),
        }
    }

    fn object() -> model::kinds::AnyObject {
        let json = serde_json::json!({"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": "a", "namespace": "shop"}, "spec": {"hosts": ["a.example.com"],
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}});
        let place = std::path::Path::new("test");
        let parsed = from_json(json, &place.into(), Validation::Strict);
        let found = parsed.documents.into_iter().find_map(|d| d.object);
        found.unwrap()
    }

    #[test]
    fn an_object_of_two_sources_is_told_until_one_lets_go() {
        let shadows = Shadows::of(2);
        let (files, api) = (source(10, "files:conf"), source(200, "api:data"));
        let key = object().key();
        let put = |source: &SourceId| vec![Change::Put(source.clone(), object())];
        assert_eq!(shadows.see(&put(&api)), None);
        assert_eq!(shadows.instead_of(&api, &key), None);
        let told = shadows.see(&put(&files)).unwrap();
        assert_eq!(told.len(), 1);
        assert!(told[0].message.contains("files:conf"), "{}", told[0]);
        assert_eq!(shadows.see(&put(&files)), None, "nothing is new");
        assert_eq!(shadows.instead_of(&api, &key), Some(files.clone()));
        assert_eq!(shadows.instead_of(&files, &key), None);
        let restart = [Change::Restart(files.clone())];
        assert_eq!(shadows.see(&restart), Some(Vec::new()));
        assert_eq!(shadows.see(&put(&files)).map(|told| told.len()), Some(1));
        let delete = [Change::Delete(files, key.clone())];
        assert_eq!(shadows.see(&delete), Some(Vec::new()));
        assert_eq!(shadows.instead_of(&api, &key), None);
    }

    #[test]
    fn one_source_is_not_watched() {
        let shadows = Shadows::of(1);
        let api = source(200, "api");
        assert_eq!(shadows.see(&[Change::Put(api.clone(), object())]), None);
        assert_eq!(shadows.instead_of(&api, &object().key()), None);
    }
}

//! Which registries there are to be, of all that names some.

use std::collections::BTreeMap;

use model::kinds::higress::Registry;
use model::kinds::kube::Secret;
use model::names::Name;
use model::object::{Object, ObjectKey, Origin};
use model::redacted::Redacted;
use model::{Diagnostic, Severity};
use registries::entry::{Credentials, Entry, Fault, Key};

use super::bridges::Seen;
use super::code;

/// Most registries.
const MOST: usize = 1_000;

/// What there is to be, and what is wrong with it.
#[derive(Default)]
pub(super) struct Plan {
    /// Every registry that is named; none where its entry cannot be used.
    pub(super) registries: BTreeMap<Key, Option<Entry>>,
    pub(super) found: Vec<Diagnostic>,
}

/// Who names a registry.
#[derive(Clone, Copy)]
struct Place<'a> {
    object: Option<(&'a ObjectKey, &'a Origin)>,
    index: usize,
}

impl Place<'_> {
    fn finding(
        &self,
        code: &'static str,
        severity: Severity,
        field: &str,
        message: String,
    ) -> Diagnostic {
        match self.object {
            Some((object, origin)) => Diagnostic::new(code, severity, message)
                .about(object.clone(), origin.clone())
                .at(format!("spec.registries[{}].{field}", self.index)),
            None => {
                let message = format!("{field} of --registry number {}: {message}", self.index + 1);
                Diagnostic::new(code, severity, message)
            }
        }
    }
}

/// Chooses: flags come before the bridges, these in their order; within one bridge the last entry of a name counts, as with
/// Higress.
pub(super) fn plan(flags: &[Registry], seen: &Seen) -> Plan {
    let mut plan = Plan::default();
    plan.add(flags, None, seen);
    for bridge in &seen.bridges {
        let key = bridge.key();
        plan.add(
            &bridge.spec.registries,
            Some((&key, &bridge.meta.origin)),
            seen,
        );
    }
    plan
}

impl Plan {
    fn add(&mut self, entries: &[Registry], object: Option<(&ObjectKey, &Origin)>, seen: &Seen) {
        let mut last: BTreeMap<Key, usize> = BTreeMap::new();
        for (index, stated) in entries.iter().enumerate() {
            last.insert(Key::of(stated), index);
        }
        for (index, stated) in entries.iter().enumerate() {
            let (place, key) = (Place { object, index }, Key::of(stated));
            let unused = if last.get(&key) != Some(&index) {
                Some("is not used: a later entry has this type and name")
            } else if self.registries.contains_key(&key) {
                Some(
                    "is not used: a flag or another McpBridge names a registry of this type and name",
                )
            } else if self.registries.len() >= MOST {
                Some("is not used: there are too many registries")
            } else {
                None
            };
            if let Some(why) = unused {
                let severity = Severity::Warning;
                let found = place.finding(code::REGISTRY_UNUSED, severity, "name", why.to_owned());
                self.found.push(found);
                continue;
            }
            let entry = credentials(stated, &seen.secrets)
                .and_then(|credentials| Entry::new(stated.clone(), credentials));
            let entry = entry.map_err(|Fault { field, message }| {
                let (code, severity) = (code::REGISTRY_REFUSED, Severity::Error);
                self.found
                    .push(place.finding(code, severity, field, message));
            });
            self.registries.insert(key, entry.ok());
        }
    }
}

/// The credentials of a registry.
fn credentials(
    stated: &Registry,
    secrets: &BTreeMap<Name, std::sync::Arc<Object<Secret>>>,
) -> Result<Credentials, Fault> {
    let name = &stated.auth_secret_name;
    if name.is_empty() {
        return Ok(Credentials::default());
    }
    let secret = secrets.get(&Name::new(name.clone())).ok_or_else(|| Fault {
        field: "authSecretName",
        message: format!("there is no Secret {name}, so the registry is not asked"),
    })?;
    let texts = secret.spec.data.iter().filter_map(|(key, value)| {
        let text = std::str::from_utf8(&value.0).ok()?;
        // Files often end in a line break, and no credential does.
        Some((
            key.clone(),
            Redacted::new(text.trim_end_matches(['\r', '\n'])),
        ))
    });
    Ok(Credentials(texts.collect()))
}

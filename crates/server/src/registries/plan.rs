//! Which registries there are to be, of all that names some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::kinds::higress::{Registry, RegistryProxy};
use model::kinds::kube::Secret;
use model::names::Name;
use model::object::{Object, ObjectKey, Origin};
use model::redacted::Redacted;
use model::{Diagnostic, Severity};
use registries::entry::{Credentials, Entry, Fault, Key, Through};
use registries::proxy::Proxy;

use super::bridges::Seen;
use super::code;

/// Most registries.
const MOST: usize = 1_000;
/// Most proxies.
const MOST_PROXIES: usize = 100;

/// What there is to be, and what is wrong with it.
#[derive(Default)]
pub(super) struct Plan {
    /// Every registry that is named; none where its entry cannot be used.
    pub(super) registries: BTreeMap<Key, Option<Entry>>,
    /// Every proxy that is named; none where it cannot be used.
    pub(super) proxies: BTreeMap<Arc<str>, Option<Proxy>>,
    pub(super) found: Vec<Diagnostic>,
}

/// Who names a registry.
#[derive(Clone, Copy)]
struct Place<'a> {
    object: Option<(&'a ObjectKey, &'a Origin)>,
    list: &'static str,
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
                .at(format!("spec.{}[{}].{field}", self.list, self.index)),
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
    plan.add_proxies(seen);
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
    /// Proxies of all bridges. Those that state their port come before those that are given one.
    fn add_proxies(&mut self, seen: &Seen) {
        let all = seen.bridges.iter().flat_map(|bridge| {
            let proxies = bridge.spec.proxies.iter().enumerate();
            proxies.map(move |(index, proxy)| (bridge, index, proxy))
        });
        let (stated, given): (Vec<_>, Vec<_>) =
            all.partition(|(_, _, proxy)| proxy.listener_port > 0);
        let mut taken = BTreeSet::new();
        for (bridge, index, proxy) in stated.into_iter().chain(given) {
            let key = bridge.key();
            let place = Place {
                object: Some((&key, &bridge.meta.origin)),
                list: "proxies",
                index,
            };
            self.add_proxy(proxy, place, &mut taken);
        }
    }

    fn add_proxy(&mut self, stated: &RegistryProxy, place: Place<'_>, taken: &mut BTreeSet<u16>) {
        let unused = if self.proxies.contains_key(&stated.name) {
            Some("is not used: another proxy has this name")
        } else if self.proxies.len() >= MOST_PROXIES {
            Some("is not used: there are too many proxies")
        } else {
            None
        };
        if let Some(why) = unused {
            let (code, severity) = (code::REGISTRY_UNUSED, Severity::Warning);
            self.found
                .push(place.finding(code, severity, "name", why.to_owned()));
            return;
        }
        let proxy = Proxy::new(stated, taken).map_err(|Fault { field, message }| {
            let (code, severity) = (code::REGISTRY_REFUSED, Severity::Error);
            self.found
                .push(place.finding(code, severity, field, message));
        });
        taken.extend(proxy.iter().map(|proxy| proxy.listener));
        self.proxies.insert(stated.name.clone(), proxy.ok());
    }

    /// An entry, whose way through a proxy must be told from those of others.
    fn entry(&self, stated: &Registry, credentials: Credentials) -> Result<Entry, Fault> {
        let proxy = self.proxies.get(&stated.proxy_name);
        let proxy = proxy.and_then(Option::as_ref);
        let entry = Entry::new(stated.clone(), credentials, proxy)?;
        let Some(through) = entry.through() else {
            return Ok(entry);
        };
        let clashes = |other: &&Through| {
            other.proxy == through.proxy
                && other.tunnel.sni == through.tunnel.sni
                && other.tunnel.target != through.tunnel.target
        };
        let others = self.registries.values().flatten();
        match others.filter_map(Entry::through).find(clashes) {
            Some(other) => Err(Fault {
                field: "sni",
                message: format!(
                    "{} is that of {} behind the same proxy",
                    other.tunnel.sni, other.tunnel.target
                ),
            }),
            None => Ok(entry),
        }
    }

    fn add(&mut self, entries: &[Registry], object: Option<(&ObjectKey, &Origin)>, seen: &Seen) {
        let mut last: BTreeMap<Key, usize> = BTreeMap::new();
        for (index, stated) in entries.iter().enumerate() {
            last.insert(Key::of(stated), index);
        }
        for (index, stated) in entries.iter().enumerate() {
            let list = "registries";
            let place = Place {
                object,
                list,
                index,
            };
            let key = Key::of(stated);
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
                .and_then(|credentials| self.entry(stated, credentials));
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
    secrets: &BTreeMap<Name, Arc<Object<Secret>>>,
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

#[cfg(test)]
mod tests;

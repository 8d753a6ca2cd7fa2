//! Which versions of which kinds the definitions of a cluster serve.

use std::collections::BTreeMap;

use model::Kind;
use serde_json::{Map, Value};
use tokio::sync::watch;

/// The versions that are read of each kind that is defined, the preferred one first.
type Versions = BTreeMap<Kind, Vec<&'static str>>;

/// What is known of definitions. Clones share it.
#[derive(Clone)]
pub(super) struct Definitions(watch::Sender<Known>);

/// What is known of definitions.
#[derive(PartialEq, Eq, Debug)]
enum Known {
    /// They are being read.
    Pending,
    /// They cannot be read.
    Unreadable,
    /// These are all.
    All(Versions),
}

/// What definitions say of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Served {
    /// Nothing yet.
    Pending,
    /// Nothing, for they cannot be read.
    Unreadable,
    /// There is no definition.
    Undefined,
    /// These versions are served.
    In(Vec<&'static str>),
}

/// The definitions that are told, until they are told whole.
#[derive(Default)]
pub(super) struct Reader(Versions);

/// What happens to a definition.
pub(super) enum Definition {
    /// All are told anew.
    Restarted,
    /// It serves these versions now; none where it is gone or not in force yet.
    Serves(Kind, Vec<&'static str>),
    /// It is gone.
    Gone(Kind),
}

impl Definitions {
    pub(super) fn new(are_read: bool) -> Self {
        let known = match are_read {
            true => Known::Pending,
            false => Known::Unreadable,
        };
        Self(watch::Sender::new(known))
    }

    pub(super) fn watch(&self, kind: Kind) -> Watch {
        Watch {
            kind,
            known: self.0.subscribe(),
        }
    }

    /// They cannot be read, unless they were before.
    pub(super) fn unreadable(&self) {
        self.0.send_if_modified(|known| {
            let pending = *known == Known::Pending;
            if pending {
                *known = Known::Unreadable;
            }
            pending
        });
    }

    /// Takes in what a reader knows.
    pub(super) fn publish(&self, reader: &Reader) {
        self.0.send_if_modified(|known| {
            let new = Known::All(reader.0.clone());
            let differs = *known != new;
            if differs {
                *known = new;
            }
            differs
        });
    }
}

/// What definitions say of one kind.
pub(super) struct Watch {
    kind: Kind,
    known: watch::Receiver<Known>,
}

impl Watch {
    pub(super) fn served(&mut self) -> Served {
        match &*self.known.borrow_and_update() {
            Known::Pending => Served::Pending,
            Known::Unreadable => Served::Unreadable,
            Known::All(versions) => match versions.get(&self.kind) {
                Some(served) => Served::In(served.clone()),
                None => Served::Undefined,
            },
        }
    }

    /// Waits until definitions say something else of the kind than `now`.
    pub(super) async fn differs(&mut self, now: &Served) {
        while self.served() == *now {
            if self.known.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Reader {
    pub(super) fn take(&mut self, change: Definition) {
        match change {
            Definition::Restarted => self.0.clear(),
            Definition::Serves(kind, versions) => _ = self.0.insert(kind, versions),
            Definition::Gone(kind) => _ = self.0.remove(&kind),
        }
    }
}

/// The kind that a definition of this name defines, if it is read.
pub(super) fn kind(name: &str) -> Option<Kind> {
    let (plural, group) = name.split_once('.')?;
    let mut kinds = Kind::ALL.iter().copied();
    kinds.find(|k| k.plural() == plural && k.group() == group)
}

/// The versions of a kind that its definition serves.
pub(super) fn served(kind: Kind, definition: &Map<String, Value>) -> Vec<&'static str> {
    let list = |part: &str, field: &str| {
        let list = definition.get(part).and_then(|p| p.get(field));
        list.and_then(Value::as_array).into_iter().flatten()
    };
    let is = |item: &Value, field: &str, text: &str| item.get(field).is_some_and(|v| v == text);
    // Some APIs say nothing about it. A kind that is defined but not served yet is tried again soon.
    let refused = list("status", "conditions")
        .any(|c| is(c, "type", "Established") && !is(c, "status", "True"));
    if refused {
        return Vec::new();
    }
    let serves = |version: &&&'static str| {
        list("spec", "versions").any(|v| {
            is(v, "name", version) && v.get("served").is_some_and(|served| *served == true)
        })
    };
    kind.versions().iter().filter(serves).copied().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(established: &str) -> Value {
        json!({
            "spec": {"versions": [
                {"name": "v1beta1", "served": true}, {"name": "v1", "served": true},
                {"name": "v1alpha3", "served": false}, {"name": "v9", "served": true}]},
            "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": established}]},
        })
    }

    #[test]
    fn a_definition_in_force_serves_versions_in_our_order() {
        let of = |d: &Value| served(Kind::VirtualService, d.as_object().unwrap());
        assert_eq!(of(&definition("True")), ["v1", "v1beta1"]);
        assert!(of(&definition("False")).is_empty());
        assert!(of(&json!({})).is_empty());
        let mut silent = definition("True");
        silent["status"] = json!({});
        assert_eq!(of(&silent), ["v1", "v1beta1"]);
        assert_eq!(
            kind("virtualservices.networking.istio.io"),
            Some(Kind::VirtualService)
        );
        assert_eq!(
            kind("gateways.gateway.networking.k8s.io"),
            Some(Kind::KubeGateway)
        );
        assert_eq!(kind("others.example.com"), None);
    }

    #[test]
    fn what_was_read_stays_known() {
        let definitions = Definitions::new(true);
        let mut watch = definitions.watch(Kind::Sidecar);
        assert_eq!(watch.served(), Served::Pending);
        let mut reader = Reader::default();
        reader.take(Definition::Serves(Kind::Sidecar, vec!["v1"]));
        definitions.publish(&reader);
        assert_eq!(watch.served(), Served::In(vec!["v1"]));
        definitions.unreadable();
        reader.take(Definition::Restarted);
        assert_eq!(watch.served(), Served::In(vec!["v1"]), "until all are told");
        reader.take(Definition::Gone(Kind::Sidecar));
        definitions.publish(&reader);
        assert_eq!(watch.served(), Served::Undefined);
    }
}

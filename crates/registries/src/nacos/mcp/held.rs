//! Which servers of MCP are served, and what changes of them, without sockets and clocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::kinds::kube::Ingress;
use model::{Object, ObjectKey};

use super::ask::Listed;
use super::route::Making;
use crate::keeper::Keep;

/// What changes.
#[derive(Debug)]
pub(super) enum Told {
    Put(Arc<Object<Ingress>>),
    Delete(ObjectKey),
}

struct Held {
    object: Arc<Object<Ingress>>,
    /// Since when the list does not have it.
    missing: Option<Duration>,
}

/// The servers that are served.
pub(super) struct Servers {
    making: Making,
    patience: Keep,
    held: BTreeMap<Arc<str>, Held>,
}

impl Servers {
    pub(super) fn new(making: Making, patience: Keep) -> Self {
        Self {
            making,
            patience,
            held: BTreeMap::new(),
        }
    }

    /// How many are served.
    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    /// Takes in a list. One that is refused or off goes at once; one that is not there any more has some time, for a registry that has
    /// lost its data lists nothing; one of which nothing new is known stays.
    pub(super) fn listed(&mut self, listed: &Listed, now: Duration) -> Vec<Told> {
        let mut told = Vec::new();
        for (id, server) in &listed.servers {
            let object = self.making.make(id, server);
            let same = self
                .held
                .get(id)
                .is_some_and(|held| held.object.means_the_same(&object));
            if !same {
                told.push(Told::Put(object.clone()));
            }
            let held = Held {
                object,
                missing: None,
            };
            self.held.insert(id.clone(), held);
        }
        let gone: Vec<Arc<str>> = self
            .held
            .iter_mut()
            .filter_map(|(id, held)| {
                if listed.servers.contains_key(id) || listed.unknown.contains(id) {
                    return None;
                }
                if listed.refused.contains_key(id) || listed.off.contains(id) {
                    return Some(id.clone());
                }
                let since = *held.missing.get_or_insert(now);
                let over = self.patience.end(since).is_some_and(|end| end <= now);
                over.then(|| id.clone())
            })
            .collect();
        for id in gone {
            if let Some(held) = self.held.remove(&id) {
                told.push(Told::Delete(held.object.key()));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use model::{Namespace, Owner};

    use super::super::document::{Server, Transport};
    use super::*;

    fn listed(ids: &[&str]) -> Listed {
        let server = |id: &&str| {
            let server = Server {
                name: (*id).into(),
                transport: Transport::Events,
                group: "g".into(),
                service: "s".into(),
            };
            (Arc::from(*id), server)
        };
        Listed {
            servers: ids.iter().map(server).collect(),
            ..Listed::default()
        }
    }

    fn shown(told: &[Told]) -> Vec<String> {
        let one = |told: &Told| match told {
            Told::Put(object) => format!("+{}", object.key().name.name),
            Told::Delete(key) => format!("-{}", key.name.name),
        };
        told.iter().map(one).collect()
    }

    #[test]
    fn a_server_stays_for_its_time_unless_it_is_off() {
        let making = Making {
            owner: Owner::new(250, "registry"),
            home: Namespace::from("edge"),
            class: "higress".into(),
            kind: "nacos3".into(),
            registry: "n".into(),
            namespace: "public".into(),
            base: "/mcp".into(),
            domains: Vec::new(),
        };
        let seconds = Duration::from_secs;
        let mut servers = Servers::new(making, Keep::For(seconds(60)));
        let all = listed(&["a", "b", "c", "D_d"]);
        let first = servers.listed(&all, seconds(0));
        assert_eq!(
            shown(&first),
            ["+mcp-n-d-d", "+mcp-n-a", "+mcp-n-b", "+mcp-n-c"]
        );
        assert!(servers.listed(&all, seconds(1)).is_empty());
        // Nothing is listed: the registry may have lost its data.
        assert!(servers.listed(&listed(&[]), seconds(10)).is_empty());
        let mut one_off = listed(&["c"]);
        one_off.off.insert("a".into());
        one_off.unknown.insert("D_d".into());
        assert_eq!(shown(&servers.listed(&one_off, seconds(20))), ["-mcp-n-a"]);
        assert_eq!(shown(&servers.listed(&one_off, seconds(70))), ["-mcp-n-b"]);
        assert_eq!(servers.count(), 2);
        let mut refused = listed(&[]);
        refused.refused.insert("c".into(), "speaks HTTP".into());
        refused.unknown.insert("D_d".into());
        assert_eq!(shown(&servers.listed(&refused, seconds(71))), ["-mcp-n-c"]);
    }
}

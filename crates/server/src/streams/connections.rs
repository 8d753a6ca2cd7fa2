//! What is known of each connected stream.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use ads::Selection;
use model::node::Node;
use rustc_hash::FxHashMap;
use xds::{ByType, TypeUrl};

use crate::derive::Revision;
use crate::metrics::Behind;

/// The state of one type on one stream, for debug pages.
#[derive(Clone, Debug)]
pub struct TypeState {
    /// Nonce of the newest response.
    pub sent: u64,
    /// Its version.
    pub version: u64,
    /// The revision it was made from.
    pub revision: u64,
    /// The change that it brought and that was not acknowledged yet; `None` if the proxy asked for it, or the change was before the proxy came.
    pub change: Option<Arc<Revision>>,
    /// When it was sent.
    pub sent_at: SystemTime,
    /// Nonce of the newest response that was acknowledged.
    pub acked: Option<u64>,
    /// When that was.
    pub acked_at: Option<SystemTime>,
    /// What the proxy said when it refused the newest response, its beginning.
    pub refused: Option<Arc<str>>,
    /// The proxy reconnected with current versions of everything it subscribes to, and has been sent nothing since.
    pub holds: bool,
    /// What the proxy asks for.
    pub selection: Option<Selection>,
}

impl Default for TypeState {
    fn default() -> Self {
        Self {
            sent: 0,
            version: 0,
            revision: 0,
            change: None,
            sent_at: SystemTime::UNIX_EPOCH,
            acked: None,
            acked_at: None,
            refused: None,
            holds: false,
            selection: None,
        }
    }
}

impl TypeState {
    /// Whether it is known what the proxy should have: it was sent something, or came back with all.
    pub fn is_known(&self) -> bool {
        self.sent > 0 || self.holds
    }

    /// Whether the proxy has what it should have.
    pub fn is_taken(&self) -> bool {
        self.holds || self.acked == Some(self.sent)
    }
}

/// A connected stream, for debug pages.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Counts the connections of the process; `name.namespace-N` in debug pages.
    pub number: u64,
    /// What the proxy said of itself.
    pub node: Arc<Node>,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Since when.
    pub since: SystemTime,
    /// By type.
    pub types: ByType<Option<TypeState>>,
}

/// Every connected stream.
#[derive(Default)]
pub struct Connections {
    list: Mutex<FxHashMap<u64, Arc<Mutex<Connection>>>>,
    next: AtomicU64,
    extensions: Mutex<Vec<Weak<BTreeSet<Arc<str>>>>>,
}

/// A proxy that has not answered a response for longer counts as silent.
const SILENT: Duration = Duration::from_secs(60);

/// Lists of extensions that are shared: there is one for each build of Envoy.
const BUILDS: usize = 16;

impl Connections {
    /// Has the node share its list of extensions with those of the same build, of which each has the same five hundred.
    pub(super) fn share(&self, node: &mut Node) {
        let Some(own) = &mut node.extensions else {
            return;
        };
        let mut known = self
            .extensions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.retain(|list| list.strong_count() > 0);
        let mut lists = known.iter().filter_map(Weak::upgrade);
        match lists.find(|list| list == own) {
            Some(list) => *own = list,
            None if known.len() < BUILDS => known.push(Arc::downgrade(own)),
            None => {}
        }
    }

    /// A copy of every connection, in the order of connecting.
    pub fn all(&self) -> Vec<Connection> {
        let list: Vec<_> = self
            .list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect();
        let mut all: Vec<Connection> = list
            .iter()
            .map(|c| c.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect();
        all.sort_by_key(|c| c.number);
        all
    }

    /// How many proxies do not have what they were sent last, by type.
    pub fn behind(&self, now: SystemTime) -> ByType<Behind> {
        let list: Vec<_> = {
            let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            list.values().cloned().collect()
        };
        let mut behind: ByType<Behind> = Default::default();
        for connection in list {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            for ty in TypeUrl::ALL {
                let Some(state) = connection.types[ty].as_ref().filter(|t| t.is_known()) else {
                    continue;
                };
                let waits = now.duration_since(state.sent_at).unwrap_or_default();
                if state.refused.is_some() {
                    behind[ty].rejecting += 1;
                } else if !state.is_taken() && waits > SILENT {
                    behind[ty].silent += 1;
                }
            }
        }
        behind
    }

    pub(super) fn add(&self, node: Arc<Node>, peer: SocketAddr) -> Arc<Mutex<Connection>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Arc::new(Mutex::new(Connection {
            number,
            node,
            peer,
            since: SystemTime::now(),
            types: Default::default(),
        }));
        self.list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, connection.clone());
        connection
    }

    pub(super) fn remove(&self, number: u64) {
        self.list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_that_reject_or_are_silent_are_counted_by_type() {
        let connections = Connections::default();
        let now = SystemTime::now();
        for (refused, acked, sent_at) in [
            (Some("no such filter".into()), None, now),
            (None, None, now - 2 * SILENT),
            (None, None, now),
            (None, Some(1), now - 2 * SILENT),
        ] {
            let node = testkit::node(&serde_json::json!({ "id": "sidecar~10.0.0.1~a.b~c" }));
            let connection = connections.add(node, ([127, 0, 0, 1], 1).into());
            connection.lock().unwrap().types[TypeUrl::Listener] = Some(TypeState {
                sent: 1,
                sent_at,
                refused,
                acked,
                ..TypeState::default()
            });
        }
        let behind = connections.behind(now);
        let expected = Behind {
            rejecting: 1,
            silent: 1,
        };
        assert_eq!(behind[TypeUrl::Listener], expected);
        assert_eq!(behind[TypeUrl::Cluster], Behind::default());
    }

    #[test]
    fn proxies_of_one_build_share_their_list_of_extensions() {
        let connections = Connections::default();
        let node = |names: &[&str]| {
            let mut node = Node::clone(&testkit::node(&serde_json::json!({
                "id": "sidecar~10.0.0.1~a.b~c",
            })));
            let names = names.iter().map(|name| Arc::from(*name));
            node.extensions = Some(Arc::new(names.collect()));
            connections.share(&mut node);
            node
        };
        let (one, other, same) = (node(&["a", "b"]), node(&["a"]), node(&["a", "b"]));
        let list = |node: &Node| Arc::as_ptr(node.extensions.as_ref().unwrap());
        assert_eq!(list(&one), list(&same));
        assert_ne!(list(&one), list(&other));
        drop((one, same));
        node(&["c"]);
        assert_eq!(connections.extensions.lock().unwrap().len(), 2);
    }
}

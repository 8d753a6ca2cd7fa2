//! What a server makes of what a source tells it, and whether the API ever said so.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use kube::Client;
use kubeclients::fake::{Id, World};
use kubernetes::source::{ClusterSource, Options};
use model::{Contents, Kind, ObjectKey, ObjectName, Owner};
use source_api::{Delivery, Sink, Source};
use store::{Snapshot, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// As many batches wait in the server.
const ROOM: usize = 64;

/// A source, and the store that it feeds.
pub(super) struct Observer {
    store: Store,
    deliveries: UnboundedReceiver<Delivery>,
    running: JoinHandle<()>,
    /// Which of its states each object was last in.
    states: BTreeMap<Id, usize>,
    synced: Vec<Contents>,
    kinds: Arc<[Kind]>,
    /// Whether there may be objects that the model does not know.
    strangers: bool,
}

impl Observer {
    /// Starts the source.
    pub(super) fn start(client: Client, options: Options) -> Self {
        let owner = Owner::new(1, "kubernetes");
        let kinds = options.kinds.clone();
        let (sink, deliveries) = Sink::channel(owner.clone(), ROOM);
        let running = tokio::spawn(async move {
            let source = ClusterSource::new(owner, client, options);
            let ended = Box::new(source).run(sink, CancellationToken::new()).await;
            // As long as somebody listens, there is something to tell.
            ended.expect("the source does not end");
        });
        Self {
            store: Store::new(Arc::new(testkit::settings(""))),
            deliveries,
            running,
            states: BTreeMap::new(),
            synced: Vec::new(),
            kinds,
            strangers: false,
        }
    }

    /// The API holds objects of its own as well.
    pub(super) fn strangers_are_welcome(&mut self) {
        self.strangers = true;
    }

    /// Applies what the source tells next, and looks whether each object went from a state that it had to one that it had
    /// later.
    pub(super) async fn next<W: Deref<Target = World>>(
        &mut self,
        world: impl FnOnce() -> W,
    ) -> Result<(), String> {
        let delivery = self.deliveries.recv().await.ok_or("the source ended")?;
        for change in delivery.event.changes() {
            if let model::Change::Synced(collection) = change {
                self.synced.push(collection.of);
            }
        }
        let changed = self.store.apply(delivery.event.changes().iter().cloned());
        let snapshot = self.store.snapshot();
        let world = world();
        for key in &changed.objects {
            let known = id(key).filter(|id| world.states(id).is_some());
            let Some(id) = known else {
                match self.strangers {
                    true => continue,
                    false => return Err(format!("{key:?} was never there")),
                }
            };
            self.moved(&id, &snapshot, &world)?;
        }
        Ok(())
    }

    fn moved(&mut self, id: &Id, snapshot: &Snapshot, world: &World) -> Result<(), String> {
        let now = state(id, snapshot);
        let all = world
            .states(id)
            .ok_or_else(|| format!("{id:?} was never there"))?;
        let at = self.states.entry(id.clone()).or_default();
        match all[*at..].iter().position(|state| *state == now) {
            Some(steps) => {
                *at += steps;
                Ok(())
            }
            None => Err(format!(
                "{} {}/{} is {now:?} after {:?}; it was, one after the other, {all:?}",
                id.resource.kind, id.namespace, id.name, all[*at]
            )),
        }
    }

    /// What is not as the API has it now.
    pub(super) fn differences(&self, world: &World) -> Vec<String> {
        let snapshot = self.store.snapshot();
        let mut all = Vec::new();
        for (id, states) in world.ever().filter(|(id, _)| kind(id).is_some()) {
            let (held, holds) = (state(id, &snapshot), states.last().unwrap());
            if held != *holds {
                all.push(format!(
                    "{} {}/{} is {held:?} and not {holds:?}",
                    id.resource.kind, id.namespace, id.name
                ));
            }
        }
        let read = self.kinds.iter().map(|k| Contents::Objects(*k));
        all.extend(
            read.filter(|c| !self.synced.contains(c))
                .map(|c| format!("{c} never came")),
        );
        all
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn kind(id: &Id) -> Option<Kind> {
    let mut all = Kind::ALL.iter().copied();
    all.find(|k| id.resource.is(*k))
}

fn id(key: &ObjectKey) -> Option<Id> {
    let served = kubeclients::fake::RESOURCES.iter();
    let mut served = served.filter(|r| r.is(key.kind));
    let (namespace, name) = (key.name.namespace.to_string(), key.name.name.to_string());
    Some(Id {
        resource: served.next()?,
        namespace,
        name,
    })
}

fn state(id: &Id, snapshot: &Snapshot) -> Option<String> {
    let name = ObjectName::new(id.namespace.as_str(), id.name.as_str());
    let object = snapshot.tables.get_any(kind(id)?, &name)?;
    object.meta().labels.get("state").map(str::to_owned)
}

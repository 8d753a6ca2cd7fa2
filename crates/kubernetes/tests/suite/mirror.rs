//! What a source has told, as the store of the product takes it.

use std::time::{Duration, Instant};

use model::kinds::AnyObject;
use model::{Change, Contents, Diagnostic, Kind, ObjectKey, ObjectName, Owner};
use pilothouse_kubernetes::Client;
use pilothouse_kubernetes::source::{ClusterSource, Options, code};
use source_api::{Delivery, Sink, Source, SourceEvent};
use store::Store;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The patience of every wait: long, because machines of CI are slow, and never waited for where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A source that runs, and what is known from it.
pub(crate) struct Mirror {
    store: Store,
    /// What is wrong, but for kinds that the cluster lacks.
    pub(crate) findings: Vec<Diagnostic>,
    /// What is reported about kinds that the cluster lacks.
    pub(crate) absent: String,
    /// What has not been told whole, of all that the source reports.
    pub(crate) pending: Vec<Contents>,
    /// Everything that was told, in order.
    pub(crate) told: Vec<Change>,
    deliveries: UnboundedReceiver<Delivery>,
    _stop: DropGuard,
}

impl Mirror {
    pub(crate) fn of(client: Client, options: Options) -> Self {
        let owner = Owner::new(100, "kubernetes:test");
        let source = Box::new(ClusterSource::new(owner.clone(), client, options));
        let pending = source.collections();
        let (sink, deliveries) = Sink::channel(owner, 64);
        let stop = CancellationToken::new();
        tokio::spawn(source.run(sink, stop.clone()));
        Self {
            store: Store::new(testkit::settings("").into()),
            findings: Vec::new(),
            absent: String::new(),
            pending,
            told: Vec::new(),
            deliveries,
            _stop: stop.drop_guard(),
        }
    }

    /// Takes in what is told until `done` holds.
    pub(crate) async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done(self) {
            let left = end.saturating_duration_since(Instant::now());
            let next = tokio::time::timeout(left, self.deliveries.recv()).await;
            let pending = &self.pending;
            let next = next.unwrap_or_else(|_| panic!("not in time: {what}; pending {pending:?}"));
            self.take(next.expect("the source goes on").event);
        }
    }

    /// Takes in what has been told already.
    pub(crate) fn take_all(&mut self) {
        while let Ok(delivery) = self.deliveries.try_recv() {
            self.take(delivery.event);
        }
    }

    fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Changes(changes) | SourceEvent::Read { changes, .. } => {
                for change in &changes {
                    match change {
                        Change::Restart(c) if !self.pending.contains(&c.of) => {
                            self.pending.push(c.of)
                        }
                        Change::Synced(c) => self.pending.retain(|of| *of != c.of),
                        _ => {}
                    }
                }
                self.told.extend(changes.iter().cloned());
                self.store.apply(changes);
            }
            SourceEvent::Findings(_, found) => {
                let (absent, others): (Vec<_>, Vec<_>) = found
                    .into_iter()
                    .partition(|found| found.code == code::ABSENT);
                self.absent = absent.iter().map(|found| &*found.message).collect();
                self.findings = others;
            }
            SourceEvent::Waits(_) | SourceEvent::Stands(_) => {}
        }
    }

    pub(crate) async fn synced(&mut self) {
        self.until("in sync", |m| m.pending.is_empty()).await;
    }

    /// An object in force.
    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&AnyObject> {
        let name = ObjectName::new(namespace, name);
        let key = ObjectKey { kind, name };
        self.store.versions(&key).next().map(|(_, object)| object)
    }
}

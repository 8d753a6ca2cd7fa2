//! A cluster as a source: every kind is listed and watched by itself, so that one that is missing, forbidden or slow
//! delays no other.

mod definitions;
mod findings;
mod kind;
mod part;
mod resources;
mod select;
mod share;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use model::parse::Validation;
use model::{Contents, Kind, Owner, Scope};
use source_api::backoff::Backoff;
use source_api::{Running, Sink, Source, SourceError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use definitions::Definitions;
use findings::Findings;
use kind::{Followed, Shared};
use share::Share;

pub use kind::code;
pub use resources::Resources;

/// What is read of a cluster, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kinds that are read.
    pub kinds: Arc<[Kind]>,
    /// What becomes of objects with faults.
    pub validation: Validation,
    /// Configuration that is labelled with another revision is of another control plane. Empty takes everything.
    pub revision: Arc<str>,
    /// The namespaces that are read; empty for all.
    pub namespaces: Arc<[Arc<str>]>,
    /// Whether this is the first time that the cluster is read: what may not be read then is taken for empty.
    pub first: bool,
    /// How fast it goes on after failures.
    pub pace: Pace,
}

/// How long an API is waited for, and left alone.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long the API is left alone after it failed.
    pub backoff: Backoff,
    /// How long an API may take to send anything of a list that it is asked to stream. One that does not know what that is
    /// would never say that the list is complete.
    pub stream_patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                first: Duration::from_millis(250),
                longest: Duration::from_secs(30),
            },
            stream_patience: Duration::from_secs(5),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kinds: Kind::ALL.into(),
            validation: Validation::Warn,
            revision: "".into(),
            namespaces: Arc::default(),
            first: true,
            pace: Pace::default(),
        }
    }
}

/// The objects of a cluster.
pub struct ClusterSource {
    owner: Owner,
    client: Client,
    options: Options,
}

impl ClusterSource {
    /// The source of the objects that `client` can read, under an owner: the configured cluster or a remote one.
    pub fn new(owner: impl Into<Owner>, client: Client, options: Options) -> Self {
        Self {
            owner: owner.into(),
            client,
            options,
        }
    }

    async fn tell(self, sink: Sink, stop: CancellationToken) -> Result<(), SourceError> {
        let shared = Shared {
            findings: Findings::new(self.owner.source.clone(), sink.clone()),
            definitions: Definitions::new(
                self.options.kinds.contains(&Kind::CustomResourceDefinition),
            ),
            owner: self.owner,
            client: self.client,
            sink,
            options: self.options,
        };
        let mut watches = JoinSet::new();
        for kind in &*shared.options.kinds {
            let namespaces: &[Arc<str>] = match kind.scope() {
                Scope::Namespaced => &shared.options.namespaces,
                Scope::Cluster => &[],
            };
            match namespaces {
                [] => _ = watches.spawn(Followed::new(*kind, None, None, &shared).run()),
                [one] => {
                    _ = watches.spawn(Followed::new(*kind, Some(one.clone()), None, &shared).run())
                }
                several => {
                    for (share, namespace) in Share::of(*kind, several.len()).zip(several) {
                        let namespace = Some(namespace.clone());
                        let followed = Followed::new(*kind, namespace, Some(share), &shared);
                        watches.spawn(followed.run());
                    }
                }
            }
        }
        // Dropping the set ends them all.
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = watches.join_next() => match ended {
                Some(Ok(Err(error))) => Err(error),
                Some(Err(error)) => Err(SourceError::new(error)),
                Some(Ok(Ok(()))) | None => Ok(()),
            }
        }
    }
}

impl Source for ClusterSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        let kinds = self.options.kinds.iter();
        kinds.map(|kind| Contents::Objects(*kind)).collect()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(self.tell(out, stop))
    }
}

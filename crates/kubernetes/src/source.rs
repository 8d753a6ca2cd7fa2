//! A cluster as a source: every kind is listed and watched by itself, so that one that is missing, forbidden or slow
//! delays no other.

mod findings;
mod kind;
mod part;

use std::sync::Arc;

use kube::Client;
use model::parse::Validation;
use model::{Contents, Kind, Owner};
use sources::{Running, Sink, Source, SourceError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use findings::Findings;
use kind::Followed;

pub use kind::code;

/// What is read of a cluster, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kinds that are read.
    pub kinds: Arc<[Kind]>,
    /// What becomes of objects with faults.
    pub validation: Validation,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kinds: Kind::ALL.into(),
            validation: Validation::Warn,
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
        let findings = Findings::new(self.owner.source.clone(), sink.clone());
        let mut kinds = JoinSet::new();
        for kind in &*self.options.kinds {
            let followed = Followed::new(
                *kind,
                self.owner.clone(),
                self.client.clone(),
                self.options.clone(),
                sink.clone(),
                findings.clone(),
            );
            kinds.spawn(followed.run());
        }
        // Dropping the set ends them all.
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = kinds.join_next() => match ended {
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

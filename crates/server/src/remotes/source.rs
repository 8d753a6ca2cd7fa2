//! A remote cluster as a source.

use std::sync::Arc;

use kube::config::Kubeconfig;
use kubernetes::source::{ClusterSource, Options};
use model::names::ClusterId;
use model::{Change, Collection, Contents, Kind, Owner, SourceId};
use source_api::{Running, Sink, Source, SourceError, SourceEvent};
use tokio_util::sync::CancellationToken;

use crate::supervisor::Make;

/// Whose objects those of a remote cluster are. The configured cluster wins over it, whatever they are called.
pub fn owner(rank: u8, cluster: &ClusterId) -> Owner {
    Owner {
        source: SourceId {
            rank: rank.saturating_add(1),
            name: format!("kubernetes:{cluster}").into(),
        },
        cluster: Some(cluster.clone()),
    }
}

/// A remote cluster and how it is reached. It is connected to when it is run.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) owner: Owner,
    pub(super) cluster: ClusterId,
    pub(super) kubeconfig: Arc<Kubeconfig>,
    pub(super) options: Options,
    /// The kinds that nobody wants read of this cluster: it has none of them.
    pub(super) withheld: Arc<[Kind]>,
}

impl Remote {
    /// Makes a source for each run.
    pub(super) fn make(self) -> Make {
        Box::new(move |first| {
            let mut remote = self.clone();
            remote.options.first = first;
            Box::new(remote)
        })
    }

    pub(super) async fn connect(&self) -> Result<kubernetes::Client, SourceError> {
        let connecting = kubernetes::client::connect(Kubeconfig::clone(&self.kubeconfig));
        connecting.await.map_err(SourceError::new)
    }

    async fn tell(self, out: Sink, stop: CancellationToken) -> Result<(), SourceError> {
        // What a former source of the cluster has read of them goes.
        let none = self.withheld.iter().map(|kind| {
            Change::Synced(Collection {
                owner: self.owner.clone(),
                of: Contents::Objects(*kind),
            })
        });
        if out
            .send(SourceEvent::Changes(none.collect()))
            .await
            .is_err()
        {
            return Ok(());
        }
        let client = self.connect().await?;
        let source = ClusterSource::new(self.owner, client, self.options);
        Box::new(source).run(out, stop).await
    }
}

impl Source for Remote {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        let kinds = self.options.kinds.iter().chain(&*self.withheld);
        kinds.map(|kind| Contents::Objects(*kind)).collect()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(self.tell(out, stop))
    }
}

//! The APIs of all clusters, for what is asked and written one object at a time.
//!
//! Clients of remote clusters come and go with their credentials: those that their objects are read with.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::config::Kubeconfig;
use kubernetes::Client;
use model::names::ClusterId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use writeback::{ClusterPlace, Limits, Place};

use crate::remotes::Settled;

/// The API of a cluster.
#[derive(Clone)]
pub struct Api {
    /// What asks it; `None` for our own store.
    pub client: Option<Client>,
    /// Where objects are written.
    pub place: Arc<dyn Place>,
}

/// Each that there is.
pub type All = Arc<BTreeMap<ClusterId, Api>>;

/// The APIs of all clusters. Clones share them.
#[derive(Clone)]
pub struct Apis {
    configured: ClusterId,
    told: watch::Sender<All>,
}

impl Apis {
    /// None yet; the id is that of the configured cluster.
    pub fn new(configured: ClusterId) -> Self {
        Self {
            configured,
            told: watch::Sender::default(),
        }
    }

    /// The cluster that configures the mesh.
    pub fn configured(&self) -> &ClusterId {
        &self.configured
    }

    /// The API of a cluster; `None` where it has none, or nobody knows the cluster.
    pub fn of(&self, cluster: &ClusterId) -> Option<Api> {
        self.told.borrow().get(cluster).cloned()
    }

    /// All of them, whenever there are others.
    pub fn told(&self) -> watch::Receiver<All> {
        self.told.subscribe()
    }

    /// Keeps up with the remote clusters that there are, until `stop`.
    pub async fn follow(
        self,
        own: Option<Api>,
        mut remotes: watch::Receiver<Settled>,
        stop: CancellationToken,
    ) {
        let mut known: BTreeMap<ClusterId, (Arc<Kubeconfig>, Api)> = BTreeMap::new();
        loop {
            let kubeconfigs = remotes.borrow_and_update().kubeconfigs.clone();
            let mut next = BTreeMap::new();
            for (cluster, kubeconfig) in &*kubeconfigs {
                let same = known.get(cluster);
                let same = same.filter(|(used, _)| Arc::ptr_eq(used, kubeconfig));
                let api = match same {
                    Some((_, api)) => Some(api.clone()),
                    None => connect(cluster, kubeconfig).await,
                };
                if let Some(api) = api {
                    next.insert(cluster.clone(), (kubeconfig.clone(), api));
                }
            }
            known = next;
            let own = own.iter().map(|api| (&self.configured, api));
            let remote = known.iter().map(|(cluster, (_, api))| (cluster, api));
            let all = remote.chain(own);
            let all = all.map(|(cluster, api)| (cluster.clone(), api.clone()));
            self.told.send_replace(Arc::new(all.collect()));
            // What is told anew may be the same clusters.
            let other = |settled: &Settled| !Arc::ptr_eq(&settled.kubeconfigs, &kubeconfigs);
            tokio::select! {
                changed = remotes.wait_for(other) => if changed.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }
}

async fn connect(cluster: &ClusterId, kubeconfig: &Kubeconfig) -> Option<Api> {
    match kubernetes::client::connect_to_write(kubeconfig.clone()).await {
        Ok(client) => {
            let name = format!("the API of cluster {cluster}");
            let place = ClusterPlace::new(name, client.clone(), Limits::default());
            Some(Api {
                client: Some(client),
                place: Arc::new(place),
            })
        }
        Err(error) => {
            tracing::error!(%cluster, %error, "A remote cluster can be neither asked nor written to.");
            None
        }
    }
}

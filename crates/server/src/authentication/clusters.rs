//! Who judges the tokens of each cluster: its API server; and before that of our own cluster, our own store.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use identity::{Bounded, Clusters, ReviewError, ReviewLimits, Reviewed, Reviewer, review_of};
use model::names::ClusterId;
use tokio::runtime::Handle;
use writeback::{ObjectRef, Place};

use crate::apis::Apis;

/// The judges of all clusters.
pub(super) struct Judges {
    configured: ClusterId,
    /// The clusters that other names stand for.
    aliases: BTreeMap<String, ClusterId>,
    apis: Apis,
    store: Option<Arc<apiserver::api::Api>>,
    /// Where API servers are asked.
    runtime: Handle,
    asked: Mutex<BTreeMap<ClusterId, Asked>>,
}

/// An API server that was asked, with the place it was asked at, which changes with its credentials.
type Asked = (Arc<dyn Place>, Arc<Bounded>);

impl Judges {
    /// The judges of the clusters that there are, which are asked on the runtime of the caller.
    pub(super) fn new(
        apis: &Apis,
        aliases: &[(String, String)],
        store: Option<Arc<apiserver::api::Api>>,
    ) -> Self {
        let aliases = aliases.iter();
        let aliases = aliases.map(|(alias, cluster)| (alias.clone(), cluster.as_str().into()));
        Self {
            configured: apis.configured().clone(),
            aliases: aliases.collect(),
            apis: apis.clone(),
            store,
            runtime: Handle::current(),
            asked: Mutex::default(),
        }
    }

    /// The API server of a cluster, which is asked as little as possible.
    fn of(&self, cluster: &ClusterId) -> Option<Arc<Bounded>> {
        let api = self.apis.of(cluster);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // Our own store needs no asking.
        let Some(api) = api.filter(|api| api.client.is_some()) else {
            asked.remove(cluster);
            return None;
        };
        let known = asked.get(cluster);
        if let Some((_, judge)) = known.filter(|(place, _)| Arc::ptr_eq(place, &api.place)) {
            return Some(judge.clone());
        }
        let server = Arc::new(ApiServer(api.place.clone()));
        let judge = Bounded::new(server, ReviewLimits::default(), self.runtime.clone());
        let judge = Arc::new(judge);
        asked.insert(cluster.clone(), (api.place, judge.clone()));
        Some(judge)
    }

    /// Whoever judges tokens of the cluster that configures the mesh.
    fn own(&self) -> Option<Arc<dyn Reviewer>> {
        let cluster = self.of(&self.configured);
        match (&self.store, cluster) {
            (Some(store), Some(cluster)) => Some(Arc::new(Both(store.clone(), cluster))),
            (Some(store), None) => Some(store.clone()),
            (None, Some(cluster)) => Some(cluster),
            (None, None) => None,
        }
    }
}

impl Clusters for Judges {
    // Istio: security/pkg/server/ca/authenticate/kubeauth/kube_jwt.go getKubeClient, 1.32.
    fn reviewer(&self, cluster: &str) -> Option<Arc<dyn Reviewer>> {
        let meant = self.aliases.get(cluster);
        let is_own = |name: &str| name == self.configured.as_str();
        if cluster.is_empty() || is_own(cluster) || meant.is_some_and(|m| is_own(m)) {
            return self.own();
        }
        let named = self.of(&cluster.into()).or_else(|| self.of(meant?));
        named.map(|judge| judge as Arc<dyn Reviewer>)
    }
}

/// Our own store, and the API server of the cluster for what is none of its tokens.
struct Both(Arc<apiserver::api::Api>, Arc<Bounded>);

impl Reviewer for Both {
    fn review<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        from: IpAddr,
    ) -> BoxFuture<'a, Result<Reviewed, ReviewError>> {
        Box::pin(async move {
            match self.0.review(token, audiences, from).await {
                Ok(reviewed) => Ok(reviewed),
                Err(_) => self.1.review(token, audiences, from).await,
            }
        })
    }
}

/// An API server that is asked with TokenReviews.
struct ApiServer(Arc<dyn Place>);

impl Reviewer for ApiServer {
    fn review<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        _: IpAddr,
    ) -> BoxFuture<'a, Result<Reviewed, ReviewError>> {
        Box::pin(async move {
            // It is not stored, so that its name means nothing.
            let question = ObjectRef {
                group: "authentication.k8s.io".into(),
                version: "v1".into(),
                kind: "TokenReview".into(),
                plural: "tokenreviews".into(),
                namespace: "".into(),
                name: "pilothouse".into(),
            };
            let answer = self.0.create(&question, review_of(token, audiences)).await;
            // Whatever it says instead of an answer is not of the token.
            let answer = answer.map_err(|e| ReviewError::Unavailable(e.to_string().into()))?;
            Reviewed::read(&answer)
        })
    }
}

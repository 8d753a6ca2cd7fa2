//! The servers of MCP of a Nacos as a source.

use std::sync::Arc;

use model::{AnyObject, Change, Collection, Contents, Kind, Owner};
use source_api::{Running, Sink, Source, SourceEvent};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::held::{Servers, Told};
use super::{McpHealth, McpState, Reading, ask};
use crate::nacos::LEAST_REFRESH;

/// The servers of MCP of a Nacos.
pub struct McpSource {
    /// What is read.
    pub reading: Reading,
    /// Where it is shown how that is.
    pub state: McpState,
}

impl Source for McpSource {
    fn owner(&self) -> &Owner {
        &self.reading.making.owner
    }

    fn collections(&self) -> Vec<Contents> {
        vec![Contents::Objects(Kind::Ingress)]
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            tokio::select! {
                ended = self.read(&out) => ended.map_err(Into::into),
                () = stop.cancelled() => Ok(()),
            }
        })
    }
}

impl McpSource {
    async fn read(&self, out: &Sink) -> Result<(), source_api::Closed> {
        let owner = &self.reading.making.owner;
        let mut servers = Servers::new(self.reading.making.clone(), self.reading.patience);
        let (start, mut was_whole) = (Instant::now(), false);
        let mut health = McpHealth::default();
        loop {
            match ask::list(&self.reading).await {
                Ok(listed) => {
                    let told = servers.listed(&listed, start.elapsed());
                    for (id, why) in &listed.refused {
                        if health.refused.get(id) != Some(why) {
                            tracing::warn!(registry = %owner, id = &**id, why = &**why, "A server of MCP is not served.");
                        }
                    }
                    let changes = told.into_iter().map(|told| match told {
                        Told::Put(object) => Change::Put(owner.clone(), AnyObject::Ingress(object)),
                        Told::Delete(key) => Change::Delete(owner.clone(), key),
                    });
                    let whole = (!was_whole).then(|| {
                        Change::Synced(Collection {
                            owner: owner.clone(),
                            of: Contents::Objects(Kind::Ingress),
                        })
                    });
                    let changes: Vec<Change> = changes.chain(whole).collect();
                    was_whole = true;
                    if !changes.is_empty() {
                        out.send(SourceEvent::Changes(changes)).await?;
                    }
                    health = McpHealth {
                        served: servers.count(),
                        refused: listed.refused,
                        error: None,
                    };
                }
                // What was read stays.
                Err(why) => {
                    if health.error.as_deref() != Some(&*why) {
                        tracing::warn!(registry = %owner, why, "The servers of MCP of a registry cannot be read.");
                    }
                    health.error = Some(Arc::from(why));
                }
            }
            self.state.set(health.clone());
            sleep(self.reading.nacos.refresh.max(LEAST_REFRESH)).await;
        }
    }
}

//! Whether the connected proxies answer challenges: those whose routes have the answer must have acknowledged them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use acme::Gateways;
use futures::future::BoxFuture;
use memchr::memmem;
use model::challenges::{Answer, PATH};
use model::node::{Node, Role};
use tokio::time::Instant;
use xds::{Resource, TypeUrl};

use super::Seen;
use crate::derive::Derive;
use crate::streams::Connections;

/// How long proxies have until it goes on without them, if there are any.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a host may be served by nobody until it does not go on.
const UNSERVED: Duration = Duration::from_secs(5);
/// How long after it came a proxy is taken to have what it was not sent.
const SETTLED: Duration = Duration::from_secs(2);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);
/// How long proxies of other replicas have, which hear of it from the API as we do.
const OTHERS: Duration = Duration::from_secs(3);

/// The proxies that are connected to this server.
pub(super) struct Proxies {
    pub(super) derive: Derive,
    pub(super) connections: Arc<Connections>,
    pub(super) seen: Arc<Seen>,
    /// Whether other replicas serve proxies, too.
    pub(super) shared: bool,
}

/// How far proxies are with an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Progress {
    /// Proxies that are to give it.
    serve: usize,
    /// Those of them that do not yet.
    lag: usize,
}

/// Which of the texts each resource has, by its version: it is looked through once.
type Known = BTreeMap<u64, Vec<bool>>;

/// A proxy with its routes.
type Routes = (Arc<Node>, Vec<Arc<Resource>>);

impl Gateways for Proxies {
    fn ready<'a>(&'a self, answers: &'a [Answer]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.wait(answers))
    }
}

impl Proxies {
    async fn wait(&self, answers: &[Answer]) -> Result<(), String> {
        let start = Instant::now();
        let mut known = Known::new();
        loop {
            let progress = self.look(answers, &mut known).await?;
            let unserved = progress.iter().position(|p| p.serve == 0);
            let lag: usize = progress.iter().map(|p| p.lag).sum();
            let waited = start.elapsed();
            match unserved {
                None if lag == 0 => break,
                None if waited >= PATIENCE => {
                    tracing::warn!(
                        proxies = lag,
                        "Some proxies have not taken the answers to challenges; it goes on without them."
                    );
                    break;
                }
                Some(_) if self.shared && waited >= UNSERVED => break,
                Some(at) if waited >= UNSERVED => {
                    let host = answers.get(at).map_or("", |answer| &*answer.host);
                    return Err(format!(
                        "no connected gateway serves {host} on a port for plain text, where the directory would ask"
                    ));
                }
                _ => tokio::time::sleep(LOOK).await,
            }
        }
        if self.shared {
            tokio::time::sleep(OTHERS).await;
        }
        Ok(())
    }

    /// How far proxies are with each answer.
    async fn look(&self, answers: &[Answer], known: &mut Known) -> Result<Vec<Progress>, String> {
        let routes = self.derive.ask(|state| {
            let gateways = state.proxies().filter(|p| p.node.role == Role::Router);
            let routes = gateways.map(|proxy| {
                let set = proxy.published.get(TypeUrl::Route);
                let all = set.into_iter().flat_map(|set| set.iter()).cloned();
                (proxy.node.clone(), all.collect())
            });
            routes.collect::<Vec<Routes>>()
        });
        let routes = routes.await.map_err(|closed| closed.to_string())?;
        let tokens: Vec<String> = answers
            .iter()
            .map(|a| format!("{PATH}{}", a.token))
            .collect();
        let mut so_far = std::mem::take(known);
        let looking = tokio::task::spawn_blocking(move || {
            let holding = holders(&routes, &tokens, &mut so_far);
            (holding, so_far)
        });
        let (holding, so_far) = looking.await.map_err(|error| error.to_string())?;
        *known = so_far;
        let mut acknowledged: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for connection in self.connections.all() {
            let Some(state) = &connection.types[TypeUrl::Route] else {
                continue;
            };
            // One that has come back, and had all there is: it was sent nothing.
            let settled = state.sent == 0 && state.selection.is_some();
            let came = connection.since.elapsed().unwrap_or_default();
            if settled && came >= SETTLED {
                acknowledged.insert(connection.node.id.clone(), u64::MAX);
            } else if state.is_taken() {
                let newest = acknowledged.entry(connection.node.id.clone()).or_default();
                *newest = state.revision.max(*newest);
            }
        }
        let progress = answers.iter().zip(holding).map(|(answer, nodes)| {
            let since = self.seen.since(&answer.token);
            let has = |node: &Arc<Node>| {
                let revision = acknowledged.get(&node.id);
                revision.zip(since).is_some_and(|(at, since)| *at >= since)
            };
            Progress {
                serve: nodes.len(),
                lag: nodes.iter().filter(|node| !has(node)).count(),
            }
        });
        Ok(progress.collect())
    }
}

/// The proxies whose routes have each text.
fn holders(routes: &[Routes], texts: &[String], known: &mut Known) -> Vec<Vec<Arc<Node>>> {
    let mut holders = vec![Vec::new(); texts.len()];
    for (node, all) in routes {
        let mut has = vec![false; texts.len()];
        for resource in all {
            let found = known.entry(resource.version).or_insert_with(|| {
                let held = texts
                    .iter()
                    .map(|t| memmem::find(&resource.body, t.as_bytes()).is_some());
                held.collect()
            });
            has.iter_mut()
                .zip(found)
                .for_each(|(has, found)| *has |= *found);
        }
        for (holders, has) in holders.iter_mut().zip(has) {
            if has {
                holders.push(node.clone());
            }
        }
    }
    holders
}

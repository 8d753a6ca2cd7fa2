//! Whether the connected proxies answer challenges: those whose routes have the answer must have acknowledged them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use acme::Gateways;
use futures::future::BoxFuture;
use mesh::challenges::{Answer, PATH};
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
const LOOK: Duration = Duration::from_millis(50);
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
        loop {
            let progress = self.look(answers).await?;
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
    async fn look(&self, answers: &[Answer]) -> Result<Vec<Progress>, String> {
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
        let holding = tokio::task::spawn_blocking(move || holders(&routes, &tokens)).await;
        let holding = holding.map_err(|error| error.to_string())?;
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
            } else if state.acked == Some(state.sent) {
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

/// The proxies whose routes have each text. Routes that proxies share are looked through once.
fn holders(routes: &[Routes], texts: &[String]) -> Vec<Vec<Arc<Node>>> {
    let mut known: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
    let mut holders = vec![Vec::new(); texts.len()];
    for (node, all) in routes {
        let mut has = vec![false; texts.len()];
        for resource in all {
            let found = known.entry(resource.version).or_insert_with(|| {
                let held = texts.iter().map(|t| contains(&resource.body, t.as_bytes()));
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

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some(first) = text.first() else {
        return true;
    };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(text) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        assert!(contains(b"//.well-known/x", b"/.well-known/x"));
        assert!(!contains(b"/.well-known/y", b"/.well-known/x"));
        assert!(!contains(b"", b"/"));
    }
}

//! Consul: the services of a catalog and their instances, by blocking queries.
//!
//! A query is answered when what it asks for has changed. Each service is asked for by a query of its own, as far as a Consul
//! allows a client so many: over TLS it speaks HTTP/2, and hundreds share a connection. In the clear each takes a connection,
//! of which there are 200. Where there are more services, those that changed last have a query each, and another waits for
//! the summary of all: the services whose line is another are asked for. A line does not show everything, as a port, so all are
//! asked for once changes are over, at most every [`SWEEP`], and every [`BUSY_SWEEP`] if they are not.
// Consul: api documentation, "Blocking Queries" and "Consistency Modes", 1.15. Higress: registry/consul/watcher.go, 2.1.

pub mod decode;
#[cfg(test)]
mod scale;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderName;
use tokio_util::sync::CancellationToken;

use crate::http::{Answer, Client, HttpError, Server, escape, secret};
use crate::report::{self, Instance, Reading, Registry, RegistryError, Reports};
use decode::Garbled;
use model::redacted::Redacted;

/// Most services that are asked for by a query each that takes a connection; a Consul allows 200 of one client.
pub const SINGLE: usize = 150;
/// Where there are more, so many that changed last have one.
const HOT: usize = 120;
/// How often all services are asked for at most.
pub const SWEEP: Duration = Duration::from_secs(30);
/// The same while others keep changing, as each takes a Consul seconds.
pub const BUSY_SWEEP: Duration = Duration::from_secs(300);
/// How long a query waits for a change. A Consul adds up to a sixteenth. A connection that was lost without a word is noticed
/// by then and [`ANSWER`].
const WAIT: Duration = Duration::from_secs(20);
/// So long where many share a connection: every end is an answer with all instances, for each of thousands of services.
/// It is the most that a Consul lets anybody wait.
const LONG_WAIT: Duration = Duration::from_secs(600);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(15);
/// The largest answer that is read.
const LARGEST: usize = 64 << 20;

/// How a Consul is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is.
    pub server: Server,
    /// The tag that services must have; empty is any.
    pub tag: Arc<str>,
    /// The datacenter; empty is that of the server.
    pub datacenter: Arc<str>,
    /// The namespace; empty is the default one, the only one where there is no Enterprise.
    pub namespace: Arc<str>,
    /// The token, where one is needed.
    pub token: Option<Redacted>,
}

/// Reads a Consul.
#[derive(Clone)]
pub struct Consul {
    client: Client,
    tag: Arc<str>,
    datacenter: Arc<str>,
    namespace: Arc<str>,
    /// Whether a long wait was cut off, so that waits are short from then on.
    was_cut: Arc<AtomicBool>,
}

/// Why a query gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{0}: {1}")]
    Garbled(&'static str, Garbled),
}

impl From<QueryError> for RegistryError {
    fn from(error: QueryError) -> Self {
        Self(error.to_string().into())
    }
}

impl Consul {
    /// A reader.
    pub fn new(options: &Options) -> Self {
        let token = options.token.as_ref();
        let name = HeaderName::from_static("x-consul-token");
        let token = token.and_then(|token| secret(name, token.reveal()));
        Self {
            client: Client::new(options.server.clone(), token.into_iter().collect()),
            tag: options.tag.clone(),
            datacenter: options.datacenter.clone(),
            namespace: options.namespace.clone(),
            was_cut: Arc::default(),
        }
    }

    /// What the hosts of services end in.
    async fn datacenter(&self) -> Result<Arc<str>, QueryError> {
        if !self.datacenter.is_empty() {
            return Ok(self.datacenter.clone());
        }
        let answer = self.client.get("/v1/catalog/datacenters", ANSWER, LARGEST);
        let found = decode::datacenter(&answer.await?.body);
        let found = found.map_err(|error| QueryError::Garbled("datacenters", error))?;
        Ok(found.unwrap_or_else(|| "dc1".into()))
    }

    /// Asks for a path; where an index is known, once something is newer, or at the end of `wait`. Returns the index of the answer.
    async fn query(
        &self,
        path: &str,
        index: u64,
        wait: Duration,
    ) -> Result<(u64, Answer), QueryError> {
        let mut path = format!("{path}?");
        let mut add = |key: &str, value: &str| {
            if !value.is_empty() {
                path.push_str(&format!("{key}={}&", escape(value)));
            }
        };
        add("dc", &self.datacenter);
        add("ns", &self.namespace);
        let mut time = ANSWER;
        if index > 0 {
            add("index", &index.to_string());
            add("wait", &format!("{}s", wait.as_secs()));
            time += wait + wait / 16;
        }
        if index == 0 {
            // Or a server that has just started tells of a past that it is still reading from its log.
            path.push_str("consistent");
        }
        let path = path.trim_end_matches('&');
        let answer = self.client.get(path, time, LARGEST).await?;
        let new = answer.headers.get("x-consul-index");
        let new = new.and_then(|value| value.to_str().ok()?.parse().ok());
        // One that goes back is of another history: it is not waited for.
        let new = new.filter(|new| *new >= index).unwrap_or(0);
        Ok((new, answer))
    }

    /// Asks for a service. None where it is as it was at the index `known`.
    async fn service(
        &self,
        name: &str,
        index: u64,
        known: u64,
    ) -> Result<(u64, Option<Vec<Instance>>), QueryError> {
        let path = format!("/v1/health/service/{}", escape(name));
        let is_long = self.client.shares_connections() && !self.was_cut.load(Ordering::Relaxed);
        let wait = if is_long { LONG_WAIT } else { WAIT };
        let (index, answer) = self.query(&path, index, wait).await?;
        if index > 0 && index == known {
            return Ok((index, None));
        }
        let instances = decode::instances(&answer.body, &self.tag);
        let instances = instances.map_err(|error| QueryError::Garbled("instances", error))?;
        Ok((index, Some(instances)))
    }

    /// From now on waits are short. Returns whether any may have been long.
    fn waits_shorter(&self) -> bool {
        self.was_cut.store(true, Ordering::Relaxed);
        self.client.shares_connections()
    }
}

impl Registry for Consul {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        report::until(stop, watch::run(*self, to))
    }
}

/// The host of a service.
fn host(name: &str, datacenter: &str) -> Arc<str> {
    format!("{name}.{datacenter}.consul")
        .replace('_', "-")
        .into()
}

#[cfg(test)]
mod tests;

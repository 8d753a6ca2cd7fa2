//! Eureka: all applications once, then what changed since, from time to time; all again where the sum does not match.
// Eureka: eureka-client DiscoveryClient, eureka-core ApplicationsResource, 2.x. Higress: registry/eureka/watcher.go, 2.1.

pub mod decode;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use source_api::backoff::Backoff;
use tokio_util::sync::CancellationToken;

use crate::http::{Client, HttpError, Server, basic};
use crate::report::{self, Reading, Registry, RegistryError, Report, Reports, ServiceName};
use decode::{Applications, Applied, Garbled};
use model::redacted::Redacted;

/// How often a Eureka is asked where nothing else is said.
pub const REFRESH: Duration = Duration::from_secs(30);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const LARGEST: usize = 64 << 20;

/// How a Eureka is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is.
    pub server: Server,
    /// The path of its API.
    pub path: Arc<str>,
    /// How often it is asked.
    pub refresh: Duration,
    /// A user and a password, as basic authentication encodes them.
    pub basic: Option<Redacted>,
}

/// Reads a Eureka.
pub struct Eureka {
    client: Client,
    path: Arc<str>,
    refresh: Duration,
}

#[derive(Debug, thiserror::Error)]
enum QueryError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the answer makes no sense: {0}")]
    Garbled(#[from] Garbled),
}

impl From<QueryError> for RegistryError {
    fn from(error: QueryError) -> Self {
        Self(error.to_string().into())
    }
}

impl Eureka {
    /// A reader.
    pub fn new(options: &Options) -> Self {
        let user = options
            .basic
            .as_ref()
            .and_then(|encoded| basic(encoded.reveal()));
        Self {
            client: Client::new(options.server.clone(), user.into_iter().collect()),
            path: options.path.trim_end_matches('/').into(),
            refresh: options.refresh,
        }
    }

    async fn all(&self) -> Result<Applications, QueryError> {
        let path = format!("{}/apps", self.path);
        let answer = self.client.get(&path, ANSWER, LARGEST).await?;
        Ok(Applications::read(&answer.body)?)
    }

    async fn changes(&self) -> Result<decode::Delta, QueryError> {
        let path = format!("{}/apps/delta", self.path);
        let answer = self.client.get(&path, ANSWER, LARGEST).await?;
        Ok(decode::Delta::read(&answer.body)?)
    }

    async fn run(&self, to: &Reports) -> Result<(), RegistryError> {
        // With what is added by chance never longer than stated.
        let most = self.refresh.mul_f64(0.8);
        let every = Backoff {
            first: most,
            longest: most,
        };
        let mut known = self.all().await?;
        let names: Vec<Arc<str>> = known.names().cloned().collect();
        tell(&known, names, to).await?;
        loop {
            // Each server of ours at a time of its own.
            tokio::time::sleep(every.wait(&self.path, 0)).await;
            let Applied {
                mut changed,
                is_all,
            } = match self.changes().await {
                Ok(delta) => known.apply(delta),
                // A server need not give differences.
                Err(QueryError::Http(HttpError::Status(_, status, _)))
                    if status.is_client_error() =>
                {
                    Applied::default()
                }
                Err(error) => return Err(error.into()),
            };
            if !is_all {
                let new = self.all().await?;
                // What the changes made the same is other than what was told.
                changed.extend(known.differing(&new));
                known = new;
            }
            tell(&known, changed, to).await?;
        }
    }
}

/// Reports these applications, and which ones there are.
async fn tell(
    known: &Applications,
    changed: Vec<Arc<str>>,
    to: &Reports,
) -> Result<(), RegistryError> {
    let closed = |_| RegistryError("nobody listens".into());
    for name in changed {
        if let Some(instances) = known.instances(&name) {
            let report = Report::Service(host(&name), instances);
            to.send(report).await.map_err(closed)?;
        }
    }
    let now: BTreeSet<ServiceName> = known.names().map(|name| host(name)).collect();
    // Without any change it still says that the server is there.
    to.send(Report::Whole(now)).await.map_err(closed)
}

/// The host of an application.
fn host(name: &str) -> ServiceName {
    format!("{}.eureka", name.to_uppercase()).into()
}

impl Registry for Eureka {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        report::until(stop, async move { self.run(&to).await })
    }
}

#[cfg(test)]
mod tests;

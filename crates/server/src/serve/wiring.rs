//! Which sources there are, as the options say.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver::source::ApiSource;
use kubernetes::source::ClusterSource;
use model::parse::Validation;
use model::{Kind, Owner};
use sources::files::{self, Absent, FilesSource};
use sources::folder::Folder;
use sources::jwks::{self, KeysSource};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{ServeOptions, ValidationMode};
use crate::derive::{Closed, Derive, State};
use crate::metrics::Metrics;
use crate::shadows::Shadows;
use crate::supervisor::Supervisor;

/// Precedence of folders: the first folder wins over the second.
const FOLDER_RANK: u8 = 10;

/// Precedence of a cluster: folders win over it, and it wins over the store of the API.
pub(super) const CLUSTER_RANK: u8 = 100;

/// How long the start waits for keys of token issuers. A rule gives an answer 5 s where it does not say.
const KEYS_AT_START: Duration = Duration::from_secs(5);

/// Keys are not fetched more often than this.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// What sources are made with.
pub(super) struct Wiring<'a> {
    pub(super) options: &'a ServeOptions,
    pub(super) derive: &'a Derive,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) shadows: &'a Arc<Shadows>,
    pub(super) stop: &'a CancellationToken,
    /// Where it is shown that the store of the API cannot be written.
    pub(super) fault: &'a OnceLock<watch::Receiver<Option<Arc<str>>>>,
    /// The client of the cluster that objects are read from.
    pub(super) cluster: Option<kubernetes::Client>,
    /// Whether proxies are served from disk until the sources have been read.
    pub(super) warm: bool,
}

impl Wiring<'_> {
    /// Adds every source that the options name.
    pub(super) async fn add_to(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        self.folders(supervisor)?;
        self.cluster(supervisor)?;
        self.api(supervisor).await?;
        self.keys(supervisor)
    }

    fn folders(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let (warm, empty_grace) = (self.warm, self.options.config_empty_grace);
        let validation = validation(self.options.validation, ValidationMode::Strict);
        for (rank, dir) in (FOLDER_RANK..).zip(&self.options.config_dir) {
            let owner = Owner::new(rank, format!("files:{}", dir.display()));
            let dir = dir.clone();
            supervisor.add(Box::new(move |first| {
                // Nobody must lose what was there because a folder is late.
                let absent = match first && !warm {
                    true => Absent::Empty,
                    false => Absent::Unknown,
                };
                let folder = Folder::new(owner.clone(), dir.clone(), validation);
                let options = files::Options {
                    absent,
                    empty_grace,
                };
                Box::new(FilesSource { folder, options })
            }))?;
        }
        Ok(())
    }

    fn cluster(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let Some(client) = self.cluster.clone() else {
            return Ok(());
        };
        let owner = Owner::new(
            CLUSTER_RANK,
            format!("kubernetes:{}", self.options.cluster_id),
        );
        let options = reading(self.options, Kind::ALL.into());
        supervisor.add(Box::new(move |_| {
            let source = ClusterSource::new(owner.clone(), client.clone(), options.clone());
            Box::new(source)
        }))?;
        Ok(())
    }

    async fn api(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let Some(data) = &self.options.api.data else {
            return Ok(());
        };
        let (api, namespace) = (&self.options.api, &self.options.namespace);
        let (owner, store) =
            crate::api::start(data, api, namespace, self.shadows, self.stop).await?;
        // Set here only.
        let _ = self.fault.set(store.faults());
        supervisor.add(Box::new(move |_| {
            Box::new(ApiSource::new(owner.clone(), store.clone()))
        }))?;
        Ok(())
    }

    fn keys(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let metrics = self.metrics.clone();
        let options = jwks::Options {
            refresh: self.options.jwks_refresh_interval.max(SHORTEST_REFRESH),
            blocked: self.options.jwks_blocked_cidrs.0.clone(),
            allowed: self.options.jwks_allowed_cidrs.0.clone(),
            longest: jwks::LONGEST_FETCH,
            extra_roots: Some(self.options.jwks_roots.clone()),
            insecure: self.options.jwks_insecure_skip_verify,
            attempted: Arc::new(move |succeeded| {
                if succeeded {
                    metrics.keys_fetched.inc();
                } else {
                    metrics.keys_failed.inc();
                }
            }),
        };
        // Roots that cannot be used are found out at the start.
        jwks::Fetcher::new(&options)
            .context("keys of token issuers cannot be fetched (--jwks-roots)")?;
        let wanted = self.derive.wanted_keys();
        supervisor.add(Box::new(move |_| {
            Box::new(KeysSource {
                owner: Owner::new(0, "jwks"),
                wanted: wanted.clone(),
                options: options.clone(),
            })
        }))?;
        Ok(())
    }
}

/// Waits until an outcome is known of fetching each key, so that proxies which reconnect after a restart do not refuse
/// good tokens meanwhile; but not for long.
pub(super) async fn first_keys(derive: &Derive) -> Result<(), Closed> {
    let start = Instant::now();
    while !derive.ask(State::has_keys).await? && start.elapsed() < KEYS_AT_START {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// How clusters are read, the configured one and remote ones.
pub(super) fn reading(options: &ServeOptions, kinds: Arc<[Kind]>) -> kubernetes::source::Options {
    kubernetes::source::Options {
        kinds,
        validation: validation(options.validation, ValidationMode::Warn),
    }
}

fn validation(stated: Option<ValidationMode>, default: ValidationMode) -> Validation {
    match stated.unwrap_or(default) {
        ValidationMode::Strict => Validation::Strict,
        ValidationMode::Warn => Validation::Warn,
    }
}

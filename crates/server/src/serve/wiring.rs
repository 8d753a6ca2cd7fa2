//! Which sources there are, as the options say.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver::source::ApiSource;
use kubernetes::source::ClusterSource;
use model::names::Name;
use model::parse::Validation;
use model::settings::Features;
use model::{Kind, Owner};
use sources::files::{self, Absent, FilesSource};
use sources::folder::Folder;
use sources::jwks::{self, KeysSource};
use sources::names::{NamesSource, SystemResolver};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use writeback::{ClusterPlace, Limits};

use crate::writing::embedded::EmbeddedPlace;

use crate::access::AccessSource;
use crate::api::{Asked, STORE_RANK};
use crate::apis::{Api, Apis};
use crate::config::{ServeOptions, ValidationMode};
use crate::config_sources::folder;
use crate::derive::{Closed, Derive, State};
use crate::metrics::Metrics;
use crate::registration::Home;
use crate::registries::{Bridges, Edge};
use crate::shadows::Shadows;
use crate::supervisor::Supervisor;
use crate::writing::Target;

/// Precedence of folders: the first folder wins over the second.
const FOLDER_RANK: u8 = 10;

/// Precedence of a cluster: folders win over it, and it wins over the store of the API.
pub(super) const CLUSTER_RANK: u8 = 100;

/// Precedence of the folder of certificates that are ordered: folders win over it, and it wins over a cluster.
const CERTIFICATES_RANK: u8 = 90;

/// How long the start waits for keys of token issuers, to which a rule gives 5 s where it does not say, and for addresses.
const ANSWERS_AT_START: Duration = Duration::from_secs(5);

/// Keys are not fetched more often than this.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// Where entries of workloads are kept: in the cluster, else in our own store, else in memory.
pub(super) fn home(options: &ServeOptions) -> Home {
    match (options.reads_cluster(), &options.api.data) {
        (true, _) => Home {
            rank: CLUSTER_RANK,
            shared: true,
        },
        (false, Some(_)) => Home {
            rank: STORE_RANK,
            shared: false,
        },
        (false, None) => Home::MEMORY,
    }
}

/// The McpBridges whose registries are read, in the namespace of Ingresses.
pub(super) fn bridges(options: &ServeOptions) -> Bridges {
    let registries = &options.registries;
    let named = registries.stated.iter();
    let named = named.map(|stated| Name::new(stated.auth_secret_name.clone()));
    let namespace = options.ingress.features().edge_namespace;
    Bridges::new(namespace, &registries.bridges, named.collect())
}

/// Where servers of MCP of registries are served: by Higress's class, where that is served, otherwise by the first that is.
pub(super) fn edge(options: &ServeOptions) -> Edge {
    const HIGRESS: &str = "higress";
    let features = options.ingress.features();
    let named = |class: &&Arc<str>| !class.is_empty() && ***class != *"*";
    let classes: Vec<&Arc<str>> = features.edge_classes.iter().collect();
    let is_open = classes
        .iter()
        .any(|class| matches!(&***class, HIGRESS | "*"));
    let first = classes.iter().copied().find(named);
    Edge {
        namespace: features.edge_namespace.clone(),
        class: match is_open {
            true => Some(HIGRESS.into()),
            false => first.cloned(),
        },
    }
}

/// What sources are made with.
pub(super) struct Wiring<'a> {
    pub(super) options: &'a ServeOptions,
    pub(super) derive: &'a Derive,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) shadows: &'a Arc<Shadows>,
    /// What the server was started with.
    pub(super) features: Arc<Features>,
    pub(super) stop: &'a CancellationToken,
    /// Where it is shown that the store of the API cannot be written.
    pub(super) fault: &'a OnceLock<watch::Receiver<Option<Arc<str>>>>,
    /// Clients of the cluster that objects are read from.
    pub(super) cluster: Option<kubernetes::Clients>,
    /// The APIs of all clusters.
    pub(super) apis: &'a Apis,
    /// Our own store, once it is served.
    pub(super) store: &'a OnceLock<Arc<apiserver::api::Api>>,
    /// Whether proxies are served from disk until the sources have been read.
    pub(super) warm: bool,
}

impl Wiring<'_> {
    /// Adds every source that the options name, and returns the place that is written to.
    pub(super) async fn add_to(
        &self,
        supervisor: &Supervisor,
        api: Option<Asked>,
    ) -> anyhow::Result<Option<Target>> {
        self.folders(supervisor)?;
        self.certificates(supervisor)?;
        self.keys(supervisor)?;
        crate::wasm::add(self.options, self.derive, self.metrics, supervisor)?;
        self.names(supervisor)?;
        self.access(supervisor)?;
        let cluster = self.cluster(supervisor)?;
        // Last: what cannot be meant is refused before the data folder is written.
        let store = self.api(supervisor, api).await?;
        Ok(cluster.or(store))
    }

    fn folders(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        for (rank, dir) in (FOLDER_RANK..).zip(&self.options.config_dir) {
            let owner = Owner::new(rank, format!("files:{}", dir.display()));
            supervisor.add(folder(self.options, self.warm, owner, dir.clone()))?;
        }
        Ok(())
    }

    /// The folder of certificates that are ordered, which we write ourselves. It must be there by now.
    fn certificates(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let Some(dir) = self.options.acme.acme_dir.clone() else {
            return Ok(());
        };
        // What others say of a Secret wins: ours is not written then.
        let owner = Owner::new(CERTIFICATES_RANK, format!("files:{}", dir.display()));
        supervisor.add(Box::new(move |_| {
            let folder = Folder::new(owner.clone(), dir.clone(), Validation::Strict);
            let options = files::Options {
                absent: Absent::Unknown,
                empty_grace: Duration::ZERO,
            };
            Box::new(FilesSource { folder, options })
        }))?;
        Ok(())
    }

    /// The configured cluster, as a source and as a place to write to.
    fn cluster(&self, supervisor: &Supervisor) -> anyhow::Result<Option<Target>> {
        let Some(clients) = self.cluster.clone() else {
            return Ok(None);
        };
        let owner = Owner::new(
            CLUSTER_RANK,
            format!("kubernetes:{}", self.options.cluster_id),
        );
        let options = reading(self.options, Kind::ALL.into());
        let name = format!("the API of cluster {}", self.options.cluster_id);
        let place = |client: &kubernetes::Client| {
            ClusterPlace::new(name.as_str(), client.clone(), Limits::default())
        };
        let target = Target {
            api: Api {
                client: Some(clients.write.clone()),
                place: Arc::new(place(&clients.write)),
            },
            entries: Arc::new(place(&clients.write)),
            leases: Arc::new(place(&clients.read)),
            source: owner.source.clone(),
            shared: true,
        };
        supervisor.add(Box::new(move |first| {
            let options = kubernetes::source::Options {
                first,
                ..options.clone()
            };
            let source = ClusterSource::new(owner.clone(), clients.read.clone(), options);
            Box::new(source)
        }))?;
        Ok(Some(target))
    }

    /// The store of the API, as a source and as a place to write to.
    async fn api(
        &self,
        supervisor: &Supervisor,
        asked: Option<Asked>,
    ) -> anyhow::Result<Option<Target>> {
        let Some(asked) = asked else {
            return Ok(None);
        };
        let (api, namespace) = (&self.options.api, &self.options.namespace);
        let judging = (self.shadows, self.features.clone());
        let (owner, api) = crate::api::start(asked, api, namespace, judging, self.stop).await?;
        let store = api.store().clone();
        // Set here only.
        let _ = self.store.set(api.clone());
        let place = Arc::new(EmbeddedPlace::new(api));
        let target = Target {
            api: Api {
                client: None,
                place: place.clone(),
            },
            entries: place.clone(),
            leases: place,
            source: owner.source.clone(),
            // The store is one process's.
            shared: false,
        };
        // Set here only.
        let _ = self.fault.set(store.faults());
        supervisor.add(Box::new(move |_| {
            Box::new(ApiSource::new(owner.clone(), store.clone()))
        }))?;
        Ok(Some(target))
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
        options
            .fetcher()
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

    fn access(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let wanted = self.derive.wanted_reviews();
        let (apis, metrics) = (self.apis.clone(), self.metrics.clone());
        let told = Arc::new(move |result: &'static str| {
            metrics.access_reviews.with_label_values(&[result]).inc();
        });
        supervisor.add(Box::new(move |_| {
            Box::new(AccessSource {
                owner: Owner::new(0, "access"),
                wanted: wanted.clone(),
                apis: apis.clone(),
                told: told.clone(),
            })
        }))?;
        Ok(())
    }

    fn names(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        let wanted = self.derive.wanted_names();
        supervisor.add(Box::new(move |_| {
            Box::new(NamesSource {
                owner: Owner::new(0, "dns"),
                wanted: wanted.clone(),
                resolver: SystemResolver::new,
            })
        }))?;
        Ok(())
    }
}

/// Waits until an outcome is known of fetching each key and looking up each name, so that proxies which reconnect after a
/// restart neither refuse good tokens meanwhile nor lose the way into other networks; but not for long.
pub(super) async fn first_answers(derive: &Derive) -> Result<(), Closed> {
    let start = Instant::now();
    while !derive.ask(State::has_what_it_wants).await? && start.elapsed() < ANSWERS_AT_START {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// How clusters are read, the configured one and remote ones.
pub(super) fn reading(options: &ServeOptions, kinds: Arc<[Kind]>) -> kubernetes::source::Options {
    let stated = options.cluster.of_source();
    let is_read = |kind: &&Kind| stated.kinds.contains(kind);
    kubernetes::source::Options {
        kinds: kinds.iter().filter(is_read).copied().collect(),
        validation: options.validation(ValidationMode::Warn),
        revision: options.revision.as_str().into(),
        ..stated
    }
}

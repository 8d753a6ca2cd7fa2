//! The warm start: what proxies were served last is kept on disk, and served until the sources have been read.
//!
//! This is a layer between generation and streams: generation neither reads nor knows it. A thread of its own saves, and
//! asks the derive thread for no more than pointers to what is published.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant, SystemTime};

use ::warm::{Folder, Journal, Kept, NodeKeys, OpenError, Origin, Saved, Served};
use model::node::Node;
use model::settings::Settings;
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use xds::{Published, TypeUrl};
use xlate::View;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::ServeOptions;
use crate::derive::{Closed, Derive, has_sets};
use crate::metrics::Metrics;
use crate::settings::Settled;

/// In place of a folder: none.
const OFF: &str = "off";

/// The folder in that of the Kubernetes API.
const IN_DATA: &str = "served";

/// How long the last save before the end may take.
const LAST_SAVE: Duration = Duration::from_secs(3);

/// What was found on disk at the start.
#[derive(Clone, Debug)]
pub enum Start {
    /// There is no folder.
    Off,
    /// Nothing was saved there.
    Empty,
    /// What is there is not served, and why.
    Ignored(String),
    /// It is served.
    Loaded {
        /// Views in it.
        views: usize,
        /// Proxies that are known.
        nodes: usize,
        /// When it was saved.
        at: SystemTime,
    },
}

/// What came of saving.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saves {
    /// The newest save, and when it was.
    pub last: Option<(SystemTime, Saved)>,
    /// Saves that failed.
    pub failures: u64,
}

/// What proxies had before the start.
#[derive(Debug)]
pub struct Warm {
    folder: Option<PathBuf>,
    start: Start,
    /// `None` when it is served no more.
    kept: RwLock<Option<Arc<Kept>>>,
    saves: Mutex<Saves>,
}

/// What is needed to save: the folder, and what was read from it.
pub struct Keeper {
    folder: Place,
    kept: Option<Kept>,
}

/// Where is saved.
enum Place {
    /// A folder that this process has.
    Taken(Folder),
    /// One in the data folder, made with the first save: whatever keeps the server from starting leaves nothing there.
    Absent(PathBuf),
}

impl Place {
    fn take(self) -> Result<Folder, OpenError> {
        match self {
            Self::Taken(folder) => Ok(folder),
            Self::Absent(path) => Folder::open(&path),
        }
    }
}

impl Warm {
    /// Reads what was saved. A folder that cannot be used, and a file that is not to be served, cost the warm start and
    /// nothing else.
    pub fn open(
        options: &ServeOptions,
        settings: &Settings,
        metrics: &Metrics,
    ) -> (Self, Option<Keeper>) {
        let Some(path) = folder_of(options) else {
            return (Self::new(None, Start::Off, None), None);
        };
        if options.state_dir.is_none() && !path.exists() {
            let keeper = Keeper {
                folder: Place::Absent(path.clone()),
                kept: None,
            };
            return (Self::new(Some(path), Start::Empty, None), Some(keeper));
        }
        let shown = path.display().to_string();
        let folder = match Folder::open(&path) {
            Ok(folder) => folder,
            Err(error) => {
                let reason = match &error {
                    OpenError::Io(cause) => format!("{error}: {cause}"),
                    OpenError::Taken => error.to_string(),
                };
                metrics.warm_ignored.with_label_values(&["folder"]).inc();
                tracing::warn!(
                    folder = shown,
                    reason,
                    "Nothing is served from disk and nothing is saved (--state-dir)."
                );
                let start = Start::Ignored(reason);
                return (Self::new(Some(path), start, None), None);
            }
        };
        let (start, kept) = match folder.load(&origin(options, settings), options.state_limit) {
            Ok(None) => (Start::Empty, None),
            Ok(Some(kept)) => {
                let (views, nodes) = (kept.views(), kept.nodes());
                let at = SystemTime::UNIX_EPOCH + Duration::from_secs(kept.at);
                tracing::info!(
                    folder = shown,
                    views,
                    proxies = nodes,
                    "Proxies get their last configuration until the sources have been read."
                );
                (Start::Loaded { views, nodes, at }, Some(kept))
            }
            Err(ignored) => {
                let cause = std::error::Error::source(&ignored);
                let reason = match cause {
                    Some(cause) => format!("{ignored}: {cause}"),
                    None => ignored.to_string(),
                };
                let label = ignored.reason();
                metrics.warm_ignored.with_label_values(&[label]).inc();
                tracing::warn!(folder = shown, reason, "The saved resources are ignored.");
                (Start::Ignored(reason), None)
            }
        };
        let keeper = Keeper {
            folder: Place::Taken(folder),
            kept: kept.clone(),
        };
        (Self::new(Some(path), start, kept), Some(keeper))
    }

    fn new(folder: Option<PathBuf>, start: Start, kept: Option<Kept>) -> Self {
        Self {
            folder,
            start,
            kept: RwLock::new(kept.map(Arc::new)),
            saves: Mutex::default(),
        }
    }

    /// What a proxy had, while that is served.
    pub fn of(&self, node: &Node) -> Option<Arc<Published>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.clone()?;
        kept.of(&NodeKeys::of(node)).cloned()
    }

    /// Whether something is served from disk.
    pub fn is_serving(&self) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.is_some()
    }

    /// The sources have been read.
    pub fn end(&self) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        *kept = None;
    }

    /// Where it is.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What was found at the start.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// What came of saving.
    pub fn saves(&self) -> Saves {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Saves> {
        self.saves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folder of the state, if there is one.
pub(crate) fn folder_of(options: &ServeOptions) -> Option<PathBuf> {
    match &options.state_dir {
        Some(path) if path.as_os_str() == OFF => None,
        Some(path) => Some(path.clone()),
        None => options.api.data.as_ref().map(|data| data.join(IN_DATA)),
    }
}

/// What resources are made by and from.
fn origin(options: &ServeOptions, settings: &Settings) -> Origin {
    let mut text = format!("{:?} {:?}", options.config_dir, options.api.data);
    let sources = &options.config_sources.config_source;
    if !sources.is_empty() {
        let _ = write!(text, " {sources:?}");
    }
    // Settings are written out in an order of their own.
    let _ = write!(text, " {:?} {settings:?}", options.validation);
    Origin {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        settings: xxh3_64(text.as_bytes()),
    }
}

/// The thread that saves.
pub struct Saver(mpsc::Sender<oneshot::Sender<()>>);

impl Saver {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn start(
        keeper: Keeper,
        options: &ServeOptions,
        settled: watch::Receiver<Settled>,
        warm: Arc<Warm>,
        derive: Derive,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let (end, ended) = mpsc::channel::<oneshot::Sender<()>>();
        let options = options.clone();
        let runtime = Handle::current();
        std::thread::Builder::new()
            .name("warm".into())
            .spawn(move || {
                let mut saving = Saving {
                    settings: None,
                    journal: None,
                    keeper: Some(keeper),
                    known: FxHashMap::default(),
                    options,
                    settled,
                    derive,
                    runtime,
                };
                loop {
                    let done = match ended.recv_timeout(saving.options.state_interval) {
                        Ok(done) => Some(done),
                        Err(mpsc::RecvTimeoutError::Timeout) => None,
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    };
                    let Ok(outcome) = saving.save() else { return };
                    note(&warm, &metrics, outcome);
                    if let Some(done) = done {
                        // Nobody waits for it any more if this fails.
                        let _ = done.send(());
                        return;
                    }
                }
            })?;
        Ok(Self(end))
    }

    /// Saves once more and ends.
    pub async fn finish(self) {
        let (done, is_done) = oneshot::channel();
        if self.0.send(done).is_ok() {
            // Late is as good as not at all: the save before holds.
            let _ = tokio::time::timeout(LAST_SAVE, is_done).await;
        }
    }
}

fn note(warm: &Warm, metrics: &Metrics, outcome: std::io::Result<Option<Saved>>) {
    let mut saves = warm.lock();
    match outcome {
        Ok(None) => {}
        Ok(Some(saved)) => {
            saves.last = Some((SystemTime::now(), saved));
            metrics.warm_saved.inc_by(saved.written);
            let size = i64::try_from(saved.size).unwrap_or(i64::MAX);
            metrics.warm_size.set(size);
        }
        Err(error) => {
            saves.failures += 1;
            metrics.warm_failures.inc();
            tracing::warn!(%error, folder = ?warm.folder, "The served resources could not be saved.");
        }
    }
}

/// A view as of the last save.
struct Known {
    /// Keeps the place it lies at from being another's.
    _view: Arc<View>,
    joined_or_left: u64,
    nodes: Vec<NodeKeys>,
}

/// Whether the resources have subscription rules, as those of gRPC libraries do. The file does not hold the rules, so these clients
/// are served only once the sources have been read.
fn has_subscription_rules(published: &Published) -> bool {
    let mut sets = [TypeUrl::Cluster, TypeUrl::Listener]
        .into_iter()
        .filter_map(|ty| published.get(ty));
    // All resources of a set have one, or none has.
    sets.any(|set| {
        set.iter()
            .next()
            .is_some_and(|first| first.subscription_rule().is_some())
    })
}

/// What the thread has.
struct Saving {
    settings: Option<Arc<Settings>>,
    /// `None` until the first save, which knows the settings.
    journal: Option<Journal>,
    keeper: Option<Keeper>,
    /// By where it lies: each view with its proxies.
    known: FxHashMap<usize, Known>,
    options: ServeOptions,
    settled: watch::Receiver<Settled>,
    derive: Derive,
    runtime: Handle,
}

impl Saving {
    fn save(&mut self) -> Result<std::io::Result<Option<Saved>>, Closed> {
        let counts = self.known.iter();
        let counts = counts.map(|(place, known)| (*place, known.joined_or_left));
        let counts: FxHashMap<usize, u64> = counts.collect();
        // The next start knows no ConfigMaps when it reads the file.
        let settings = self.settled.borrow().of_files.clone();
        let question = self.derive.ask(move |state| state.served(&counts));
        let rows = self.runtime.block_on(question)?;
        let mut before = std::mem::take(&mut self.known);
        let mut served = Vec::new();
        for row in rows {
            let place = Arc::as_ptr(&row.view).addr();
            let nodes: Vec<NodeKeys> = match row.nodes {
                Some(nodes) => nodes.iter().map(|node| NodeKeys::of(node)).collect(),
                None => before.remove(&place).map_or_else(Vec::new, |k| k.nodes),
            };
            if has_sets(&row.published) && !has_subscription_rules(&row.published) {
                served.push(Served {
                    published: row.published,
                    nodes: nodes.clone(),
                });
            }
            let known = Known {
                _view: row.view,
                joined_or_left: row.joined_or_left,
                nodes,
            };
            self.known.insert(place, known);
        }
        if self
            .settings
            .as_ref()
            .is_none_or(|known| !Arc::ptr_eq(known, &settings))
        {
            let origin = origin(&self.options, &settings);
            if let Some(journal) = &mut self.journal {
                journal.set_origin(origin);
            } else if let Some(keeper) = self.keeper.take() {
                let limit = self.options.state_limit;
                let folder = match keeper.folder.take() {
                    Ok(folder) => folder,
                    Err(error) => return Ok(Err(std::io::Error::other(error))),
                };
                self.journal = Some(Journal::new(folder, origin, limit, keeper.kept));
            }
            self.settings = Some(settings);
        }
        Ok(match &mut self.journal {
            Some(journal) => journal.save(&served, Instant::now()),
            None => Ok(None),
        })
    }
}

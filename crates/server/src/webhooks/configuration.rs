//! What injection does, as files or the ConfigMap of this revision say it now.
//!
//! A document that cannot be used keeps its last good version in force.
// Istio: pkg/kube/inject/watcher.go, pilot/pkg/bootstrap/sidecarinjector.go, 1.32.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use disk::open::{Stamp, read_text};
use inject::{CONFIG_KEY, Injection, VALUES_KEY, builtin};
use model::kinds::kube::ConfigMap;
use model::object::Object;
use model::{Kind, ObjectName};
use serde_json::Value;
use sources::folder::LARGEST_FILE;
use store::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::ServeOptions;
use crate::derive::Batch;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What counts now.
#[derive(Clone, Default)]
pub struct Configuration {
    /// Policy, templates and values; none as long as there were none that can be used.
    pub injection: Option<Arc<Injection>>,
    /// What that was read from.
    pub documents: Option<Arc<Documents>>,
    /// What is wrong with the newest.
    pub fault: Option<Arc<str>>,
}

/// Templates and values as texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Documents {
    /// Policy and templates.
    pub config: String,
    /// What templates read.
    pub values: String,
}

/// What is injected, and what it was read from.
type Configured = (Injection, Documents);

/// What the newest snapshot has.
#[derive(Clone, Default)]
struct Told {
    snapshot: Option<Arc<Snapshot>>,
    map: Option<Arc<Object<ConfigMap>>>,
}

/// Where the configuration of injection comes from.
pub struct InjectorSource {
    map: ObjectName,
    folder: PathBuf,
    told: watch::Sender<Told>,
    configured: watch::Sender<Configuration>,
}

/// The files, as they were last read.
#[derive(Default, PartialEq)]
struct Files {
    stamps: [Option<Stamp>; 2],
}

impl InjectorSource {
    /// The files and the ConfigMap that the options name.
    pub fn new(options: &ServeOptions) -> Self {
        let name = match options.revision.as_str() {
            "" | "default" => "istio-sidecar-injector".to_owned(),
            revision => format!("istio-sidecar-injector-{revision}"),
        };
        Self {
            map: ObjectName::new(options.namespace.as_str(), name),
            folder: options.webhooks.inject_config_dir.clone(),
            told: watch::Sender::default(),
            configured: watch::Sender::default(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let changed = batch
            .changes
            .objects
            .iter()
            .any(|key| key.kind == Kind::ConfigMap && key.name == self.map);
        self.told.send_if_modified(|told| {
            let first = told.snapshot.replace(batch.snapshot.clone()).is_none();
            if changed || first {
                told.map = batch.snapshot.tables.config_maps.get(&self.map).cloned();
            }
            changed || first
        });
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.told.borrow().snapshot.clone()
    }

    /// Waits until there is a configuration, good or bad, but no longer than this.
    pub async fn configured(&self, patience: Duration) {
        let mut configured = self.configured.subscribe();
        let there = configured.wait_for(|c| c.injection.is_some() || c.fault.is_some());
        let _ = tokio::time::timeout(patience, there).await;
    }

    /// What counts now.
    pub fn configuration(&self) -> Configuration {
        self.configured.borrow().clone()
    }

    /// What counts, whenever that changes.
    pub fn changes(&self) -> watch::Receiver<Configuration> {
        self.configured.subscribe()
    }

    /// The ConfigMap that is looked for.
    pub fn config_map(&self) -> &ObjectName {
        &self.map
    }

    /// Reads what changes, until `stop`.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut told = self.told.subscribe();
        let mut files = Files::default();
        let mut known: Option<Arc<Object<ConfigMap>>> = None;
        loop {
            let map = told.borrow_and_update().map.clone();
            let paths = [CONFIG_KEY, VALUES_KEY].map(|name| self.folder.join(name));
            let stamps = paths.each_ref().map(|path| Stamp::at(path));
            // As istiod: files count where there is the first of them.
            let of_files = stamps[0].is_some();
            if of_files && stamps != files.stamps {
                let [config, values] = paths.each_ref().map(|path| read_text(path, LARGEST_FILE));
                let read = match (config, values) {
                    (Ok(config), Ok(values)) => read(&config, &values),
                    (Err(e), _) | (_, Err(e)) => Err(e.to_string()),
                };
                self.put(&self.folder.display().to_string(), Some(read));
            } else if !of_files && (files.stamps[0].is_some() || !same(&known, &map)) {
                let read = map.as_deref().map(of_map);
                self.put(&format!("ConfigMap {}", self.map), read);
            }
            files.stamps = stamps;
            known = map;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                told = told.changed() => if told.is_err() { return },
                () = stop.cancelled() => return,
            }
        }
    }

    /// Puts what was read in force; `None` where nothing is configured.
    fn put(&self, place: &str, read: Option<Result<Configured, String>>) {
        self.configured.send_modify(|configured| match read {
            None => {
                if configured.injection.is_some() {
                    tracing::info!("Pods are not injected any more: {place} is gone.");
                }
                *configured = Configuration::default();
            }
            Some(Ok((injection, documents))) => {
                let templates: Vec<&str> = injection.templates.keys().map(String::as_str).collect();
                tracing::info!(
                    templates = templates.join(","),
                    "Pods are injected as {place} says."
                );
                *configured = Configuration {
                    injection: Some(Arc::new(injection)),
                    documents: Some(Arc::new(documents)),
                    fault: None,
                };
            }
            Some(Err(why)) => {
                tracing::warn!(
                    last_good = configured.injection.is_some(),
                    "The configuration of injection in {place} cannot be used: {why}."
                );
                configured.fault = Some(why.into());
            }
        });
    }
}

fn same(a: &Option<Arc<Object<ConfigMap>>>, b: &Option<Arc<Object<ConfigMap>>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// A ConfigMap without templates has those for stock Envoys, whose values it changes.
fn of_map(map: &Object<ConfigMap>) -> Result<Configured, String> {
    let data = &map.spec.data;
    if data.contains_key(CONFIG_KEY) {
        let injection = Injection::of_config_map(data, environment());
        let text = |key: &str| {
            data.get(key)
                .map_or_else(String::new, |text| text.to_string())
        };
        let documents = Documents {
            config: text(CONFIG_KEY),
            values: text(VALUES_KEY),
        };
        return Ok((injection.map_err(|e| e.to_string())?, documents));
    }
    let mut values = value_of(builtin::VALUES)?;
    if let Some(stated) = data.get(VALUES_KEY) {
        lay_over(&mut values, value_of(stated)?);
    }
    read(&builtin::config(), &values.to_string())
}

fn value_of(text: &str) -> Result<Value, String> {
    let mut documents = model::parse::to_json(text);
    match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => document,
        (None, _) => Ok(Value::Null),
        (Some(_), false) => Err("the values are several documents".to_owned()),
    }
}

/// Puts what is stated in place of what is there, field by field.
fn lay_over(base: &mut Value, stated: Value) {
    match (base, stated) {
        (Value::Object(base), Value::Object(stated)) => {
            for (key, value) in stated {
                lay_over(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (base, stated) => *base = stated,
    }
}

fn read(config: &str, values: &str) -> Result<Configured, String> {
    let injection = Injection::read(config, values, environment()).map_err(|e| e.to_string())?;
    let documents = Documents {
        config: config.to_owned(),
        values: values.to_owned(),
    };
    Ok((injection, documents))
}

/// What templates may ask for with `env`.
fn environment() -> BTreeMap<String, String> {
    std::env::vars().collect()
}

//! Recorded scenarios: objects and proxies, and what the real istiod sent these proxies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::mesh::read_mesh_networks;
use model::names::ClusterId;
use model::node::Node;
use model::parse::{Validation, parse, to_json};
use model::settings::{Features, Settings};
use model::{AnyObject, Change, Owner};
use serde_json::Value;
use xds::TypeUrl;

use crate::message::decode;
use crate::recorded::recording;
use crate::world::{World, as_istiod, node, settings};

/// A scenario: a folder with `nodes/` and `expected/`, and maybe `config/`, `mesh.yaml`, `networks.yaml`,
/// `scenario.json`, and `clusters/NAME/` of each remote cluster.
pub struct Scenario {
    folder: PathBuf,
    /// Its objects under its settings.
    pub world: World,
    /// Its proxies by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
}

/// What the real istiod sent: resources by name.
pub type Expected = BTreeMap<String, Value>;

impl Scenario {
    /// A recorded scenario; `None` where there are no recordings.
    pub fn recorded(name: &str) -> Option<Self> {
        Some(Self::load(&recording("scenarios")?.join(name)))
    }

    /// The names of the recorded scenarios, sorted; empty where there are no recordings.
    ///
    /// # Panics
    ///
    /// When there are recordings without a scenario.
    pub fn names() -> Vec<String> {
        let Some(folder) = recording("scenarios") else {
            return Vec::new();
        };
        let names: Vec<String> = files(&folder)
            .into_iter()
            .filter(|path| path.join("nodes").is_dir())
            .map(|path| stem(&path))
            .collect();
        assert!(!names.is_empty(), "{} has no scenarios", folder.display());
        names
    }

    /// Reads a folder.
    ///
    /// # Panics
    ///
    /// When it is no scenario.
    pub fn load(folder: &Path) -> Self {
        Self::created(folder, None)
    }

    /// A recorded scenario whose objects were created at that time where they do not say when; `None` where there are no recordings.
    pub fn recorded_and_created(name: &str, time: &str) -> Option<Self> {
        Some(Self::created(
            &recording("scenarios")?.join(name),
            Some(time),
        ))
    }

    fn created(folder: &Path, time: Option<&str>) -> Self {
        let mut world = World::new(read_settings(folder));
        world.apply(objects(&folder.join("config"), None, time));
        for cluster in files(&folder.join("clusters")) {
            world.apply(objects(&cluster, Some(stem(&cluster).into()), time));
        }
        let nodes = files(&folder.join("nodes"))
            .into_iter()
            .map(|path| (stem(&path), node(&json(&path))))
            .collect();
        Self {
            folder: folder.to_owned(),
            world,
            nodes,
        }
    }

    /// What the real istiod sent a proxy; `None` where it was not asked.
    pub fn expected(&self, node: &str, ty: TypeUrl) -> Option<Expected> {
        let name = match ty {
            TypeUrl::Cluster => "clusters",
            TypeUrl::Endpoint => "endpoints",
            TypeUrl::Listener => "listeners",
            TypeUrl::Route => "routes",
            TypeUrl::Secret => "secrets",
            TypeUrl::Extension => "extensions",
            TypeUrl::NameTable => "nametable",
            TypeUrl::ProxyConfig => "proxyconfig",
        };
        let path = self.folder.join(format!("expected/{node}/{name}.json"));
        if !path.is_file() {
            return None;
        }
        let Value::Array(resources) = json(&path)["resources"].take() else {
            return Some(Expected::new());
        };
        let named = |mut r: Value| {
            (
                r["name"].as_str().unwrap_or("").to_owned(),
                r["resource"].take(),
            )
        };
        Some(resources.into_iter().map(named).collect())
    }

    /// For each proxy and type, in order: what the real istiod sent, where it was asked, and what we send.
    pub fn compared(&self) -> impl Iterator<Item = (&str, TypeUrl, Expected, Expected)> {
        let asked = self
            .nodes
            .keys()
            .flat_map(|node| TypeUrl::ALL.map(|ty| (&**node, ty)));
        asked.filter_map(|(node, ty)| {
            let expected = self.expected(node, ty)?;
            Some((node, ty, expected, self.generated(node, ty)))
        })
    }

    /// What we send a proxy, as JSON by name.
    ///
    /// # Panics
    ///
    /// When there is no such proxy.
    pub fn generated(&self, node: &str, ty: TypeUrl) -> Expected {
        let node = &self.nodes[node];
        let view = self.world.view(node);
        let set = self.world.set(&view, ty);
        let shown = |r: &Arc<xds::Resource>| (r.name.to_string(), decode(ty.as_str(), &r.body));
        set.iter().map(shown).collect()
    }
}

/// What a cluster tells: the objects of a folder, created at that time where they do not say when.
fn objects(folder: &Path, cluster: Option<ClusterId>, time: Option<&str>) -> Vec<Change> {
    let is_remote = cluster.is_some();
    let owner = Owner {
        cluster,
        ..Owner::new(0, "files")
    };
    let of_file = |path: PathBuf| {
        let file: Arc<Path> = path.as_path().into();
        let text = match time {
            Some(time) => created_at(&read(&path), time),
            None => read(&path),
        };
        let parsed = parse(&text, &file, Validation::Warn);
        let objects: Vec<AnyObject> = parsed.objects().cloned().collect();
        objects
    };
    let objects = files(folder).into_iter().flat_map(of_file);
    let told = objects.filter(|o| !is_remote || o.kind().is_read_remotely());
    told.map(|o| Change::Put(owner.clone(), o)).collect()
}

/// Manifests with a time at each object that has none.
fn created_at(text: &str, time: &str) -> String {
    let documents = to_json(text).into_iter().map(|document| {
        let mut document = document.expect("recorded manifests are YAML");
        let metadata = &mut document["metadata"];
        if metadata["creationTimestamp"].is_null() && metadata.is_object() {
            metadata["creationTimestamp"] = time.into();
        }
        document.to_string()
    });
    documents.collect::<Vec<_>>().join("\n---\n")
}

fn read_settings(folder: &Path) -> Settings {
    let mesh = folder.join("mesh.yaml");
    let mut settings = settings(&if mesh.is_file() {
        read(&mesh)
    } else {
        String::new()
    });
    let networks = folder.join("networks.yaml");
    if networks.is_file() {
        let file: Arc<Path> = networks.as_path().into();
        let networks = read_mesh_networks(&read(&networks), &file);
        settings.networks = Arc::new(networks.value.unwrap_or_default());
    }
    let options = folder.join("scenario.json");
    let options = match options.is_file() {
        true => json(&options),
        false => Value::Null,
    };
    let variables = options["env"].as_object().into_iter().flatten();
    let variables = variables.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
    settings.features = Arc::new(Features::from_env(as_istiod().chain(variables)));
    settings
}

fn files(folder: &Path) -> Vec<PathBuf> {
    // An empty folder is not kept by version control: without one there are no files.
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

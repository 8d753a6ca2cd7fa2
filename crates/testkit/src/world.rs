//! A store and an engine over it, fed with YAML.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use convert::Stage;
use incr::{Engine, Query};
use mesh::view::ProxyKey;
use model::edge::EdgeRoute;
use model::mesh::{default_mesh_config, read_mesh_config};
use model::node::{Identity, Node};
use model::parse::{Validation, parse};
use model::settings::{AccessReviews, Features, MeshNetworks, Settings};
use model::{AnyObject, Change, ObjectKey, Owner};
use proto_envoy::envoy::config::core::v3 as core;
use serde_json::Value;
use store::{ChangeSet, Snapshot, Store};
use xds::{ResourceSet, TypeUrl};
use xlate::View;
use xlate::ViewOf;
use xlate::wants::Wants;

/// Objects, and what is derived from them.
pub struct World {
    /// The objects.
    pub store: Store,
    /// What derives objects from others.
    pub stage: Stage,
    /// The statuses of objects, kept up to date.
    pub statuses: BTreeMap<ObjectKey, Value>,
    /// What is derived.
    pub engine: Engine<Snapshot>,
    owner: Owner,
}

/// What lets configuration do what istiod lets it do: recordings have endpoints and Gateways on the machine of a proxy, and
/// Gateways of other namespaces that name its files.
pub fn as_istiod() -> impl Iterator<Item = (String, String)> {
    let all = [
        "PILOTHOUSE_LOCAL_ENDPOINTS",
        "PILOTHOUSE_GATEWAY_BINDS",
        "PILOTHOUSE_PROXY_FILES",
    ];
    all.into_iter()
        .map(|name| (name.to_owned(), "*".to_owned()))
}

/// Settings of a mesh whose configuration sets these fields over Istio's defaults.
///
/// # Panics
///
/// When the text is no mesh config.
pub fn settings(mesh: &str) -> Settings {
    let file: Arc<Path> = Path::new("mesh.yaml").into();
    let read = read_mesh_config(mesh, &file);
    let mesh = match read.value {
        Some(mesh) => mesh,
        None if mesh.trim().is_empty() => default_mesh_config(),
        None => panic!("mesh config: {:?}", read.diagnostics),
    };
    Settings {
        mesh: Arc::new(mesh),
        networks: Arc::new(MeshNetworks::default()),
        features: Arc::new(Features::default()),
        domain: Arc::from("cluster.local"),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
        access_reviews: AccessReviews::default(),
        unguessable: model::redacted::Redacted::new("no-value"),
    }
}

/// A proxy from its description: `{"id": ..., "metadata": {...}, "locality": {...}, "extensions": [...]}`.
///
/// # Panics
///
/// When it describes no proxy.
pub fn node(description: &Value) -> Arc<Node> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let locality = &description["locality"];
    let extensions = description["extensions"].as_array().into_iter().flatten();
    let extensions = extensions.map(|name| core::Extension {
        name: name.as_str().unwrap_or_default().to_owned(),
        ..core::Extension::default()
    });
    let node = core::Node {
        id: text(description, "id"),
        cluster: text(description, "cluster"),
        metadata: description["metadata"].as_object().map(|fields| {
            let fields = fields.iter().map(|(k, v)| (k.clone(), value(v)));
            prost_types::Struct {
                fields: fields.collect(),
            }
        }),
        extensions: extensions.collect(),
        locality: locality.is_object().then(|| core::Locality {
            region: text(locality, "region"),
            zone: text(locality, "zone"),
            sub_zone: text(locality, "sub_zone"),
        }),
        ..core::Node::default()
    };
    let mut node = mesh::node::from_envoy(&node).unwrap_or_else(|e| panic!("{e}"));
    node.identity = description["token"]
        .as_str()
        .and_then(Identity::of_test_token);
    Arc::new(node)
}

fn value(json: &Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match json {
        Value::Null => Kind::NullValue(0),
        Value::Bool(b) => Kind::BoolValue(*b),
        Value::Number(n) => Kind::NumberValue(n.as_f64().unwrap_or_default()),
        Value::String(s) => Kind::StringValue(s.clone()),
        Value::Array(list) => Kind::ListValue(prost_types::ListValue {
            values: list.iter().map(value).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(prost_types::Struct {
            fields: fields.iter().map(|(k, v)| (k.clone(), value(v))).collect(),
        }),
    };
    prost_types::Value { kind: Some(kind) }
}

impl Default for World {
    fn default() -> Self {
        Self::new(settings(""))
    }
}

impl World {
    /// Nothing but settings.
    pub fn new(settings: Settings) -> Self {
        Self {
            store: Store::new(Arc::new(settings)),
            stage: Stage::with_statuses(),
            statuses: BTreeMap::new(),
            engine: Engine::new(),
            owner: Owner::new(0, "test"),
        }
    }

    /// A world of these objects.
    pub fn of(yaml: &str) -> Self {
        let mut world = Self::default();
        world.put(yaml);
        world
    }

    /// The objects of a text.
    ///
    /// # Panics
    ///
    /// When one of them cannot be read.
    pub fn objects(yaml: &str) -> Vec<AnyObject> {
        let file: Arc<Path> = Path::new("test.yaml").into();
        let parsed = parse(yaml, &file, Validation::Warn);
        let objects: Vec<AnyObject> = parsed.objects().cloned().collect();
        assert_eq!(
            objects.len(),
            parsed.documents.len(),
            "{:?}",
            parsed.diagnostics
        );
        objects
    }

    /// Puts the objects of a text, as one batch.
    pub fn put(&mut self, yaml: &str) -> ChangeSet {
        let owner = self.owner.clone();
        let objects = Self::objects(yaml);
        self.apply(objects.into_iter().map(|o| Change::Put(owner.clone(), o)))
    }

    /// Puts the objects of a text as those of an edge, as one batch. HTTP routes of its VirtualServices ask for these, by
    /// their place.
    pub fn put_edge(&mut self, yaml: &str, routes: &BTreeMap<usize, Arc<EdgeRoute>>) {
        let owner = self.owner.clone();
        let mut objects = Self::objects(yaml);
        for object in &mut objects {
            crate::marked::edge(object, routes.clone());
        }
        self.apply(objects.into_iter().map(|o| Change::Put(owner.clone(), o)));
    }

    /// Puts recorded objects in JSON, as one batch; those that cannot be read are left out. What Istio marked as derived
    /// is derived.
    pub fn apply_json(&mut self, objects: &[Value]) {
        let file: Arc<Path> = Path::new("test.json").into();
        let texts = objects.iter().map(Value::to_string);
        let parsed: Vec<_> = texts.map(|o| parse(&o, &file, Validation::Warn)).collect();
        let owner = self.owner.clone();
        let objects = parsed.iter().flat_map(|p| p.objects().cloned());
        let marked = objects.map(|mut object| {
            crate::marked::mark(&mut object);
            Change::Put(owner.clone(), object)
        });
        self.apply(marked.collect::<Vec<_>>());
    }

    /// Deletes an object.
    pub fn delete(&mut self, key: &ObjectKey) -> ChangeSet {
        self.apply([Change::Delete(self.owner.clone(), key.clone())])
    }

    /// Applies a batch, with what is derived from it.
    pub fn apply(&mut self, batch: impl IntoIterator<Item = Change>) -> ChangeSet {
        let before = self.store.snapshot();
        let mut changes = self.stage.apply(&mut self.store, batch);
        let after = self.store.snapshot();
        let remembered = mesh::services::to_remember(&self.engine, &before, &after, &changes);
        changes.merge(self.store.amend(remembered));
        self.engine.commit(changes.keys.iter().copied());
        for change in self.stage.take_statuses(&self.store.snapshot()) {
            match change.status.as_ref() {
                Some(status) => _ = self.statuses.insert(change.object, status.clone()),
                None => _ = self.statuses.remove(&change.object),
            }
        }
        changes
    }

    /// The value of a query.
    pub fn get<Q: Query<Snapshot>>(&self, query: &Q) -> Arc<Q::Value> {
        self.engine.get(&self.store.snapshot(), query)
    }

    /// The view of a proxy.
    pub fn view(&self, node: &Arc<Node>) -> Arc<View> {
        self.get(&ViewOf(ProxyKey::new(node.clone()))).view.clone()
    }

    /// What proxies of a view want of the outside because they ask for a type.
    ///
    /// # Panics
    ///
    /// When a type wants nothing of the outside.
    pub fn wants(&self, view: &Arc<View>, ty: TypeUrl) -> Arc<Wants> {
        self.get(&view.wants(ty).expect("the type wants something"))
    }

    /// What proxies of a view get of a type.
    pub fn set(&self, view: &Arc<View>, ty: TypeUrl) -> ResourceSet {
        ResourceSet::clone(&self.get(&view.set(ty)))
    }
}

//! What kinds of objects there are: those that are built in, and those that CustomResourceDefinitions add.

mod builtin;
mod custom;
pub mod definition;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::kinds::Kind;
use serde_json::Value;

use crate::schema::Patterns;
use crate::store::ResourceName;

pub(crate) use builtin::of_model as built_in;
pub use custom::{accept, conditions_of};

/// Schemas of the kinds that generation reads.
#[derive(Clone, Debug)]
pub struct Schemas(pub(crate) HashMap<Kind, Arc<Value>>);

/// A kind of objects as the API serves it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Served versions, the preferred one first.
    pub versions: Vec<Version>,
    /// Which version objects are stored in.
    pub storage: Arc<str>,
    /// Name in `kind:`.
    pub kind: Arc<str>,
    /// Name of lists.
    pub list_kind: Arc<str>,
    /// Name in paths.
    pub plural: Arc<str>,
    /// Name of one, on command lines.
    pub singular: Arc<str>,
    /// Short names on command lines.
    pub short_names: Vec<Arc<str>>,
    /// Names of sets of kinds on command lines.
    pub categories: Vec<Arc<str>>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether the status is written apart from the rest.
    pub has_status: bool,
    /// Whether `metadata.generation` counts changes of what is wanted.
    pub has_generation: bool,
    /// Whether it is one of Kubernetes' own kinds, whose clients send strategic merge patches.
    pub native: bool,
    /// Whether it comes from a CustomResourceDefinition alone.
    pub custom: bool,
    /// The kind that generation reads.
    pub model: Option<Kind>,
    name: ResourceName,
}

/// A served version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// `v1`, `v1beta1`, ...
    pub name: Arc<str>,
    /// Schema of its objects.
    pub schema: Option<Arc<Value>>,
    /// The patterns of the schema.
    pub patterns: Patterns,
    /// The conditions and rules of a schema that came with a CustomResourceDefinition.
    pub judge: Option<Arc<validate::schema::Schema>>,
    /// Columns of tables after the name.
    pub columns: Arc<[Column]>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its head.
    pub name: Arc<str>,
    /// `string`, `integer`, `date`, ...
    pub kind: Arc<str>,
    /// More specific than the type: `name`, ...
    pub format: Arc<str>,
    /// For people.
    pub description: Arc<str>,
    /// Above 0 where it is shown with `-o wide` only.
    pub priority: i64,
    /// What it shows.
    pub shows: Shows,
}

/// What a column shows.
#[derive(Clone, Debug)]
pub enum Shows {
    /// The value at a path, in the dialect of `additionalPrinterColumns`.
    Path(Arc<str>),
    /// What this makes of the object.
    Made(fn(&Value) -> Value),
}

impl Resource {
    /// `virtualservices.networking.istio.io`; the key in the store.
    pub fn name(&self) -> &ResourceName {
        &self.name
    }

    /// A served version.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| *v.name == *name)
    }

    /// The conditions and rules of a version.
    pub fn judge(&self, version: &str) -> Option<&validate::schema::Schema> {
        self.version(version)?.judge.as_deref()
    }

    /// The schema of a version.
    pub fn schema(&self, version: &str) -> Option<&Value> {
        self.version(version)?.schema.as_deref()
    }

    /// The patterns of the schema of a version.
    pub fn patterns(&self, version: &str) -> Patterns {
        let known = self.version(version).map(|v| v.patterns.clone());
        known.unwrap_or_default()
    }

    /// `group/version` as objects name it.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.group)
        }
    }

    /// Whether it is this kind, by group and name.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        *self.group == *group && *self.plural == *plural
    }
}

/// The kinds that are served, by group and name in paths.
#[derive(Clone, Debug)]
pub struct Catalog {
    schemas: Schemas,
    resources: BTreeMap<(Arc<str>, Arc<str>), Arc<Resource>>,
    /// Counts changes, so that what was made of a catalog can be kept.
    pub serial: u64,
}

impl Default for Catalog {
    fn default() -> Self {
        let schemas = Schemas::of_model();
        let resources = builtin::resources(&schemas)
            .into_iter()
            .map(|r| ((r.group.clone(), r.plural.clone()), Arc::new(r)))
            .collect();
        Self {
            schemas,
            resources,
            serial: 0,
        }
    }
}

impl Catalog {
    /// A kind by group and name in paths.
    pub fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), plural.into()))
    }

    /// A kind by group and name in objects.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.all().find(|r| *r.group == *group && *r.kind == *kind)
    }

    /// A kind as people name it: `vs`, `virtualservice`, `virtualservices.networking.istio.io`.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Resource>> {
        let name = name.to_ascii_lowercase();
        let is = |r: &&Arc<Resource>| {
            r.name.as_str() == name
                || *r.plural == *name
                || *r.singular == *name
                || r.short_names.iter().any(|s| **s == *name)
        };
        self.all().find(is)
    }

    /// A kind by its key in the store.
    pub fn by_key(&self, key: &ResourceName) -> Option<&Arc<Resource>> {
        self.all().find(|r| r.name == *key)
    }

    /// Every kind, by group and name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The groups, and the versions of each, the preferred first.
    pub fn groups(&self) -> Vec<(Arc<str>, Vec<Arc<str>>)> {
        let mut groups: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for resource in self.all() {
            let versions = groups.entry(resource.group.clone()).or_default();
            for version in &resource.versions {
                if !versions.contains(&version.name) {
                    versions.push(version.name.clone());
                }
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|v| std::cmp::Reverse(rank(v)));
        }
        groups.into_iter().collect()
    }

    /// Takes in a CustomResourceDefinition, new or changed.
    pub fn define(&mut self, definition: &Value) {
        let mut resource = accept(definition);
        if let Some(kind) = Kind::find(&resource.group, &resource.kind) {
            // The definition of a kind that is built in tells its schema; what it means stays.
            resource.model = Some(kind);
            resource.custom = false;
            for version in kind.versions() {
                if resource.version(version).is_none() {
                    resource.versions.push(Version {
                        patterns: crate::schema::Patterns::default(),
                        name: (*version).into(),
                        schema: self.schemas.0.get(&kind).cloned(),
                        judge: None,
                        columns: resource
                            .versions
                            .first()
                            .map(|v| v.columns.clone())
                            .unwrap_or_default(),
                    });
                }
            }
        } else if self
            .find(&resource.group, &resource.plural)
            .is_some_and(|r| !r.custom)
        {
            return;
        }
        let key = (resource.group.clone(), resource.plural.clone());
        self.resources.insert(key, Arc::new(resource));
        self.serial += 1;
    }

    /// Forgets what a CustomResourceDefinition described.
    pub fn forget(&mut self, group: &str, plural: &str) {
        let key: (Arc<str>, Arc<str>) = (group.into(), plural.into());
        self.resources.remove(&key);
        let builtin = builtin::resources(&self.schemas);
        if let Some(resource) = builtin.into_iter().find(|r| r.is(group, plural)) {
            self.resources.insert(key, Arc::new(resource));
        }
        self.serial += 1;
    }
}

/// How versions are preferred: stable before beta before alpha, newer before older.
fn rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let number = |text: &str| text.parse().unwrap_or(0);
    for (word, stage) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return (stage, number(major), number(minor));
        }
    }
    (3, number(rest), 0)
}

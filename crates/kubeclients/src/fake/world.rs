//! What the fake holds, and everything that it ever held.

use std::collections::BTreeMap;

use model::Kind;
use serde_json::{Value, json};

/// A collection that is served.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Resource {
    /// Empty for the core.
    pub group: &'static str,
    /// The one version.
    pub version: &'static str,
    /// As in paths.
    pub plural: &'static str,
    /// As in objects.
    pub kind: &'static str,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Whether a definition makes it.
    pub custom: bool,
}

const fn builtin(group: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource {
        group,
        version: "v1",
        plural,
        kind,
        namespaced: true,
        custom: false,
    }
}

const fn custom(plural: &'static str, kind: &'static str) -> Resource {
    Resource {
        custom: true,
        ..builtin("networking.istio.io", plural, kind)
    }
}

/// Everything that is served.
pub static RESOURCES: [Resource; 7] = [
    builtin("", "services", "Service"),
    builtin("discovery.k8s.io", "endpointslices", "EndpointSlice"),
    custom("serviceentries", "ServiceEntry"),
    custom("virtualservices", "VirtualService"),
    custom("destinationrules", "DestinationRule"),
    Resource {
        namespaced: false,
        ..builtin("", "namespaces", "Namespace")
    },
    Resource {
        namespaced: false,
        ..builtin(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        )
    },
];

impl Resource {
    /// The one of that kind.
    pub fn of(kind: &str) -> &'static Resource {
        RESOURCES.iter().find(|r| r.kind == kind).unwrap()
    }

    /// Whether it holds the objects of a kind.
    pub fn is(&self, kind: Kind) -> bool {
        kind.name() == self.kind && kind.group() == self.group
    }

    /// As `apiVersion` has it.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// The name of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id {
    /// Its collection.
    pub resource: &'static Resource,
    /// Empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Id {
    /// Of a kind, in a namespace.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            resource: Resource::of(kind),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Something that happened.
#[derive(Clone)]
pub(super) struct Happened {
    pub(super) revision: u64,
    pub(super) id: Id,
    pub(super) how: &'static str,
    pub(super) object: Value,
}

/// The objects, and each state that they ever had.
#[derive(Default)]
pub struct World {
    revision: u64,
    objects: BTreeMap<Id, Value>,
    log: Vec<Happened>,
    /// Watches from before this revision are refused.
    oldest: u64,
    states: BTreeMap<Id, Vec<Option<String>>>,
    /// Lists of which the first page was read, by their tokens.
    pub(super) pages: BTreeMap<String, (u64, Vec<Value>)>,
    /// Whether a watch may ask for what there is.
    pub streaming: bool,
    /// Group versions of custom kinds are not found, as while a server that was just started reads its definitions.
    pub starting: bool,
}

impl World {
    /// A world with the definitions of its custom kinds, and the namespaces `default` and `istio-system`.
    pub fn new(streaming: bool) -> Self {
        let mut world = Self {
            streaming,
            ..Self::default()
        };
        for resource in RESOURCES.iter().filter(|r| r.custom) {
            world.put_object(definition_id(resource), definition(resource), "0");
        }
        for name in ["default", "istio-system"] {
            let id = Id::new("Namespace", "", name);
            let labels = json!({"kubernetes.io/metadata.name": name, "state": "0"});
            world.put_object(id, json!({"metadata": {"labels": labels}}), "0");
        }
        world
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Every state that an object ever had, from its absence at first: its label `state`, or nothing where it was not there.
    pub fn states(&self, id: &Id) -> Option<&[Option<String>]> {
        self.states.get(id).map(Vec::as_slice)
    }

    /// Every object that was ever there.
    pub fn ever(&self) -> impl Iterator<Item = (&Id, &[Option<String>])> {
        self.states.iter().map(|(id, all)| (id, all.as_slice()))
    }

    /// An object as it is now.
    pub fn object(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id)
    }

    /// Makes or changes an object: its label `state` is the revision.
    pub fn put(&mut self, id: &Id) {
        let state = (self.revision + 1).to_string();
        let mut object = body(id, self.revision + 1);
        object["metadata"] = json!({"labels": {"state": state, "app": id.name}});
        self.put_object(id.clone(), object, &state);
    }

    fn put_object(&mut self, id: Id, mut object: Value, state: &str) {
        self.revision += 1;
        let before = self.objects.get(&id);
        let made = before.map_or(self.revision.to_string(), |b| {
            b["metadata"]["annotations"]["made"]
                .as_str()
                .unwrap()
                .to_owned()
        });
        object["apiVersion"] = id.resource.api_version().into();
        object["kind"] = id.resource.kind.into();
        let meta = &mut object["metadata"];
        meta["name"] = id.name.as_str().into();
        if id.resource.namespaced {
            meta["namespace"] = id.namespace.as_str().into();
        }
        meta["resourceVersion"] = self.revision.to_string().into();
        meta["uid"] = format!("00000000-0000-4000-8000-{made:0>12}").into();
        meta["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        meta["annotations"]["made"] = made.into();
        let how = if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.remember(&id, Some(state.to_owned()));
        self.objects.insert(id.clone(), object.clone());
        self.happened(id, how, object);
    }

    /// Removes an object.
    pub fn delete(&mut self, id: &Id) {
        if let Some(mut object) = self.objects.remove(id) {
            self.revision += 1;
            object["metadata"]["resourceVersion"] = self.revision.to_string().into();
            self.remember(id, None);
            self.happened(id.clone(), "DELETED", object);
        }
    }

    fn remember(&mut self, id: &Id, state: Option<String>) {
        let states = self.states.entry(id.clone()).or_insert_with(|| vec![None]);
        states.push(state);
    }

    fn happened(&mut self, id: Id, how: &'static str, object: Value) {
        self.log.push(Happened {
            revision: self.revision,
            id,
            how,
            object,
        });
    }

    /// Forgets what was before the newest revision, and every list of which pages are left.
    pub fn compact(&mut self) {
        self.oldest = self.revision;
        self.pages.clear();
    }

    pub(super) fn is_forgotten(&self, revision: u64) -> bool {
        revision < self.oldest
    }

    /// The objects of a collection now; of all namespaces if `namespace` is empty.
    pub(super) fn list(&self, resource: &Resource, namespace: &str) -> Vec<Value> {
        let all = self.objects.iter();
        all.filter(|(id, _)| Self::within(id, resource, namespace))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// The objects of a collection as they were at a revision.
    pub(super) fn list_at(&self, resource: &Resource, namespace: &str, at: u64) -> Vec<Value> {
        let mut then: BTreeMap<&Id, &Value> = BTreeMap::new();
        for event in self.log.iter().take_while(|e| e.revision <= at) {
            match event.how {
                "DELETED" => then.remove(&event.id),
                _ => then.insert(&event.id, &event.object),
            };
        }
        let within = then
            .into_iter()
            .filter(|(id, _)| Self::within(id, resource, namespace));
        within.map(|(_, object)| object.clone()).collect()
    }

    /// What happened in a collection after a revision.
    pub(super) fn since(&self, resource: &Resource, namespace: &str, after: u64) -> Vec<Happened> {
        let first = self.log.partition_point(|e| e.revision <= after);
        let later = self.log[first..].iter();
        later
            .filter(|e| Self::within(&e.id, resource, namespace))
            .cloned()
            .collect()
    }

    fn within(id: &Id, resource: &Resource, namespace: &str) -> bool {
        id.resource == resource && (namespace.is_empty() || id.namespace == namespace)
    }

    /// Whether requests for a collection are answered: its definition is there, and read.
    pub(super) fn serves(&self, resource: &Resource) -> bool {
        !resource.custom || (!self.starting && self.objects.contains_key(&definition_id(resource)))
    }
}

fn definition_id(resource: &Resource) -> Id {
    let name = format!("{}.{}", resource.plural, resource.group);
    Id::new("CustomResourceDefinition", "", &name)
}

fn definition(resource: &Resource) -> Value {
    let names = json!({"plural": resource.plural, "kind": resource.kind, "listKind": format!("{}List", resource.kind),
        "singular": resource.kind.to_lowercase()});
    let version = json!({"name": resource.version, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let conditions = ["NamesAccepted", "Established"].map(|name| {
        json!({"type": name, "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    json!({"metadata": {"labels": {"state": "0"}},
        "spec": {"group": resource.group, "names": names, "scope": "Namespaced", "versions": [version]},
        "status": {"acceptedNames": names, "storedVersions": [resource.version], "conditions": conditions}})
}

/// An object that is valid, and another one at each revision.
fn body(id: &Id, revision: u64) -> Value {
    let address = format!(
        "10.{}.{}.{}",
        revision >> 16 & 255,
        revision >> 8 & 255,
        revision & 255
    );
    let host = format!("{}.example.com", id.name);
    match id.resource.kind {
        "Service" => {
            json!({"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"],
            "ports": [{"name": "http", "port": 80 + revision % 1000, "targetPort": 8080, "protocol": "TCP"}],
            "selector": {"app": id.name}}})
        }
        "EndpointSlice" => {
            json!({"addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}]})
        }
        "ServiceEntry" => {
            json!({"spec": {"hosts": [host], "resolution": "STATIC", "location": "MESH_EXTERNAL",
            "ports": [{"name": "http", "number": 80, "protocol": "HTTP"}], "endpoints": [{"address": address}]}})
        }
        "VirtualService" => json!({"spec": {"hosts": [host],
            "http": [{"timeout": format!("{revision}s"), "route": [{"destination": {"host": host}}]}]}}),
        "DestinationRule" => json!({"spec": {"host": host,
            "trafficPolicy": {"connectionPool": {"tcp": {"maxConnections": revision}}}}}),
        _ => json!({}),
    }
}

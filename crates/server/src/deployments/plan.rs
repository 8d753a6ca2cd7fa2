//! What is to be deployed for each Gateway, as a function of the objects in force, brought up to date Gateway by Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use convert::gateway_api::Controller;
use inject::gateway::{
    Class, DEFAULTS_LABEL, Deployment, KINDS, Kind as Deployed, Managed, NAME_LABEL, Overlay,
    Switches, Undeployed, managed,
};
use inject::{Fault, Settings, effective_proxy_config};
use model::kinds::gateway_api::{FromNamespaces, Gateway, Listener};
use model::kinds::kube::ConfigMap;
use model::labels::Labels;
use model::names::Namespace;
use model::object::Origin;
use model::{Kind, Meta, Object, ObjectKey, ObjectName, SourceId};
use store::Snapshot;
use store::index::{IndexEntry, ObjectIndex, reference_value};
use writeback::ObjectRef;
use writeback::sets::{Set, Sets};

use crate::tags::Tags;

/// The most bytes of ConfigMaps that are laid over the objects of a Gateway.
const LARGEST_OVERLAY: usize = 256 << 10;

/// What holds for all Gateways.
pub(super) struct World<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Templates and values, mesh config and revision.
    pub(super) settings: &'a Settings,
    pub(super) tags: &'a Tags,
    pub(super) place: &'a PlaceOf,
}

/// Where Gateways are read from and deployed to.
pub(super) struct PlaceOf {
    /// The source that tells of its objects.
    pub(super) source: SourceId,
    /// The namespace of the control plane.
    pub(super) system: Namespace,
    /// The name of the cluster.
    pub(super) cluster: String,
    /// The version of its API.
    pub(super) kubernetes: u32,
    /// `PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS`.
    pub(super) copy_metadata: bool,
    /// `ENABLE_NATIVE_SIDECARS`.
    pub(super) native_sidecars: bool,
}

/// What is planned for a Gateway.
struct Planned {
    set: Result<Arc<Set>, Undeployed>,
}

/// What is planned for all Gateways.
#[derive(Default)]
pub(super) struct Plan {
    planned: BTreeMap<ObjectName, Planned>,
    /// The objects that each Gateway's plan was made of.
    read: BTreeMap<ObjectName, BTreeSet<ObjectKey>>,
    /// The other way round.
    readers: BTreeMap<ObjectKey, BTreeSet<ObjectName>>,
    /// ConfigMaps of the system namespace that count for a class.
    defaults: BTreeMap<ObjectName, String>,
}

impl Plan {
    /// Plans everything anew.
    pub(super) fn all(&mut self, world: &World<'_>) {
        *self = Self::default();
        let maps = world
            .snapshot
            .tables
            .config_maps
            .iter_in(&world.place.system);
        for map in maps {
            if let Some(class) = default_of(map) {
                self.defaults.insert(map.meta.name.clone(), class);
            }
        }
        let all: Vec<_> = world
            .snapshot
            .tables
            .kube_gateways
            .iter()
            .cloned()
            .collect();
        for gateway in all {
            self.plan(world, &gateway.meta.name);
        }
    }

    /// Plans anew what changed objects have a say in; whether there is any such thing.
    pub(super) fn update(&mut self, world: &World<'_>, changed: &BTreeSet<ObjectKey>) -> bool {
        let mut due: BTreeSet<ObjectName> = BTreeSet::new();
        let tables = &world.snapshot.tables;
        for key in changed {
            due.extend(self.readers.get(key).into_iter().flatten().cloned());
            match key.kind {
                Kind::KubeGateway => _ = due.insert(key.name.clone()),
                Kind::ListenerSet => {
                    let set = tables.listener_sets.get(&key.name);
                    let parent = set.and_then(|s| s.spec.parent_ref.key(s.meta.namespace()));
                    due.extend(parent.map(|parent| parent.name));
                }
                Kind::ConfigMap if key.name.namespace == world.place.system => {
                    let class = tables.config_maps.get(&key.name).and_then(default_of);
                    let before = match &class {
                        Some(class) => self.defaults.insert(key.name.clone(), class.clone()),
                        None => self.defaults.remove(&key.name),
                    };
                    let of_class: BTreeSet<String> = before.into_iter().chain(class).collect();
                    if !of_class.is_empty() {
                        let all = tables.kube_gateways.iter();
                        let concerned =
                            all.filter(|g| of_class.contains(&*g.spec.gateway_class_name));
                        due.extend(concerned.map(|g| g.meta.name.clone()));
                    }
                }
                _ => {}
            }
        }
        for name in &due {
            self.plan(world, name);
        }
        !due.is_empty()
    }

    /// What is to be applied.
    pub(super) fn sets(&self) -> Sets {
        let sets = self.planned.iter().filter_map(|(name, planned)| {
            let set = planned.set.as_ref().ok()?;
            Some((ObjectRef::of(Kind::KubeGateway, name), set.clone()))
        });
        Arc::new(sets.collect())
    }

    /// Gateways for which nothing can be deployed, and why.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&ObjectName, &Undeployed)> {
        let all = self.planned.iter();
        all.filter_map(|(name, planned)| Some((name, planned.set.as_ref().err()?)))
    }

    fn plan(&mut self, world: &World<'_>, name: &ObjectName) {
        for key in self.read.remove(name).into_iter().flatten() {
            if let Some(readers) = self.readers.get_mut(&key) {
                readers.remove(name);
                if readers.is_empty() {
                    self.readers.remove(&key);
                }
            }
        }
        self.planned.remove(name);
        let Some(gateway) = world.snapshot.tables.kube_gateways.get(name) else {
            return;
        };
        let mut one = One {
            world,
            gateway,
            defaults: &self.defaults,
            read: BTreeSet::new(),
        };
        let set = one.set();
        let read = one.read;
        for key in &read {
            let readers = self.readers.entry(key.clone()).or_default();
            readers.insert(name.clone());
        }
        self.read.insert(name.clone(), read);
        if let Some(set) = set {
            let set = set.map(Arc::new);
            self.planned.insert(name.clone(), Planned { set });
        }
    }
}

/// The class that a ConfigMap is laid over.
fn default_of(map: &Arc<Object<ConfigMap>>) -> Option<String> {
    let is_here = map.meta.name.cluster.is_none();
    let class = map.meta.labels.get(DEFAULTS_LABEL).filter(|_| is_here);
    class.map(str::to_owned)
}

/// A ConfigMap that is laid over the objects of a Gateway, and whether it is of the class.
type LaidOver = (Arc<Object<ConfigMap>>, bool);

/// The plan of one Gateway, and what it is made of.
struct One<'a> {
    world: &'a World<'a>,
    gateway: &'a Arc<Object<Gateway>>,
    defaults: &'a BTreeMap<ObjectName, String>,
    read: BTreeSet<ObjectKey>,
}

impl<'a> One<'a> {
    fn reads(&mut self, kind: Kind, name: &ObjectName) {
        let name = name.clone();
        self.read.insert(ObjectKey { kind, name });
    }

    /// Labels and annotations of a namespace.
    fn namespace(&mut self, name: &Namespace) -> Option<&'a Meta> {
        let name = ObjectName::new("", name.as_arc().clone());
        self.reads(Kind::Namespace, &name);
        let found = self.world.snapshot.tables.namespaces.get(&name);
        found.map(|namespace| &namespace.meta)
    }

    /// What is to be applied; `None` where nothing is to be deployed.
    fn set(&mut self) -> Option<Result<Set, Undeployed>> {
        let (world, meta) = (self.world, &self.gateway.meta);
        let here = meta.name.cluster.is_none()
            && matches!(&meta.origin, Origin::Source(of) if *of == world.place.source);
        if !here {
            return None;
        }
        let spec = &self.gateway.spec;
        let features = &world.snapshot.settings.features;
        let namespace = self.namespace(meta.namespace());
        let class_name = ObjectName::new("", spec.gateway_class_name.clone());
        self.reads(Kind::GatewayClass, &class_name);
        let class = world.snapshot.tables.gateway_classes.get(&class_name);
        let controller =
            Controller::of(&spec.gateway_class_name, class.map(|c| &c.spec), features)?;
        let class = match controller {
            Controller::Gateway => Class::GATEWAY,
            Controller::Waypoint => Class::WAYPOINT,
            Controller::EastWest => Class::EAST_WEST,
            Controller::Remote => return None,
        };
        let discovered = ObjectName::new("", meta.namespace().as_arc().clone());
        let ours = store::discovers(world.snapshot, &discovered)
            && world
                .tags
                .are_of(&meta.labels, namespace.map(|n| &n.labels))
            && spec.is_deployed(features.gateway_manual_deployment)
            && managed(&meta.annotations) != Managed::Theirs;
        ours.then(|| self.deployed(controller, &class, namespace))
    }

    fn deployed(
        &mut self,
        controller: Controller,
        class: &Class,
        namespace: Option<&Meta>,
    ) -> Result<Set, Undeployed> {
        let (world, gateway) = (self.world, self.gateway);
        let features = &world.snapshot.settings.features;
        let more_listeners = match controller.takes_listener_sets() {
            true => self.more_listeners(),
            false => Vec::new(),
        };
        let overlays = self.overlays()?;
        let overlays = overlays.iter().map(|(map, of_class)| Overlay {
            data: &map.spec.data,
            of_class: *of_class,
        });
        let overlays: Vec<_> = overlays.collect();
        let proxy = self.proxy_config();
        let deployment = Deployment {
            gateway,
            class,
            controller: controller.name(features),
            more_listeners: &more_listeners,
            overlays: &overlays,
            proxy: &proxy,
            namespace_annotations: namespace.map(|n| &n.annotations),
            cluster: &world.place.cluster,
            kubernetes: world.place.kubernetes,
            switches: Switches {
                copy_metadata: world.place.copy_metadata,
                ambient: features.ambient_waypoints,
                quic: features.quic_listeners,
                native_sidecars: world.place.native_sidecars,
                any_overlay: features.any_gateway_overlay,
            },
            settings: world.settings,
        };
        let objects = deployment.objects()?;
        let objects = objects.into_iter();
        let objects: Vec<_> = objects
            .filter_map(|object| Some((reference(&object)?, object)))
            .collect();
        let on_demand = KINDS
            .iter()
            .filter(|kind| !["", "apps"].contains(&kind.group));
        let on_demand = on_demand.map(|kind| {
            let namespace = gateway.meta.namespace().as_arc().clone();
            named(*kind, namespace, deployment.name().into())
        });
        let unwanted = on_demand.filter(|object| objects.iter().all(|(of, _)| of != object));
        Ok(Set {
            uid: gateway.meta.uid.clone(),
            unwanted: unwanted.collect(),
            objects,
        })
    }

    /// Listeners that ListenerSets add, where the Gateway lets them.
    fn more_listeners(&mut self) -> Vec<Listener> {
        let tables = &self.world.snapshot.tables;
        let key = ObjectKey {
            kind: Kind::KubeGateway,
            name: self.gateway.meta.name.clone(),
        };
        let entry = IndexEntry {
            index: ObjectIndex::Parent,
            value: reference_value(&key).into(),
        };
        let mut listeners = Vec::new();
        for name in tables.listener_sets.by_index(&entry) {
            self.reads(Kind::ListenerSet, name);
            let Some(set) = tables.listener_sets.get(name) else {
                continue;
            };
            if set.meta.name.cluster.is_none() && self.admits(set.meta.namespace()) {
                listeners.extend(set.spec.listeners.iter().cloned());
            }
        }
        listeners
    }

    /// Whether ListenerSets of a namespace may add to the Gateway.
    ///
    /// Istio: pilot/pkg/config/kube/gatewaycommon/gateway_utils.go NamespaceAcceptedByAllowListeners, 1.32.
    fn admits(&mut self, namespace: &Namespace) -> bool {
        let allowed = self.gateway.spec.allowed_listeners.as_ref();
        let Some(allowed) = allowed.and_then(|allowed| allowed.namespaces.as_ref()) else {
            return false;
        };
        match allowed.from {
            Some(FromNamespaces::All) => true,
            Some(FromNamespaces::Same) => namespace == self.gateway.meta.namespace(),
            Some(FromNamespaces::None) => false,
            Some(FromNamespaces::Selector) | None => {
                let Some(labels) = self.namespace(namespace).map(|meta| &meta.labels) else {
                    return false;
                };
                let named = [("kubernetes.io/metadata.name", namespace.as_str())];
                let stated = labels.iter().map(|(key, value)| (&**key, &**value));
                let labels: Labels = named.into_iter().chain(stated).collect();
                let selector = allowed.selector.as_ref();
                selector.is_some_and(|selector| selector.matches(&labels))
            }
        }
    }

    /// The ConfigMaps that are laid over the objects, and whether each is of the class: the oldest of the class, then the
    /// Gateway's own.
    fn overlays(&mut self) -> Result<Vec<LaidOver>, Fault> {
        let maps = &self.world.snapshot.tables.config_maps;
        let spec = &self.gateway.spec;
        let of_class = self.defaults.iter();
        let of_class = of_class.filter(|(_, class)| **class == *spec.gateway_class_name);
        let of_class = of_class.filter_map(|(name, _)| maps.get(name));
        let oldest = of_class.min_by_key(|map| (map.meta.created, map.meta.name.clone()));
        let oldest = oldest.map(|map| (map.clone(), true));
        let mut overlays: Vec<_> = oldest.into_iter().collect();
        let infrastructure = spec.infrastructure.as_ref();
        if let Some(named) = infrastructure.and_then(|i| i.parameters_ref.as_ref()) {
            if (&*named.group, &*named.kind) != ("", "ConfigMap") {
                return Err(Fault::new(format!(
                    "its parametersRef names a {:?} of group {:?}; only a ConfigMap can be laid over what is deployed",
                    named.kind, named.group
                )));
            }
            let namespace = self.gateway.meta.namespace().clone();
            let name = ObjectName::new(namespace, named.name.clone());
            self.reads(Kind::ConfigMap, &name);
            let map = maps.get(&name);
            let map = map.ok_or_else(|| {
                Fault::new(format!(
                    "there is no ConfigMap {name}, which its parametersRef names"
                ))
            })?;
            overlays.push((map.clone(), false));
        }
        let entries = overlays.iter().flat_map(|(map, _)| &map.spec.data);
        let bytes: usize = entries.map(|(_, text)| text.len()).sum();
        match bytes {
            0..=LARGEST_OVERLAY => Ok(overlays),
            _ => Err(Fault::new(format!(
                "the ConfigMaps that are laid over what is deployed have {bytes} bytes, {LARGEST_OVERLAY} at most are allowed"
            ))),
        }
    }

    fn proxy_config(&self) -> model::mesh::ProxyConfig {
        let snapshot = self.world.snapshot;
        let mut all: Vec<_> = snapshot.tables.proxy_configs.iter().collect();
        all.sort_by_key(|object| object.meta.created);
        let all = all
            .iter()
            .map(|object| (object.meta.namespace().as_str(), &object.spec));
        let meta = &self.gateway.meta;
        let labels = [(NAME_LABEL, meta.name.name.as_str())]
            .into_iter()
            .collect();
        let namespace = meta.namespace().as_str();
        effective_proxy_config(&self.world.settings.mesh, all, namespace, &labels, None)
    }
}

/// An object of a kind that is deployed, as requests name it.
pub(super) fn named(kind: Deployed, namespace: Arc<str>, name: Arc<str>) -> ObjectRef {
    ObjectRef {
        group: kind.group.into(),
        version: kind.version.into(),
        kind: kind.kind.into(),
        plural: kind.plural.into(),
        namespace,
        name,
    }
}

/// The object as requests name it; `None` where it is not of a kind that is deployed.
fn reference(object: &serde_json::Value) -> Option<ObjectRef> {
    let text = |field: &str| object["metadata"][field].as_str().map(Arc::from);
    let kind = Deployed::of(object)?;
    Some(named(kind, text("namespace")?, text("name")?))
}

#[cfg(test)]
mod tests;

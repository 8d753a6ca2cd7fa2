//! Which labels of a workload configuration reads: keys hold these and no others.
//!
//! Objects that read labels stand in an index ([`ObjectIndex::LabelReader`]), so that asking costs what these are, and an
//! edit of any other object concerns nobody here.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::{
    AuthorizationPolicy, DestinationRule, EnvoyFilter, Gateway, PeerAuthentication,
    RequestAuthentication, ServiceEntry, Telemetry, TrafficExtension, VirtualService, WasmPlugin,
};
use model::kinds::kube::{NamespaceSpec, Service};
use model::labels::Labels;
use model::names::Namespace;
use store::index::{ANYWHERE, PLACE};
use store::label_reader::{LabelReader, Reading, label_of};
use store::snapshot::Stored;
use store::{ObjectIndex, Reads, Snapshot};

/// What reads labels of proxies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reader {
    /// DestinationRules of the proxy's namespace, for some of its workloads.
    DestinationRules,
    /// Matches of VirtualServices, of any namespace.
    VirtualServices,
    /// EnvoyFilters of the proxy's namespace and the root namespace.
    EnvoyFilters,
    /// Authorization and authentication policies of both.
    Policies,
    /// Telemetry of both.
    Telemetry,
    /// WasmPlugins and TrafficExtensions of both.
    Extensions,
    /// Gateways of any namespace.
    Gateways,
    /// What compares the place of a client with that of endpoints.
    Places,
}

impl Reader {
    /// Of the labels of a workload in a namespace, those that this reads.
    pub fn narrow(self, cx: &Cx<'_, Snapshot>, namespace: &Namespace, labels: &Labels) -> Labels {
        if labels.is_empty() {
            return Labels::default();
        }
        let names = cx.query(&NamesReadBy {
            reader: self,
            namespace: match self {
                Self::VirtualServices | Self::Gateways | Self::Places => "".into(),
                _ => namespace.clone(),
            },
        });
        only(labels, |name| names.contains(name))
    }
}

/// The labels whose names are wanted.
pub fn only(labels: &Labels, wanted: impl Fn(&str) -> bool) -> Labels {
    let kept = labels.iter().filter(|(key, _)| wanted(key));
    kept.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The names of the labels that a reader reads of workloads of a namespace, or of any where it is empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct NamesReadBy {
    reader: Reader,
    namespace: Namespace,
}

impl Query<Snapshot> for NamesReadBy {
    type Value = Arc<BTreeSet<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut names = Names {
            cx,
            found: BTreeSet::new(),
        };
        let root = cx.settings().mesh.root_namespace.as_str();
        let both = BTreeSet::from([self.namespace.as_str(), root]);
        match self.reader {
            Reader::DestinationRules => names.of::<DestinationRule>(&self.namespace),
            Reader::VirtualServices => names.of::<VirtualService>(ANYWHERE),
            Reader::EnvoyFilters => both.iter().for_each(|n| names.of::<EnvoyFilter>(n)),
            Reader::Policies => both.iter().for_each(|n| {
                names.of::<AuthorizationPolicy>(n);
                names.of::<RequestAuthentication>(n);
                names.of::<PeerAuthentication>(n);
            }),
            Reader::Telemetry => both.iter().for_each(|n| names.of::<Telemetry>(n)),
            Reader::Extensions => both.iter().for_each(|n| {
                names.of::<WasmPlugin>(n);
                names.of::<TrafficExtension>(n);
            }),
            Reader::Gateways => {
                for gateway in cx.list::<Gateway>() {
                    gateway.spec.selector.keys().for_each(|key| names.add(key));
                }
            }
            Reader::Places => names.of_places(),
        }
        Arc::new(names.found)
    }
}

struct Names<'a, 'c> {
    cx: &'a Cx<'c, Snapshot>,
    found: BTreeSet<Arc<str>>,
}

impl Names<'_, '_> {
    fn add(&mut self, name: &str) {
        if !self.found.contains(name) {
            self.found.insert(name.into());
        }
    }

    /// The labels by which objects found under a value of the index select.
    fn of<T: Stored + LabelReader>(&mut self, value: &str) {
        self.read::<T>(value, Reading::Selection);
    }

    fn read<T: Stored + LabelReader>(&mut self, value: &str, wanted: Reading) {
        for object in self.cx.list_by::<T>(ObjectIndex::LabelReader, value) {
            T::labels_read(&object, &mut |reading, name| {
                if reading == wanted {
                    self.add(name);
                }
            });
        }
    }

    fn of_places(&mut self) {
        self.read::<DestinationRule>(PLACE, Reading::Place);
        self.read::<Service>(PLACE, Reading::Place);
        self.read::<ServiceEntry>(PLACE, Reading::Place);
        self.read::<NamespaceSpec>(PLACE, Reading::Place);
        let mesh = &self.cx.settings().mesh;
        let setting = mesh.locality_lb_setting.iter();
        for priority in setting.flat_map(|s| &s.failover_priority) {
            self.add(label_of(priority));
        }
    }
}

//! VirtualServices as rules: hosts resolved, delegates merged, listed by who may see them and by gateway.
//!
//! A list of rules holds [`VirtualServiceHead`]s: what decides who uses a rule. An edit of a rule's routes leaves every list equal,
//! so that only what reads that one rule with [`VirtualServiceOf`] is derived again.
//!
//! Istio: pilot/pkg/model/virtualservice_controller.go and push_context.go initVirtualServices, 1.32.

mod charge;
mod delegate;
mod destinations;
mod owned;
mod resolve;
mod spec;
#[cfg(test)]
mod tables;
mod weight;

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::age::Age;
use model::edge::EdgeRoute;
use model::kinds::istio::VirtualService;
use model::names::Namespace;
use model::object::{Object, ObjectKey, ObjectName};
use model::service::Visibility;
use model::session::Session;
use store::index::ObjectIndex;
use store::{Reads, Snapshot};

use crate::limits;

use owned::Foreign;

pub use delegate::find as delegate;
pub use destinations::{Destinations, DestinationsOf};
pub(crate) use owned::ForeignInMesh;
pub use owned::NotOwnedInMesh;
pub use resolve::host_name;
pub use spec::RuleSpec;

/// The name under which every sidecar is a gateway.
pub const MESH: &str = "mesh";

/// What a VirtualService was made from, which changes the meaning of some fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Semantics {
    /// Written as a VirtualService.
    #[default]
    Istio,
    /// Made from an Ingress.
    Ingress,
    /// Made from Ingresses with annotations.
    Edge,
    /// Made from a route of the Gateway API.
    Gateway,
}

impl Semantics {
    fn of(object: &Object<VirtualService>) -> Self {
        use model::derived::Semantics as Of;
        match object.meta.derived.as_ref().map(|d| &d.semantics) {
            Some(Of::Ingress) => Self::Ingress,
            Some(Of::Edge) => Self::Edge,
            Some(Of::GatewayApi(_)) => Self::Gateway,
            Some(Of::Istio) | None => Self::Istio,
        }
    }
}

/// A VirtualService ready to be used: short names resolved, delegates merged in, visibility decided.
#[derive(Clone, PartialEq, Debug)]
pub struct ResolvedVirtualService {
    /// The root VirtualService.
    pub name: ObjectName,
    /// Every VirtualService that contributed, the root first.
    pub from: Vec<ObjectName>,
    /// What the root was made from, where nobody wrote it: the object that it is named after.
    pub made_from: Option<ObjectKey>,
    /// When the root was created.
    pub created: Age,
    /// Who may see it.
    pub export_to: Visibility,
    /// What it was made from.
    pub semantics: Semantics,
    /// The rule itself.
    pub spec: RuleSpec,
    /// About the bytes that its routes make, once: the more of those for requests and those for connections.
    pub weight: usize,
    /// What of it is refused because it makes too much.
    pub excess: Excess,
    /// How HTTP routes keep sessions, by their place.
    pub sessions: BTreeMap<usize, Arc<Session>>,
    /// What HTTP routes ask for that Istio's kind has no field for, by their place.
    pub edge: BTreeMap<usize, Arc<EdgeRoute>>,
}

/// What of a rule is refused because it makes more than [`limits`] allows, by itself or with its delegates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Excess {
    /// The places of the routes that have too many matches together with their delegates.
    pub delegates: Vec<usize>,
    /// Whether the HTTP routes weigh too much.
    pub http: bool,
    /// Whether the TCP or TLS routes do.
    pub layer4: bool,
    /// Whether nothing of the namespace's budget is left for it, so that all of it is refused.
    pub budget: bool,
}

impl Excess {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ResolvedVirtualService {
    /// The namespace of the root.
    pub fn namespace(&self) -> &Namespace {
        &self.name.namespace
    }
}

/// What decides who uses a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualServiceHead {
    /// The root VirtualService.
    pub name: ObjectName,
    /// What the root was made from, where nobody wrote it: the object that it is named after.
    pub made_from: Option<Box<ObjectKey>>,
    /// When the root was created.
    pub created: Age,
    /// Who may see it.
    pub export_to: Visibility,
    /// What it was made from.
    pub semantics: Semantics,
    /// The hosts it is about, in the order written.
    pub hosts: Box<[Arc<str>]>,
    /// The gateways that apply it, as `namespace/name`, and [`MESH`] for sidecars; never empty.
    pub gateways: Box<[Arc<str>]>,
    /// Whether it has TCP or TLS routes, so that listeners follow it.
    pub layer4: bool,
    /// The class of its weight.
    pub class: u8,
    /// What of it is refused; nearly always nothing.
    pub excess: Option<Box<Excess>>,
}

impl VirtualServiceHead {
    fn of(rule: &ResolvedVirtualService) -> Self {
        let gateways = &rule.spec.gateways;
        Self {
            name: rule.name.clone(),
            made_from: rule.made_from.clone().map(Box::new),
            created: rule.created,
            export_to: rule.export_to.clone(),
            semantics: rule.semantics,
            hosts: rule.spec.hosts.iter().map(|h| h.as_str().into()).collect(),
            gateways: if gateways.is_empty() {
                Box::new([MESH.into()])
            } else {
                gateways.iter().map(|g| g.as_str().into()).collect()
            },
            layer4: !rule.spec.tcp.is_empty() || !rule.spec.tls.is_empty(),
            class: weight::class(rule.weight),
            excess: (!rule.excess.is_empty()).then(|| Box::new(rule.excess.clone())),
        }
    }

    /// What its routes weigh at most.
    pub fn weight(&self) -> usize {
        weight::bound(self.class)
    }

    /// The namespace of the root.
    pub fn namespace(&self) -> &Namespace {
        &self.name.namespace
    }

    /// Whether everybody may see it.
    pub fn is_public(&self) -> bool {
        self.export_to == Visibility::Public
    }

    /// Older rules first, then by name and namespace.
    fn order(&self) -> (Age, &str, &str) {
        (self.created, &self.name.name, &self.name.namespace)
    }
}

/// The rule that a VirtualService makes; none for a delegate (which has no hosts) or where there is none of the name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VirtualServiceOf(pub ObjectName);

impl Query<Snapshot> for VirtualServiceOf {
    type Value = Option<Arc<ResolvedVirtualService>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<ResolvedVirtualService>> {
        let object = cx.get::<VirtualService>(&self.0)?;
        if object.spec.hosts.is_empty() {
            return None;
        }
        let settings = cx.settings();
        let semantics = Semantics::of(&object);
        let mut from = vec![self.0.clone()];
        let mut spec = object.spec.clone();
        let mut excess = Excess::default();
        if semantics == Semantics::Istio && charge::rule_is_over(cx, &self.0) {
            excess.budget = true;
            // Delegates are part of what is refused.
            weight::refuse(&mut spec);
        }
        if semantics != Semantics::Gateway {
            resolve::resolve(&mut spec, &self.0.namespace, &settings.domain);
        }
        if semantics == Semantics::Istio && spec.http.iter().any(|r| r.delegate.is_some()) {
            let merged = delegate::merge_all(cx, &self.0.namespace, spec.http, &mut from);
            spec.http = merged.routes;
            excess.delegates = merged.refused;
        }
        let derived = object.meta.derived.as_ref();
        let mut sessions = derived.map_or_else(BTreeMap::new, |made| made.sessions.clone());
        let mut edge = derived.map_or_else(BTreeMap::new, |made| made.edge.clone());
        let asked = weight::of_edge(&spec.http, &edge);
        let mut http = weight::of_http(&spec.http).saturating_add(asked);
        if http > limits::RULE_BYTES {
            excess.http = true;
            sessions.clear();
            edge.clear();
            weight::refuse_http(&mut spec);
            http = weight::of_http(&spec.http);
        }
        let mut layer4 = weight::of_layer4(&spec);
        if layer4 > limits::RULE_BYTES {
            excess.layer4 = true;
            weight::refuse_layer4(&mut spec);
            layer4 = weight::of_layer4(&spec);
        }
        Some(Arc::new(ResolvedVirtualService {
            weight: http.max(layer4),
            excess,
            export_to: export_to(cx, &object),
            name: self.0.clone(),
            from,
            made_from: derived.and_then(|made| made.from.first()).cloned(),
            created: object.meta.created,
            semantics,
            spec: RuleSpec::of(&object, spec),
            sessions,
            edge,
        }))
    }
}

/// A rule as it is followed where its routes would be copied too often: what it is about is refused.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RefusedVirtualService(pub ObjectName);

impl Query<Snapshot> for RefusedVirtualService {
    type Value = Option<Arc<ResolvedVirtualService>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<ResolvedVirtualService>> {
        let rule = (*cx.query(&VirtualServiceOf(self.0.clone()))).clone()?;
        let spec = &rule.spec;
        let mut spec = VirtualService {
            hosts: spec.hosts.clone(),
            gateways: spec.gateways.clone(),
            http: spec.http.iter().take(1).cloned().collect(),
            tls: spec.tls.iter().take(1).cloned().collect(),
            tcp: spec.tcp.iter().take(1).cloned().collect(),
            export_to: spec.export_to.clone(),
        };
        weight::refuse(&mut spec);
        Some(Arc::new(ResolvedVirtualService {
            name: rule.name.clone(),
            from: rule.from.clone(),
            made_from: rule.made_from.clone(),
            export_to: rule.export_to.clone(),
            excess: rule.excess.clone(),
            spec: RuleSpec::Made(Box::new(spec)),
            sessions: BTreeMap::new(),
            edge: BTreeMap::new(),
            ..*rule
        }))
    }
}

/// Who may see a VirtualService.
fn export_to(cx: &Cx<'_, Snapshot>, object: &Object<VirtualService>) -> Visibility {
    let stated = if object.spec.export_to.is_empty() {
        &cx.settings().mesh.default_virtual_service_export_to
    } else {
        &object.spec.export_to
    };
    if stated.is_empty() || stated.iter().any(|e| e == "*") {
        return Visibility::Public;
    }
    if stated.iter().any(|e| e == "~") {
        return Visibility::Namespaces(Arc::from([]));
    }
    let mut namespaces: Vec<Namespace> = stated
        .iter()
        .map(|e| match e.as_str() {
            "." => object.namespace().clone(),
            namespace => namespace.into(),
        })
        .collect();
    namespaces.sort();
    namespaces.dedup();
    Visibility::Namespaces(namespaces.into())
}

/// The head of the rule that a VirtualService makes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeadOf(pub ObjectName);

impl Query<Snapshot> for HeadOf {
    type Value = Option<Arc<VirtualServiceHead>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<VirtualServiceHead>> {
        cx.query(&VirtualServiceOf(self.0.clone()))
            .as_ref()
            .as_ref()
            .map(|rule| Arc::new(VirtualServiceHead::of(rule)))
    }
}

/// The heads of the rules of a namespace, oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HeadsIn(Namespace);

impl Query<Snapshot> for HeadsIn {
    type Value = Arc<[Arc<VirtualServiceHead>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        cx.names_in::<VirtualService>(&self.0)
            .into_iter()
            .filter_map(|name| (*cx.query(&HeadOf(name))).clone())
            .collect()
    }
}

/// The heads of every rule, oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AllHeads;

impl Query<Snapshot> for AllHeads {
    type Value = Arc<[Arc<VirtualServiceHead>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut heads: Vec<Arc<VirtualServiceHead>> = Vec::new();
        for namespace in cx.namespaces::<VirtualService>() {
            heads.extend(cx.query(&HeadsIn(namespace)).iter().cloned());
        }
        heads.sort_by(|a, b| a.order().cmp(&b.order()));
        heads.into()
    }
}

/// The heads of the rules that a gateway applies, oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HeadsOf(Arc<str>);

impl Query<Snapshot> for HeadsOf {
    type Value = Arc<[Arc<VirtualServiceHead>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let names = cx.names_by::<VirtualService>(ObjectIndex::Gateway, &self.0);
        let heads = names
            .into_iter()
            .filter_map(|name| (*cx.query(&HeadOf(name))).clone());
        let mut heads: Vec<_> = heads.collect();
        heads.sort_by(|a, b| a.order().cmp(&b.order()));
        heads.into()
    }
}

/// The rules that a gateway applies and a namespace may see, in the order in which they apply: those private to the
/// namespace, those exported to it by name, those for everybody; each oldest first.
///
/// Istio: pilot/pkg/model/push_context.go initVirtualServices and VirtualServicesForGateway, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VirtualServicesFor {
    /// Who asks.
    pub namespace: Namespace,
    /// `namespace/name` of a gateway, or [`MESH`].
    pub gateway: Arc<str>,
}

impl Query<Snapshot> for VirtualServicesFor {
    type Value = VirtualServiceLists;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> VirtualServiceLists {
        let mut lists = VirtualServiceLists::default();
        let heads = match &*self.gateway {
            // Rules that name no gateway are for it.
            MESH => cx.query(&AllHeads),
            gateway => cx.query(&HeadsOf(gateway.into())),
        };
        let foreign = Foreign::among(cx, self, &heads);
        for head in heads.iter() {
            let times = head.gateways.iter().filter(|g| **g == self.gateway).count();
            let times = times.min(limits::REPEATED_GATEWAYS);
            if times == 0 || !head.export_to.allows(&self.namespace) {
                continue;
            }
            let kept = foreign.as_ref().map(|foreign| foreign.kept(cx, head));
            let head = match &kept {
                None => head,
                Some(Some(kept)) => kept,
                Some(None) => continue,
            };
            let list = if head.is_public() {
                &mut lists.public
            } else if *head.namespace() == self.namespace {
                &mut lists.private
            } else {
                &mut lists.exported
            };
            // A rule that names the gateway twice is there twice: a gateway then appends its routes twice.
            list.extend(std::iter::repeat_n(head.clone(), times));
        }
        lists
    }
}

/// Rules by how a namespace comes to see them; each list oldest first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct VirtualServiceLists {
    /// Of the namespace itself, for nobody else.
    pub private: Vec<Arc<VirtualServiceHead>>,
    /// Exported to the namespace by name.
    pub exported: Vec<Arc<VirtualServiceHead>>,
    /// For everybody.
    pub public: Vec<Arc<VirtualServiceHead>>,
}

impl VirtualServiceLists {
    /// All of them, as gateways and waypoints of `namespace` apply them: of the public ones, routes of the Gateway API
    /// in the same namespace come first.
    pub fn for_gateway(
        &self,
        namespace: &Namespace,
    ) -> impl Iterator<Item = &Arc<VirtualServiceHead>> {
        let near = |h: &VirtualServiceHead| {
            h.semantics == Semantics::Gateway && *h.namespace() == *namespace
        };
        self.private
            .iter()
            .chain(&self.exported)
            .chain(self.public.iter().filter(move |h| near(h)))
            .chain(self.public.iter().filter(move |h| !near(h)))
    }

    /// The three lists in the order in which they apply.
    pub fn in_order(&self) -> [&[Arc<VirtualServiceHead>]; 3] {
        [&self.private, &self.exported, &self.public]
    }
}

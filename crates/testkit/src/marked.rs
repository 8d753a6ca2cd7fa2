//! What recorded objects say of themselves by Istio's internal annotations.
//!
//! Istio's translators mark what they make with annotations; here an object that was derived has a typed field, which no
//! annotation can set. Recordings of what comes after translation have the annotations, so tests turn them into that field.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::derived::{Derived, GatewayRole, Semantics};
use model::edge::EdgeRoute;
use model::kinds::istio::{Gateway, VirtualService};
use model::{AnyObject, Kind, Kinded, Labels, ObjectKey, ObjectName};

/// The typed form of the marks among recorded annotations, if there are any.
///
/// # Panics
///
/// When a mark has a value that Istio does not set.
pub fn derived_as_marked(annotations: &Labels) -> Option<Arc<Derived>> {
    let mark = |name: &str| annotations.get(&format!("internal.istio.io/{name}"));
    let services = mark("gateway-service").map(|hosts| hosts.split(',').map(Arc::from).collect());
    let parents = mark("parents");
    let semantics = match mark("route-semantics").or_else(|| mark("gateway-semantics")) {
        Some("ingress") => Semantics::Ingress,
        Some("gateway") => of_gateway_api(services),
        Some(other) => panic!("{other}"),
        None if services.is_none() && parents.is_none() => return None,
        None => of_gateway_api(services),
    };
    let from = parents.into_iter().flat_map(|list| list.split(','));
    Some(Arc::new(Derived {
        by: "test",
        from: from.filter_map(parent).collect(),
        semantics,
        sessions: BTreeMap::new(),
        edge: BTreeMap::new(),
    }))
}

/// Reads `Kind/name.namespace`. Istio names listeners of a gateway as parents too, which are no objects.
fn parent(text: &str) -> Option<ObjectKey> {
    let (kind, name) = text.split_once('/')?;
    let (name, namespace) = name.rsplit_once('.')?;
    let kind = Kind::ALL.iter().find(|k| k.name() == kind)?;
    Some(ObjectKey {
        kind: *kind,
        name: ObjectName::new(namespace, name),
    })
}

fn of_gateway_api(services: Option<Arc<[Arc<str>]>>) -> Semantics {
    Semantics::GatewayApi(GatewayRole {
        services,
        ..GatewayRole::default()
    })
}

/// Makes a Gateway or VirtualService one of an edge, whose HTTP routes ask for that, by their place.
pub fn edge(object: &mut AnyObject, routes: BTreeMap<usize, Arc<EdgeRoute>>) {
    let derived = Derived {
        by: "test",
        from: Arc::from([object.key()]),
        semantics: Semantics::Edge,
        sessions: BTreeMap::new(),
        edge: routes,
    };
    set(object, Arc::new(derived));
}

/// Makes a Gateway or VirtualService that is marked as derived a derived one.
pub(crate) fn mark(object: &mut AnyObject) {
    if let Some(derived) = derived_as_marked(&object.meta().annotations) {
        set(object, derived);
    }
}

fn set(object: &mut AnyObject, derived: Arc<Derived>) {
    if let Some(gateway) = Gateway::of(object) {
        let mut gateway = gateway.clone();
        Arc::make_mut(&mut gateway).meta.derived = Some(derived);
        *object = Gateway::any(gateway);
    } else if let Some(service) = VirtualService::of(object) {
        let mut service = service.clone();
        Arc::make_mut(&mut service).meta.derived = Some(derived);
        *object = VirtualService::any(service);
    }
}

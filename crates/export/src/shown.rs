//! Objects as another control plane is shown them.

use std::sync::Arc;

use incr::Cx;
use mesh::gateways::HostsOfOthers;
use mesh::machine;
use mesh::virtual_service::HeadOf;
use model::closed::NO_CREDENTIAL;
use model::derived::{Derived, Semantics};
use model::kinds::AnyObject;
use model::kinds::istio::{DestinationRule, Gateway, ServiceEntry, VirtualService};
use model::labels::Labels;
use model::object::{Meta, Object};
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::{ClientTlsSettings, TrafficPolicy};
use store::{Reads, Snapshot};

use crate::routes;

/// What the annotations begin with by which istiod knows objects that it has made of others.
const INTERNAL: &str = "internal.istio.io/";
/// The credential of a rule whose roots cannot be had.
const INVALID_CREDENTIAL: &str = "invalid://";
/// A file that no proxy has.
const NO_FILE: &str = "/closed.invalid";
/// A name that no certificate is for.
const NOBODY: &str = "closed.invalid";

/// The object as it is served; `None` where the other side would take it for more than it is.
pub(crate) fn shown(cx: &Cx<'_, Snapshot>, object: AnyObject) -> Option<AnyObject> {
    Some(match object {
        AnyObject::DestinationRule(rule) => AnyObject::DestinationRule(destination_rule(cx, rule)),
        AnyObject::Gateway(gateway) => AnyObject::Gateway(self::gateway(gateway)?),
        AnyObject::VirtualService(rule) => AnyObject::VirtualService(virtual_service(cx, rule)?),
        AnyObject::ServiceEntry(entry) => AnyObject::ServiceEntry(service_entry(cx, entry)),
        AnyObject::WorkloadEntry(entry) => {
            let left_out = machine::of_workload(&cx.settings().features, &entry);
            return left_out
                .is_none()
                .then_some(AnyObject::WorkloadEntry(entry));
        }
        other => other,
    })
}

/// Without the endpoints on the machine of whoever connects, which are left out here.
fn service_entry(
    cx: &Cx<'_, Snapshot>,
    mut entry: Arc<Object<ServiceEntry>>,
) -> Arc<Object<ServiceEntry>> {
    if let Some(spec) = machine::without_left_out(&cx.settings().features, &entry) {
        Arc::make_mut(&mut entry).spec = spec;
    }
    entry
}

/// With its host written out, as istiod serves it, and closed where it is closed here.
fn destination_rule(
    cx: &Cx<'_, Snapshot>,
    mut rule: Arc<Object<DestinationRule>>,
) -> Arc<Object<DestinationRule>> {
    let host = mesh::destination_rule::resolve(&rule, &cx.settings().domain);
    let shown = Arc::make_mut(&mut rule);
    shown.spec.host = host.to_string();
    let subsets = shown.spec.subsets.iter_mut();
    let of_subsets = subsets.filter_map(|subset| subset.traffic_policy.as_mut());
    let policies = shown.spec.traffic_policy.iter_mut().chain(of_subsets);
    policies.for_each(close_tls);
    rule
}

/// Has connections fail where TLS is asked for that nobody can come to: the credentials that say so here mean nothing to
/// others, or that the system's roots are trusted.
fn close_tls(policy: &mut TrafficPolicy) {
    let of_ports = policy.port_level_settings.iter_mut();
    let of_ports = of_ports.filter_map(|port| port.tls.as_mut());
    for tls in policy.tls.iter_mut().chain(of_ports) {
        if matches!(&*tls.credential_name, NO_CREDENTIAL | INVALID_CREDENTIAL) {
            *tls = ClientTlsSettings {
                mode: TlSmode::Simple.into(),
                ca_certificates: NO_FILE.to_owned(),
                subject_alt_names: vec![NOBODY.to_owned()],
                ..ClientTlsSettings::default()
            };
        }
    }
}

/// A Gateway with what says through which services it is reached. One that was made of others and names no proxies would
/// be for all of them.
fn gateway(mut gateway: Arc<Object<Gateway>>) -> Option<Arc<Object<Gateway>>> {
    let mut marks = Vec::new();
    if let Some(derived) = &gateway.meta.derived {
        let mut selects = !gateway.spec.selector.is_empty();
        if let Semantics::GatewayApi(role) = &derived.semantics {
            marks.push(("gateway-semantics", "gateway".to_owned()));
            marks.push(("parents", parents(derived)));
            let services = role.services.as_ref().filter(|hosts| !hosts.is_empty());
            selects |= services.is_some();
            marks.extend(services.map(|hosts| ("gateway-service", hosts.join(","))));
            let account = role.service_account.as_ref();
            marks.extend(account.map(|name| ("service-account-name", name.to_string())));
            let parent = role.parent_namespace.as_ref();
            marks.extend(parent.map(|name| ("parent-namespace", name.to_string())));
        }
        if !selects {
            return None;
        }
    }
    mark(&mut Arc::make_mut(&mut gateway).meta, marks);
    Some(gateway)
}

fn virtual_service(
    cx: &Cx<'_, Snapshot>,
    mut rule: Arc<Object<VirtualService>>,
) -> Option<Arc<Object<VirtualService>>> {
    without_foreign(cx, &mut rule)?;
    let mut marks = Vec::new();
    let derived = rule.meta.derived.clone();
    match derived.as_ref().map(|derived| &derived.semantics) {
        Some(Semantics::GatewayApi(_)) => marks.push(("route-semantics", "gateway".to_owned())),
        Some(Semantics::Ingress | Semantics::Edge) => {
            marks.push(("route-semantics", "ingress".to_owned()));
        }
        Some(Semantics::Istio) | None => {}
    }
    if let Some(derived) = &derived {
        marks.push(("parents", parents(derived)));
    }
    let shown = Arc::make_mut(&mut rule);
    mark(&mut shown.meta, marks);
    let templates = &cx.settings().features.secret_templates;
    let templates = templates.allows(shown.namespace());
    routes::enforceable(&mut shown.spec, derived.as_deref(), templates);
    Some(rule)
}

/// Leaves out of a rule what it says of hosts of others, which does not apply here; `None` where it has no other.
fn without_foreign(cx: &Cx<'_, Snapshot>, rule: &mut Arc<Object<VirtualService>>) -> Option<()> {
    let name = rule.meta.name.clone();
    let foreign = cx.query(&HostsOfOthers(name.clone()));
    if foreign.is_empty() {
        return Some(());
    }
    let head = (*cx.query(&HeadOf(name))).clone()?;
    let spec = &mut Arc::make_mut(rule).spec;
    // The head has the hosts in the same order, with short names written out.
    let stated = std::mem::take(&mut spec.hosts).into_iter();
    let own = stated.zip(head.hosts.iter());
    let own = own.filter(|(_, host)| !foreign.contains(&**host));
    spec.hosts = own.map(|(stated, _)| stated).collect();
    let is_foreign = |name: &String| foreign.contains(name.as_str());
    spec.tls.retain(|route| {
        let mut names = route.r#match.iter().flat_map(|stated| &stated.sni_hosts);
        !names.any(is_foreign)
    });
    (!spec.hosts.is_empty()).then_some(())
}

/// The objects that an object was made of, as `Kind/name.namespace`.
fn parents(derived: &Derived) -> String {
    let parents = derived.from.iter().map(|key| {
        let name = &key.name;
        format!("{}/{}.{}", key.kind.name(), name.name, name.namespace)
    });
    parents.collect::<Vec<_>>().join(",")
}

/// Gives an object these of the internal annotations, and no others: what users write has none of their effects here.
fn mark(meta: &mut Meta, marks: Vec<(&str, String)>) {
    let is_internal = |key: &str| key.starts_with(INTERNAL);
    let is_marked = meta.annotations.iter().any(|(key, _)| is_internal(key));
    if marks.is_empty() && !is_marked {
        return;
    }
    let kept = meta
        .annotations
        .iter()
        .filter(|(key, _)| !is_internal(key))
        .map(|(key, value)| (key.clone(), value.clone()));
    let marks = marks.into_iter().map(|(key, value)| {
        let key: Arc<str> = format!("{INTERNAL}{key}").into();
        (key, Arc::<str>::from(value))
    });
    let annotations: Labels = kept.chain(marks).collect();
    meta.annotations = annotations;
}

//! What objects say of connected proxies: the ports that they serve, what they may see, and what they measure.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::destination_rule::{Client, MergedDestinationRule, Side, rule_for};
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf, SidecarScope};
use mesh::view::{ProxyKey, ServiceTarget};
use model::Object;
use model::host::Hostname;
use model::kinds::istio::Telemetry;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Node;
use model::template;
use policy::telemetry::{Applied, AppliedTo};
use serde::Serialize;
use serde_json::{Map, Value, json};
use store::Snapshot;

use super::{proxy_name, registry};
use crate::derive::State;

/// What objects say of a proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct FactsOf(ProxyKey);

#[derive(PartialEq)]
struct Facts {
    targets: Arc<[ServiceTarget]>,
    labels: Labels,
    scope: ScopeKey,
    telemetry: AppliedTo,
}

impl Query<Snapshot> for FactsOf {
    type Value = Facts;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Facts {
        let traits = Traits::of(cx, self.0.node());
        Facts {
            telemetry: AppliedTo::of(cx, &traits),
            targets: traits.targets,
            labels: traits.labels,
            scope: traits.scope,
        }
    }
}

/// The DestinationRules in force for clients with these labels, of the services that they may see.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RulesFor {
    scope: ScopeKey,
    labels: Labels,
}

impl Query<Snapshot> for RulesFor {
    type Value = Vec<(Hostname, Arc<MergedDestinationRule>)>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        let client = Client {
            namespace: &self.scope.namespace,
            labels: &self.labels,
            side: Side::Client,
        };
        let services = scope.services.iter();
        let rules = services.filter_map(|s| {
            let rule = rule_for(cx, client, &s.namespace, &s.host)?;
            Some((s.host.clone(), rule))
        });
        rules.collect()
    }
}

fn facts(state: &State, node: &Arc<Node>) -> Arc<Facts> {
    state.get(&FactsOf(ProxyKey::new(node.clone())))
}

/// `/debug/instancesz`: what each of these proxies serves, under its name.
pub(super) fn instances(state: &State, nodes: &[Arc<Node>]) -> Map<String, Value> {
    let of_each = nodes.iter().map(|node| {
        let targets = facts(state, node).targets.clone();
        (proxy_name(node), targets.iter().map(instance).collect())
    });
    of_each.collect()
}

fn instance(target: &ServiceTarget) -> Value {
    json!({
        "Service": registry::service(&target.service),
        "Port": {
            "name": &*target.port.name,
            "port": target.port.number,
            "protocol": target.port.protocol.to_string(),
            "TargetPort": target.target_port,
        },
    })
}

/// What a proxy may see.
pub(super) struct Sight {
    scope: Arc<SidecarScope>,
    rules: Arc<Vec<(Hostname, Arc<MergedDestinationRule>)>>,
    revision: u64,
}

/// What one proxy may see, to be shown by [`sidecar`].
pub(super) fn sight(state: &State, node: &Arc<Node>) -> Sight {
    let facts = facts(state, node);
    let scope = facts.scope.clone();
    let labels = facts.labels.clone();
    Sight {
        scope: Arc::clone(&state.get(&ScopeOf(scope.clone()))),
        rules: state.get(&RulesFor { scope, labels }),
        revision: state.store().snapshot().revision,
    }
}

/// `/debug/sidecarz`.
pub(super) fn sidecar(sight: &Sight) -> Value {
    let scope = &*sight.scope;
    let services = |list: &[Arc<model::service::Service>]| -> Vec<Value> {
        list.iter().map(|s| registry::service(s)).collect()
    };
    let all = services(&scope.services);
    let by_host: Map<String, Value> = scope
        .services
        .iter()
        .zip(&all)
        .map(|(service, shown)| (service.host.to_string(), shown.clone()))
        .collect();
    let listeners = scope.egress.iter().map(|egress| services(&egress.services));
    let mut rules: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (host, merged) in sight.rules.iter() {
        rules.entry(host).or_default().push(rule(merged));
    }
    let name = scope.key.sidecar.as_ref();
    json!({
        "name": name.map_or("default-sidecar", |name| &*name.name),
        "namespace": &*scope.key.namespace,
        "version": sight.revision.to_string(),
        "sidecar": scope.sidecar.as_deref().map(written),
        "egressListenerServices": listeners.collect::<Vec<_>>(),
        "services": all,
        "servicesByHostname": by_host,
        "destinationRules": rules,
        "outboundTrafficPolicy": scope.outbound_policy.as_ref().map(written),
    })
}

fn rule(merged: &MergedDestinationRule) -> Value {
    let from = merged.from().iter();
    let from = from.map(|name| json!({ "Namespace": &*name.namespace, "Name": &*name.name }));
    json!({
        "from": from.collect::<Vec<_>>(),
        "rule": {
            "name": &*merged.name().name,
            "namespace": &*merged.name().namespace,
            "Spec": written(merged.spec()),
        },
    })
}

/// A message as its author has written it.
fn written<T: Serialize>(message: &T) -> Value {
    let mut json = serde_json::to_value(message).unwrap_or_default();
    template::written_json(&mut json);
    json
}

/// `/debug/telemetryz`: which Telemetry resources are in force for one proxy, and what they say, the widest first.
pub(super) fn telemetry(state: &State, node: &Arc<Node>) -> Value {
    let facts = facts(state, node);
    let applied = state.get(&facts.telemetry);
    let snapshot = state.store().snapshot();
    let root = Namespace::from(snapshot.settings.mesh.root_namespace.as_str());
    applied_telemetry(&applied, &root)
}

fn applied_telemetry(applied: &Applied, root: &Namespace) -> Value {
    let (mut shown, mut parts) = (Map::new(), [const { Vec::new() }; 3]);
    for name in ["Root", "Namespace", "Workload"] {
        shown.insert(name.into(), json!({ "Namespace": "", "Name": "" }));
    }
    for object in &applied.0 {
        let name = &object.meta.name;
        let key = json!({ "Namespace": &*name.namespace, "Name": &*name.name });
        shown.insert(level(object, root).into(), key);
        let spec = written(&object.spec);
        for (list, field) in parts
            .iter_mut()
            .zip(["metrics", "accessLogging", "tracing"])
        {
            let stated = spec[field].as_array().into_iter().flatten();
            list.extend(stated.cloned());
        }
    }
    for (name, list) in ["Metrics", "Logging", "Tracing"].into_iter().zip(parts) {
        shown.insert(name.into(), list.into());
    }
    shown.into()
}

/// How much a resource is about: the mesh, a namespace or workloads.
fn level(object: &Object<Telemetry>, root: &Namespace) -> &'static str {
    let spec = &object.spec;
    let selects = spec.selector.is_some() || spec.target_ref.is_some();
    if selects || !spec.target_refs.is_empty() {
        "Workload"
    } else if object.namespace() == root {
        "Root"
    } else {
        "Namespace"
    }
}

#[cfg(test)]
mod tests {
    use testkit::World;

    use super::*;

    const OBJECTS: &str = r#"
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: web, namespace: shop},
 spec: {hosts: [web.shop.svc.cluster.local], resolution: STATIC, addresses: [10.96.0.10],
        ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], endpoints: [{address: 10.0.0.1, labels: {app: web}}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: db, namespace: bank},
 spec: {hosts: [db.bank.svc.cluster.local], resolution: STATIC, addresses: [10.96.0.11],
        ports: [{number: 5432, name: tcp, protocol: TCP}], endpoints: [{address: 10.0.0.2}]}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: narrow, namespace: shop}, spec: {egress: [{hosts: ["./*"]}]}}
---
{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: web, namespace: shop},
 spec: {host: web.shop.svc.cluster.local, subsets: [{name: v1, labels: {version: v1}}]}}
---
{apiVersion: telemetry.istio.io/v1, kind: Telemetry, metadata: {name: mesh, namespace: istio-system},
 spec: {tracing: [{randomSamplingPercentage: 5}]}}
---
{apiVersion: telemetry.istio.io/v1, kind: Telemetry, metadata: {name: web, namespace: shop},
 spec: {selector: {matchLabels: {app: web}}, tracing: [{randomSamplingPercentage: 7}]}}
"#;

    fn web() -> ProxyKey {
        ProxyKey::new(testkit::node(&json!({
            "id": "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local",
            "metadata": { "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "LABELS": { "app": "web" } },
        })))
    }

    #[test]
    fn a_proxy_serves_the_ports_of_the_service_at_its_address() {
        let world = World::of(OBJECTS);
        let targets = world.get(&FactsOf(web())).targets.clone();
        let shown: Vec<Value> = targets.iter().map(instance).collect();
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert_eq!(
            shown[0]["Service"]["hostname"],
            "web.shop.svc.cluster.local"
        );
        assert_eq!(shown[0]["Port"]["TargetPort"], 8080);
    }

    #[test]
    fn a_proxy_sees_what_its_sidecar_lets_it_see() {
        let world = World::of(OBJECTS);
        let facts = world.get(&FactsOf(web()));
        let (scope, labels) = (facts.scope.clone(), facts.labels.clone());
        let sight = Sight {
            scope: Arc::clone(&world.get(&ScopeOf(scope.clone()))),
            rules: world.get(&RulesFor { scope, labels }),
            revision: 3,
        };
        let shown = sidecar(&sight);
        assert_eq!(shown["name"], "narrow");
        assert_eq!(shown["version"], "3");
        let host = "web.shop.svc.cluster.local";
        assert_eq!(shown["services"].as_array().unwrap().len(), 1, "{shown}");
        assert_eq!(shown["services"][0]["hostname"], host);
        assert_eq!(shown["servicesByHostname"][host], shown["services"][0]);
        assert_eq!(shown["egressListenerServices"][0], shown["services"]);
        let rule = &shown["destinationRules"][host][0];
        assert_eq!(
            rule["from"][0],
            json!({ "Namespace": "shop", "Name": "web" })
        );
        assert_eq!(rule["rule"]["Spec"]["subsets"][0]["name"], "v1");
        assert_eq!(shown["sidecar"]["egress"][0]["hosts"][0], "./*");
    }

    #[test]
    fn telemetry_is_told_by_how_much_it_is_about() {
        let world = World::of(OBJECTS);
        let facts = world.get(&FactsOf(web()));
        let shown = applied_telemetry(&world.get(&facts.telemetry), &"istio-system".into());
        assert_eq!(shown["Root"]["Name"], "mesh");
        assert_eq!(shown["Workload"]["Namespace"], "shop");
        assert_eq!(shown["Namespace"]["Name"], "");
        let tracing = shown["Tracing"].as_array().unwrap();
        assert_eq!(tracing.len(), 2);
        assert_eq!(tracing[1]["randomSamplingPercentage"], 7.0);
    }
}

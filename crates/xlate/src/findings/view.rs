//! What concerns the proxies of one view.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::edge::AskedOf;
use mesh::gateways::{MergedGatewayOf, NotOwnedAt};
use mesh::scope::{ScopeKey, ScopeOf};
use mesh::{gateways, limits, scope};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::istio::{DestinationRule, VirtualService};
use model::names::Namespace;
use model::object::{Object, ObjectKey, ObjectName};
use policy::authn::{MutualTls, PeerPolicies};
use policy::authz::Policies;
use policy::edge::options::{self, EdgeOptions};
use policy::edge::{Can, lacking};
use policy::envoy_filter::{ListenerPatchesOf, PatchesLeftOut};
use policy::{telemetry, traffic_extension};
use proto_istio::networking::TrafficPolicy;
use proto_istio::networking::client_tls_settings::TlSmode as TlsMode;
use store::{Reads, Snapshot};

use super::{Findings, in_order};
use crate::ecds::ExtensionConfigsOf;
use crate::filled::Reader;
use crate::hashed::Hashed;
use crate::listeners;
use crate::listeners::client::{GatewayProxy, InboundServer, Listens};
use crate::listeners::parts::SidePartsOf;
use crate::listeners::{ListenersOf, ServedPort, refusal};
use crate::roots::{Made, TypeSet};
use crate::routes::RoutesOf;
use crate::secrets::SecretsOf;
use mesh::finding::{about_named, code};

/// What is wrong with what proxies get that agree in these keys.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FindingsOfView {
    /// Their clusters.
    pub(crate) clusters: TypeSet,
    /// Their listeners.
    pub(crate) listeners: Hashed<ListenersOf>,
    /// Their routes.
    pub(crate) routes: Hashed<RoutesOf>,
    /// Their secrets.
    pub(crate) secrets: Hashed<SecretsOf>,
    /// The configurations of their extensions.
    pub(crate) extensions: Hashed<ExtensionConfigsOf>,
    /// Who they are.
    pub(crate) reader: Reader,
}

impl Query<Snapshot> for FindingsOfView {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        match &self.listeners.0 {
            Listens::Sidecar(_, inbound) => {
                let ports = listeners::served_ports(cx, &self.listeners);
                let tcp = ports.iter().any(|p| p.tcp);
                of_security(cx, &inbound.parts, tcp, &mut found);
                of_certificates(cx, inbound, &ports, &mut found);
                of_egress(cx, &inbound.parts.scope, &mut found);
                let namespace = &inbound.parts.scope.namespace;
                of_clients(cx, namespace, Lacks::Credential, &mut found);
            }
            Listens::Gateway(proxy) => self.of_gateway(cx, proxy, &mut found),
            Listens::Grpc(workload) => found.extend(workload.findings(cx)),
            Listens::Nothing => {}
        }
        let parts = self.listeners.parts();
        of_size(cx, &parts, &mut found);
        if let Some(side) = parts.first() {
            if !side.capabilities.certificates.is_any() {
                let namespace = &side.scope.namespace;
                of_clients(cx, namespace, Lacks::Certificate, &mut found);
            }
            self.of_patches(cx, side, &mut found);
            found.extend(telemetry::findings(cx, &side.telemetry));
        }
        self.of_resources(cx, &mut found);
        found.extend(self.secrets.findings(cx));
        found.extend(self.extensions.refused(cx));
        for rule in self.routes.refused(cx) {
            let why = format!(
                "requests for its hosts are answered with 503: its routes, once for each host and port, are more than {} MiB",
                limits::COPIED_BYTES >> 20
            );
            let of = (Kind::VirtualService, &rule);
            found.push(limits::exceeded(of, "spec.hosts", why));
        }
        if self.routes.closes_all(cx) {
            let why = format!(
                "the proxy refuses everything: what it closes for the section mcpServer, once for each host and port, is more than {} MiB",
                limits::COPIED_BYTES >> 20
            );
            let object = cx.query(&EdgeOptions).object.clone();
            found.push(match object {
                Some(name) => {
                    let of = (Kind::ConfigMap, &name);
                    limits::exceeded(of, format!("data.{}", options::KEY), why)
                }
                None => Diagnostic::new(code::OVER_LIMIT, Severity::Error, why),
            });
        }
        for side in &parts {
            of_extensions(cx, side, &mut found);
        }
        in_order(found)
    }
}

/// What could not be done to the resources of a set as objects wanted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct FindingsOfSet(Made);

impl Query<Snapshot> for FindingsOfSet {
    type Value = Arc<[Diagnostic]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let found = cx.query(&self.0).with_findings();
        let found = found.iter().flat_map(|resource| resource.findings());
        found.cloned().collect()
    }
}

impl FindingsOfView {
    /// What is reported with resources, but for endpoints: to read theirs would derive endpoints that no proxy asks for.
    fn of_resources(&self, cx: &Cx<'_, Snapshot>, found: &mut Vec<Diagnostic>) {
        for set in [
            self.clusters.clone(),
            TypeSet::Listeners(self.listeners.clone(), self.reader.clone()),
            TypeSet::Routes(self.routes.clone(), self.reader.clone()),
            TypeSet::Extensions(self.extensions.clone(), self.reader.clone()),
        ] {
            found.extend(cx.query(&FindingsOfSet(Made(set))).iter().cloned());
        }
    }

    fn of_gateway(&self, cx: &Cx<'_, Snapshot>, proxy: &GatewayProxy, found: &mut Vec<Diagnostic>) {
        let merged = cx.query(&MergedGatewayOf(proxy.gateway.clone()));
        let merged = (*merged).clone();
        let tcp = merged
            .iter()
            .flat_map(|m| &m.servers)
            .any(|s| !gateways::is_http(&s.server));
        of_security(cx, &proxy.parts, tcp, found);
        if let Some(merged) = &merged {
            found.extend(merged.refused.iter().cloned());
            found.extend(self.secrets.unproven(cx, merged));
            let others = cx.query(&NotOwnedAt(proxy.gateway.clone()));
            found.extend(others.iter().cloned());
            of_edge(cx, proxy, found);
        }
    }

    fn of_patches(&self, cx: &Cx<'_, Snapshot>, side: &SidePartsOf, found: &mut Vec<Diagnostic>) {
        let selected = &side.patched;
        let left_out = cx.query(&PatchesLeftOut(selected.clone()));
        found.extend(left_out.findings.iter().cloned());
        let of_listeners = cx.query(&ListenerPatchesOf(selected.clone()));
        if side.too_many_copies {
            let why = format!(
                "the proxy refuses everything: patches of its filters and chains, once for each filter chain, are more than {} MiB",
                limits::REPEATED_BYTES >> 20
            );
            if let Some((object, at)) = of_listeners.largest() {
                let path = format!("spec.configPatches[{at}].patch.value");
                found.push(limits::exceeded((Kind::EnvoyFilter, object), path, why));
            }
        }
    }
}

/// Routes of an edge that ask for what the proxy cannot do.
fn of_edge(cx: &Cx<'_, Snapshot>, proxy: &GatewayProxy, found: &mut Vec<Diagnostic>) {
    let asked = cx.query(&AskedOf(proxy.gateway.clone()));
    let Some(asked) = &*asked else { return };
    let can = Can::of(&proxy.parts.loadable);
    for (need, asker) in asked.by.iter().filter(|(need, _)| !can.does(*need)) {
        let lacking = lacking(*need);
        let (severity, what) = match need.closes() {
            true => (Severity::Error, "its requests get 503"),
            false => (
                Severity::Warning,
                "sessions of several endpoints are not kept",
            ),
        };
        let why = format!("the proxy lacks {lacking}, which the route asks for: {what}");
        let rule = cx.get::<VirtualService>(&asker.rule);
        let from = rule.iter().filter_map(|rule| rule.meta.derived.as_ref());
        let mut from = from.flat_map(|derived| derived.from.iter());
        let is_named = |key: &&ObjectKey| {
            let ObjectName {
                namespace, name, ..
            } = &key.name;
            let whole = asker.route.split_once('/') == Some((&**namespace, &**name));
            key.kind == Kind::Ingress && (whole || *asker.route == **name)
        };
        let (kind, name) = match from.find(is_named) {
            Some(key) => (key.kind, &key.name),
            None => (Kind::VirtualService, &asker.rule),
        };
        found.push(about_named(kind, name, code::LACKS_FILTER, severity, why));
    }
}

/// Filters of users that the proxy cannot run.
fn of_extensions(cx: &Cx<'_, Snapshot>, side: &SidePartsOf, found: &mut Vec<Diagnostic>) {
    let has = side.has(cx);
    found.extend(traffic_extension::troubles(
        cx,
        &side.extensions,
        has,
        side.class,
    ));
    let lacking = traffic_extension::lacking(cx, &side.extensions, has, side.class);
    for (wanted, what) in lacking {
        let (kind, name) = wanted.key();
        let why = format!("the proxy lacks {what}: what the filter should see is refused");
        let severity = Severity::Error;
        found.push(about_named(kind, name, code::LACKS_FILTER, severity, why));
    }
}

/// Policies and extensions that are too large to be repeated in every filter chain.
fn of_size(cx: &Cx<'_, Snapshot>, sides: &[&SidePartsOf], found: &mut Vec<Diagnostic>) {
    if !sides.iter().any(|side| cx.query(*side).tcp.overloaded) {
        return;
    }
    let why = format!(
        "the proxy refuses everything: its policies and extensions, once for each filter chain, are more than {} MiB",
        limits::REPEATED_BYTES >> 20
    );
    let policies = sides.iter().find_map(|side| side.security.as_ref());
    let largest = policies.and_then(|of| {
        let policies = Policies::of_workload(cx, &of.namespace, &of.labels);
        policies.largest().map(|policy| policy.meta.name.clone())
    });
    found.push(match largest {
        Some(policy) => {
            let of = (Kind::AuthorizationPolicy, &policy);
            limits::exceeded(of, "spec", why)
        }
        None => Diagnostic::new(code::OVER_LIMIT, Severity::Error, why),
    });
}

/// Egress listeners of the Sidecar that import nothing.
fn of_egress(cx: &Cx<'_, Snapshot>, scope: &ScopeKey, found: &mut Vec<Diagnostic>) {
    let scope = cx.query(&ScopeOf(scope.clone()));
    let Some(sidecar) = &scope.key.sidecar else {
        return;
    };
    if let Some(first) = scope::first_without_imports(cx, &scope) {
        let why = "this egress listener and those after it import nothing: compared with every service, they are too many";
        let of = (Kind::Sidecar, sidecar);
        found.push(limits::exceeded(
            of,
            format!("spec.egress[{first}]"),
            why.to_owned(),
        ));
    }
}

fn of_security(cx: &Cx<'_, Snapshot>, side: &SidePartsOf, tcp: bool, found: &mut Vec<Diagnostic>) {
    let Some(security) = &side.security else {
        return;
    };
    let security = cx.query(security);
    found.extend(security.diagnostics.iter().cloned());
    if tcp {
        found.extend(security.tcp_diagnostics.iter().cloned());
    }
    let mut missing: BTreeSet<&str> = refusal::missing(&side.loadable, &security.http, |f| &f.name);
    if tcp {
        missing.extend(refusal::missing(&side.loadable, &security.tcp, |f| &f.name));
    }
    for name in missing {
        let why = format!(
            "a policy needs {name}, which the proxy cannot load: what it should protect is refused"
        );
        found.push(Diagnostic::new(code::LACKS_FILTER, Severity::Error, why));
    }
}

fn of_certificates(
    cx: &Cx<'_, Snapshot>,
    proxy: &InboundServer,
    ports: &[ServedPort],
    found: &mut Vec<Diagnostic>,
) {
    let labels = &proxy.policies.labels;
    let peers = cx.query(&PeerPolicies(proxy.policies.namespace.clone()));
    for ignored in peers.ignored(labels) {
        let why = "a policy of the root namespace cannot select workloads: it has no effect";
        let severity = Severity::Error;
        found.push(
            about_named(
                Kind::PeerAuthentication,
                ignored,
                code::ROOT_SELECTOR,
                severity,
                why,
            )
            .at("spec.selector")
            .help("put it into the namespace of the workload"),
        );
    }
    if proxy.parts.capabilities.certificates.is_any() {
        return;
    }
    for port in ports.iter().filter(|p| p.mode == MutualTls::Strict) {
        let what = match port.number {
            0 => "every port that no service lists".to_owned(),
            number => format!("port {number}"),
        };
        let why = format!(
            "mutual TLS is STRICT and the proxy has no certificates: {what} takes no connections"
        );
        let severity = Severity::Error;
        found.push(match peers.deciding(labels, port.number) {
            Some((policy, path)) => {
                let kind = Kind::PeerAuthentication;
                about_named(kind, policy, code::NO_CERTIFICATES, severity, why).at(path)
            }
            None => Diagnostic::new(code::NO_CERTIFICATES, severity, why),
        });
    }
}

/// What a proxy lacks that rules ask it to show to servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Lacks {
    /// A certificate of the mesh.
    Certificate,
    /// A Secret of a rule that does not select workloads, as sidecars do.
    Credential,
}

impl Lacks {
    fn why(self) -> &'static str {
        match self {
            Self::Certificate => {
                "mutual TLS is ISTIO_MUTUAL and the proxy has no certificates: it connects to nobody there"
            }
            Self::Credential => {
                "mutual TLS is MUTUAL and credentialName counts for sidecars only in a rule with a workloadSelector: \
                 the proxy connects to nobody there"
            }
        }
    }

    fn is_asked(self, rule: &Object<DestinationRule>, policy: &TrafficPolicy) -> bool {
        let ports = policy.port_level_settings.iter().map(|port| &port.tls);
        let mut settings = std::iter::once(&policy.tls).chain(ports).flatten();
        settings.any(|tls| match self {
            Self::Certificate => tls.mode() == TlsMode::IstioMutual,
            Self::Credential => {
                let secret = &tls.credential_name;
                tls.mode() == TlsMode::Mutual
                    && rule.spec.workload_selector.is_none()
                    && !secret.is_empty()
                    && !secret.starts_with("configmap://")
            }
        })
    }
}

/// Rules by which the proxy should show what it lacks: it connects to nobody they are about.
fn of_clients(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    lacks: Lacks,
    found: &mut Vec<Diagnostic>,
) {
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    let spaces: BTreeSet<&Namespace> = [namespace, &root].into();
    for space in spaces {
        for (name, path) in cx.query(&MutualRules(space.clone(), lacks)).iter() {
            let why = lacks.why();
            let severity = Severity::Error;
            let code = code::NO_CLIENT_CERTIFICATE;
            let finding = about_named(Kind::DestinationRule, name, code, severity, why);
            found.push(finding.at(path.as_str()));
        }
    }
}

/// The DestinationRules of a namespace that ask clients for what these lack, each with the first field that does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct MutualRules(Namespace, Lacks);

impl Query<Snapshot> for MutualRules {
    type Value = Arc<[(ObjectName, String)]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let rules = cx.list_in::<DestinationRule>(&self.0);
        let asking = rules.iter().filter_map(|rule| {
            let own = ("spec.trafficPolicy".to_owned(), &rule.spec.traffic_policy);
            let subsets = rule.spec.subsets.iter().enumerate();
            let subsets = subsets.map(|(at, s)| {
                (
                    format!("spec.subsets[{at}].trafficPolicy"),
                    &s.traffic_policy,
                )
            });
            let path = std::iter::once(own)
                .chain(subsets)
                .find_map(|(path, policy)| {
                    self.1.is_asked(rule, policy.as_ref()?).then_some(path)
                })?;
            Some((rule.meta.name.clone(), path))
        });
        asking.collect()
    }
}

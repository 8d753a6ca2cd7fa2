//! What concerns the proxies of one view.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::istio::DestinationRule;
use model::names::Namespace;
use model::node::Role;
use model::object::ObjectName;
use proto_istio::networking::TrafficPolicy;
use proto_istio::networking::client_tls_settings::TlSmode as TlsMode;
use store::{Reads, Snapshot};

use super::{Findings, in_order};
use crate::listeners::ServedPort;
use crate::listeners::parts::SidePartsOf;
use crate::listeners::{self, refusal, repeated};
use crate::roots::TypeSet;
use crate::routes;
use crate::secrets;
use mesh::capabilities::Capabilities;
use mesh::class::Class;
use mesh::finding::{about_named, code};
use mesh::gateways::{self, MergedGatewayOf};
use mesh::limits;
use mesh::scope::{self, ScopeOf};
use mesh::view::View;
use policy::authn::{MutualTls, PeerPolicies};
use policy::authz::Policies;
use policy::envoy_filter::{ClusterPatchesOf, ListenerPatchesOf, PatchesLeftOut, SelectedBy};
use policy::security::SecurityOf;
use policy::telemetry;
use policy::traffic_extension::{self, Wanted};
use xds::TypeUrl;

/// The findings for proxies of a view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FindingsOfView(pub Arc<View>);

impl Query<Snapshot> for FindingsOfView {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let view = &self.0;
        let mut found = Vec::new();
        match view.role {
            Role::Sidecar => {
                let ports = listeners::served_ports(cx, view);
                of_security(cx, view, ports.iter().any(|p| p.tcp), &mut found);
                of_certificates(cx, view, &ports, &mut found);
                of_egress(cx, view, &mut found);
            }
            Role::Router => {
                let merged = cx.query(&MergedGatewayOf(gateways::key_of(view)));
                let merged = (*merged).clone();
                let tcp = merged
                    .iter()
                    .flat_map(|m| &m.servers)
                    .any(|s| !gateways::is_http(&s.server));
                of_security(cx, view, tcp, &mut found);
                if let Some(merged) = &merged {
                    found.extend(merged.refused.iter().cloned());
                    found.extend(secrets::missing(cx, view, merged));
                    let (view, ty) = (view.clone(), TypeUrl::Listener);
                    let listeners = cx.query(&TypeSet { view, ty });
                    found.extend(listeners.iter().flat_map(|r| r.findings()).cloned());
                }
            }
            Role::Waypoint | Role::Ztunnel => {}
        }
        of_size(cx, view, &mut found);
        if !Capabilities::of(view).certificates {
            of_clients(cx, view, &mut found);
        }
        of_patches(cx, view, &mut found);
        for rule in routes::refused(cx, view) {
            let why = format!(
                "requests for its hosts are answered with 503: its routes, once for each host and port, are more than {} MiB",
                limits::COPIED_BYTES >> 20
            );
            let of = (Kind::VirtualService, &rule);
            found.push(limits::exceeded(of, "spec.hosts", why));
        }
        for (wanted, what) in traffic_extension::lacking(cx, view) {
            let (kind, name) = match &wanted {
                Wanted::TrafficExtension(name) => (Kind::TrafficExtension, name),
                Wanted::WasmPlugin(name) => (Kind::WasmPlugin, name),
            };
            let why = format!("the proxy lacks {what}: what the filter should see is refused");
            let severity = Severity::Error;
            found.push(about_named(kind, name, code::LACKS_FILTER, severity, why));
        }
        found.extend(telemetry::findings(cx, view));
        in_order(found)
    }
}

/// Policies and extensions that are too large to be repeated in every filter chain.
fn of_size(cx: &Cx<'_, Snapshot>, view: &Arc<View>, found: &mut Vec<Diagnostic>) {
    let classes = match view.role {
        Role::Sidecar => &[Class::SidecarInbound, Class::SidecarOutbound][..],
        Role::Router => &[Class::Gateway],
        Role::Waypoint | Role::Ztunnel => &[],
    };
    let overloaded = classes.iter().any(|class| {
        let (view, class) = (view.clone(), *class);
        cx.query(&SidePartsOf { view, class }).tcp.overloaded
    });
    if !overloaded {
        return;
    }
    let why = format!(
        "the proxy refuses everything: its policies and extensions, once for each filter chain, are more than {} MiB",
        limits::REPEATED_BYTES >> 20
    );
    let policies = Policies::of_workload(cx, &view.namespace, &view.labels);
    found.push(match policies.largest() {
        Some(policy) => {
            let of = (Kind::AuthorizationPolicy, &policy.meta.name);
            limits::exceeded(of, "spec", why)
        }
        None => Diagnostic::new(code::OVER_LIMIT, Severity::Error, why),
    });
}

/// Egress listeners of the Sidecar that import nothing.
fn of_egress(cx: &Cx<'_, Snapshot>, view: &View, found: &mut Vec<Diagnostic>) {
    let scope = cx.query(&ScopeOf(scope::key_of(cx, view)));
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

/// What patches could not do is told with the resource that they should have been done to.
fn of_patches(cx: &Cx<'_, Snapshot>, view: &Arc<View>, found: &mut Vec<Diagnostic>) {
    let selected = SelectedBy::of(cx, view);
    let left_out = cx.query(&PatchesLeftOut(selected.clone()));
    found.extend(left_out.findings.iter().cloned());
    if repeated::too_many_copies(cx, view) {
        let patches = cx.query(&ListenerPatchesOf(selected.clone()));
        let why = format!(
            "the proxy refuses everything: patches of its filters and chains, once for each filter chain, are more than {} MiB",
            limits::REPEATED_BYTES >> 20
        );
        if let Some((object, at)) = patches.largest() {
            let path = format!("spec.configPatches[{at}].patch.value");
            found.push(limits::exceeded((Kind::EnvoyFilter, object), path, why));
        }
    }
    let patched = [
        (
            TypeUrl::Cluster,
            !cx.query(&ClusterPatchesOf(selected.clone())).is_empty(),
        ),
        (
            TypeUrl::Listener,
            !cx.query(&ListenerPatchesOf(selected)).is_empty(),
        ),
    ];
    for (ty, _) in patched.into_iter().filter(|(_, patched)| *patched) {
        let view = view.clone();
        let set = cx.query(&TypeSet { view, ty });
        found.extend(set.iter().flat_map(|r| r.findings()).cloned());
    }
}

fn of_security(cx: &Cx<'_, Snapshot>, view: &View, tcp: bool, found: &mut Vec<Diagnostic>) {
    let security = cx.query(&SecurityOf::of(view));
    found.extend(security.diagnostics.iter().cloned());
    if tcp {
        found.extend(security.tcp_diagnostics.iter().cloned());
    }
    let mut missing: BTreeSet<&str> = refusal::missing(view, &security.http, |f| &f.name);
    if tcp {
        missing.extend(refusal::missing(view, &security.tcp, |f| &f.name));
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
    view: &View,
    ports: &[ServedPort],
    found: &mut Vec<Diagnostic>,
) {
    let peers = cx.query(&PeerPolicies(view.namespace.clone()));
    for ignored in peers.ignored(&view.labels) {
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
    if Capabilities::of(view).certificates {
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
        found.push(match peers.deciding(&view.labels, port.number) {
            Some((policy, path)) => {
                let kind = Kind::PeerAuthentication;
                about_named(kind, policy, code::NO_CERTIFICATES, severity, why).at(path)
            }
            None => Diagnostic::new(code::NO_CERTIFICATES, severity, why),
        });
    }
}

/// Rules by which the proxy, which has no certificates, should show one: it connects to nobody they are about.
fn of_clients(cx: &Cx<'_, Snapshot>, view: &View, found: &mut Vec<Diagnostic>) {
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    let spaces: BTreeSet<&Namespace> = [&view.namespace, &root].into();
    for space in spaces {
        for (name, path) in cx.query(&MutualRules(space.clone())).iter() {
            let why = "mutual TLS is ISTIO_MUTUAL and the proxy has no certificates: it connects to nobody there";
            let severity = Severity::Error;
            let code = code::NO_CLIENT_CERTIFICATE;
            let finding = about_named(Kind::DestinationRule, name, code, severity, why);
            found.push(finding.at(path.as_str()));
        }
    }
}

/// The DestinationRules of a namespace that ask clients for the mesh's certificates, each with the first field that
/// does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct MutualRules(Namespace);

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
                .find_map(|(path, policy)| asks(policy.as_ref()?).then_some(path))?;
            Some((rule.meta.name.clone(), path))
        });
        asking.collect()
    }
}

fn asks(policy: &TrafficPolicy) -> bool {
    let ports = policy.port_level_settings.iter().map(|port| &port.tls);
    std::iter::once(&policy.tls)
        .chain(ports)
        .flatten()
        .any(|tls| tls.mode() == TlsMode::IstioMutual)
}

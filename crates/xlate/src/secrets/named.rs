//! Which credentials configuration names.

use std::collections::{BTreeMap, BTreeSet};

use incr::{Cx, Query};
use mesh::gateways::{GatewayServer, MergedGateway};
use model::credential::{Credential, ROOT_SUFFIX, Source, resource_name};
use model::kinds::istio::DestinationRule;
use model::names::Namespace;
use model::object::ObjectName;
use proto_istio::networking::server_tls_settings::TlSmode as TlsMode;
use proto_istio::networking::{ClientTlsSettings, ServerTlsSettings, TrafficPolicy};
use store::{Reads, Snapshot};

/// The names of the resources that the servers of a gateway lead to.
pub(super) fn of_servers(merged: &MergedGateway) -> impl Iterator<Item = String> {
    let tls = |s: &GatewayServer| s.server.tls.as_ref().map(of_server);
    merged.servers.iter().filter_map(tls).flatten()
}

/// The names of the resources that a server's settings lead to.
pub(super) fn of_server(tls: &ServerTlsSettings) -> Vec<String> {
    let stated: Vec<&str> = match tls.credential_names.as_slice() {
        [] => vec![tls.credential_name.as_str()],
        several => several.iter().map(String::as_str).collect(),
    };
    let mut names: Vec<String> = stated
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| resource_name(name))
        .collect();
    if matches!(tls.mode(), TlsMode::Mutual | TlsMode::OptionalMutual) {
        match tls.ca_cert_credential_name.as_str() {
            "" => {
                let roots = names.iter().map(|n| format!("{n}{ROOT_SUFFIX}"));
                names.extend(roots.collect::<Vec<_>>());
            }
            roots => names.push(resource_name(roots)),
        }
    }
    names
}

/// The names that clusters use because of any DestinationRule, by the namespace that they name, if they do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ClientCredentials;

impl Query<Snapshot> for ClientCredentials {
    type Value = BTreeMap<Option<Namespace>, BTreeSet<String>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut all: Self::Value = BTreeMap::new();
        for rule in cx.names::<DestinationRule>() {
            for name in cx.query(&CredentialsOf(rule)).iter() {
                all.entry(namespace(name)).or_default().insert(name.clone());
            }
        }
        all
    }
}

/// The namespace whose proxies alone may read a credential, if its name says so.
fn namespace(name: &str) -> Option<Namespace> {
    let nowhere = Namespace::from("");
    let credential = Credential::parse(name, &nowhere, None)?;
    let named = credential.source == Source::Secret && credential.object.namespace != nowhere;
    named.then_some(credential.object.namespace)
}

/// Those of these names that proxies of a namespace may be allowed to read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ClientCredentialsFor(pub(super) Namespace);

impl Query<Snapshot> for ClientCredentialsFor {
    type Value = BTreeSet<String>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> BTreeSet<String> {
        let all = cx.query(&ClientCredentials);
        let own = [None, Some(self.0.clone())];
        let own = own.iter().filter_map(|namespace| all.get(namespace));
        own.flatten().cloned().collect()
    }
}

/// The names that clusters use because of Ingresses with annotations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct EdgeCredentials;

impl Query<Snapshot> for EdgeCredentials {
    type Value = BTreeSet<String>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> BTreeSet<String> {
        let rules = cx.names::<DestinationRule>().into_iter();
        let names = rules.filter(|rule| *cx.query(&IsEdge(rule.clone())));
        names
            .flat_map(|rule| (*cx.query(&CredentialsOf(rule))).clone())
            .collect()
    }
}

/// Whether a DestinationRule was made from Ingresses with annotations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IsEdge(ObjectName);

impl Query<Snapshot> for IsEdge {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        let rule = cx.get::<DestinationRule>(&self.0);
        rule.is_some_and(|rule| rule.meta.is_edge())
    }
}

/// The names that clusters use because of a DestinationRule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CredentialsOf(ObjectName);

impl Query<Snapshot> for CredentialsOf {
    type Value = Vec<String>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Vec<String> {
        let Some(rule) = cx.get::<DestinationRule>(&self.0) else {
            return Vec::new();
        };
        let subsets = rule.spec.subsets.iter().map(|s| &s.traffic_policy);
        let policies = std::iter::once(&rule.spec.traffic_policy).chain(subsets);
        policies
            .flatten()
            .flat_map(settings)
            .filter(|tls| !tls.credential_name.is_empty())
            .flat_map(|tls| {
                let name = resource_name(&tls.credential_name);
                [format!("{name}{ROOT_SUFFIX}"), name]
            })
            .collect()
    }
}

fn settings(policy: &TrafficPolicy) -> impl Iterator<Item = &ClientTlsSettings> {
    let ports = policy.port_level_settings.iter().map(|p| &p.tls);
    std::iter::once(&policy.tls).chain(ports).flatten()
}

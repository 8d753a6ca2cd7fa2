//! What is said of Services as backends: TLS, sessions, and what the Gateway API has no field for.

use std::collections::BTreeMap;

use model::kinds::kube::Service;
use model::{Kind, Object, ObjectKey, ObjectName};
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::HashKey;
use proto_istio::networking::load_balancer_settings::{ConsistentHashLb, LbPolicy};
use proto_istio::networking::{
    ClientTlsSettings, DestinationRule, LoadBalancerSettings, TrafficPolicy,
};
use serde_json::{Value, json};

use super::super::{Manifest, Manifests, credential, made_from};
use super::lost;
use super::path_of_service;
use crate::World;
use crate::manifests::lost::Lost;

/// The file of what is about Services.
const FILE: &str = "_services.yaml";

/// Protocols of ports by which requests are sent over HTTP/2.
const HTTP2: [&str; 3] = ["kubernetes.io/h2c", "grpc", "http2"];

/// What is said of a Service.
#[derive(Clone, Default)]
pub(super) struct Said {
    /// What is lost of routes to it.
    pub(super) lost: Vec<Lost>,
    /// How sessions are kept.
    pub(super) session: Option<Value>,
}

/// What is said of Services, by their hosts.
pub(super) type Services = BTreeMap<String, Said>;

/// Reads what is said of Services, and writes the policies of those that are spoken to over TLS.
pub(super) fn of(world: &World, sessions: bool, manifests: &mut Manifests) -> Services {
    let tables = &world.snapshot.tables;
    let rules = tables.destination_rules.iter();
    let mut rules: Vec<_> = rules.filter(|rule| rule.meta.is_edge()).collect();
    rules.sort_by(|a, b| a.spec.host.cmp(&b.spec.host));
    let mut services = Services::new();
    for rule in rules {
        let Some(policy) = &rule.spec.traffic_policy else {
            continue;
        };
        let name = path_of_service(world, &rule.spec.host);
        let service = name.as_ref().and_then(|n| tables.kube_services.get(n));
        let mut said = Said::default();
        spoken(policy, service.map(|service| &service.spec), &mut said);
        if said.session.is_some() && !sessions {
            said.session = None;
            said.lost.push(lost::SESSIONS);
        }
        if let Some(tls) = &policy.tls {
            said.lost.extend(match &name {
                Some(name) => of_tls(name, tls, rule, manifests),
                None => vec![lost::UNVERIFIED],
            });
        }
        services.insert(rule.spec.host.clone(), said);
    }
    services
}

/// How a Service is spoken to, but for TLS.
fn spoken(policy: &TrafficPolicy, service: Option<&Service>, said: &mut Said) {
    if let Some(pool) = &policy.connection_pool {
        if pool.tcp.is_some() {
            said.lost.push(lost::CONNECT);
        }
        if pool.http.is_some() && !service.is_some_and(speaks_http2) {
            said.lost.push(lost::HTTP2);
        }
    }
    let Some(LoadBalancerSettings {
        lb_policy: Some(chosen),
        ..
    }) = &policy.load_balancer
    else {
        return;
    };
    match session(chosen) {
        Some(session) => said.session = Some(session),
        None => said.lost.push(lost::BALANCE),
    }
}

fn speaks_http2(service: &Service) -> bool {
    let mut ports = service.ports.iter();
    ports.all(|port| {
        let stated = port.app_protocol.as_deref();
        let stated = stated.or_else(|| port.name.split('-').next());
        stated.is_some_and(|protocol| HTTP2.contains(&protocol))
    })
}

/// Sessions by a cookie.
fn session(chosen: &LbPolicy) -> Option<Value> {
    let LbPolicy::ConsistentHash(ConsistentHashLb {
        hash_key: Some(HashKey::HttpCookie(cookie)),
        ..
    }) = chosen
    else {
        return None;
    };
    let path = if cookie.path.is_empty() {
        "/"
    } else {
        &cookie.path
    };
    let mut config = json!({ "name": cookie.name, "path": path });
    let seconds = cookie.ttl.as_ref().map_or(0, |ttl| ttl.0.seconds);
    let mut session = json!({ "type": "Cookie" });
    if seconds > 0 {
        config["lifetimeType"] = "Permanent".into();
        session["absoluteTimeout"] = super::does::time(seconds, 0).into();
    }
    session["cookie"] = config;
    Some(session)
}

/// What is lost of TLS to a Service; what remains is a policy.
fn of_tls(
    service: &ObjectName,
    tls: &ClientTlsSettings,
    rule: &Object<DestinationRule>,
    manifests: &mut Manifests,
) -> Vec<Lost> {
    let host = tls.subject_alt_names.first();
    let unverified = tls.insecure_skip_verify == Some(true);
    let host = host.filter(|host| super::is_host(host) && !host.starts_with('*'));
    let secret = credential::secret(&tls.credential_name);
    let (Some(host), Some(secret), false) = (host, secret, unverified) else {
        return vec![lost::UNVERIFIED];
    };
    let key = ObjectKey {
        kind: Kind::BackendTlsPolicy,
        name: ObjectName::new(service.namespace.clone(), &*service.name),
    };
    let map = format!("{}.{}-ca", secret.namespace, secret.name);
    let spec = json!({
        "targetRefs": [{ "group": "", "kind": "Service", "name": &*service.name }],
        "validation": {
            "caCertificateRefs": [{ "group": "", "kind": "ConfigMap", "name": map }],
            "hostname": host,
        },
    });
    let namespace = &service.namespace;
    let copy = format!("ca.crt of the Secret {secret} to the ConfigMap {namespace}/{map}");
    let comments = [
        made_from(&model::AnyObject::DestinationRule(std::sync::Arc::new(
            rule.clone(),
        ))),
        format!("Needs a copy of {copy}: until then, requests get errors."),
    ];
    manifests.copies.insert(copy);
    manifests.put(FILE, Manifest::new(&key, spec, &comments));
    match tls.mode == i32::from(TlSmode::Mutual) {
        true => vec![lost::CLIENT_CERTIFICATE],
        false => Vec::new(),
    }
}

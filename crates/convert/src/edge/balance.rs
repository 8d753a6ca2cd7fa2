//! The DestinationRule of a Service that annotations are about.
//!
//! Higress: pkg/ingress/kube/annotations/loadbalance.go, upstreamtls.go ApplyTrafficPolicy, 2.1.

use std::sync::Arc;

use annotations::{Algorithm, Annotations, BackendTls, HashBy, Protocol};
use model::kinds::kube::Ingress;
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Severity};
use proto_istio::networking::client_tls_settings::TlSmode;
use proto_istio::networking::connection_pool_settings::http_settings::H2UpgradePolicy;
use proto_istio::networking::connection_pool_settings::{HttpSettings, TcpSettings};
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::http_cookie::Attribute;
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::{HashKey, HttpCookie};
use proto_istio::networking::load_balancer_settings::{ConsistentHashLb, LbPolicy, SimpleLb};
use proto_istio::networking::{
    ClientTlsSettings, ConnectionPoolSettings, DestinationRule, LoadBalancerSettings, TrafficPolicy,
};
use store::index::ObjectIndex;

use super::annotated::{Annotated, AnnotatedBy};
use super::class::is_on;
use super::tls::credential;
use super::{age, derived, key, name, refer};
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The DestinationRule of a Service: what the oldest Ingress with annotations about it says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RuleOfService(pub ObjectName);

impl Derive for RuleOfService {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let service = &self.0;
        if !is_on(read) {
            return Outcome::default();
        }
        let value = format!("{}/{}", service.namespace, service.name);
        let ingresses = read.list_by::<Ingress>(ObjectIndex::Service, &value);
        let mut all: Vec<_> = ingresses
            .iter()
            .filter_map(|ingress| {
                let name = &ingress.meta.name;
                let annotated = read.derived(AnnotatedBy(name.clone())).as_ref().clone()?;
                let created = ingress.meta.created;
                is_about_services(&annotated.annotations).then_some((created, name, annotated))
            })
            .collect();
        all.sort_by(|(a, of_a, _), (b, of_b, _)| age(*a, of_a).cmp(&age(*b, of_b)));
        let Some((_, ingress, annotated)) = all.first() else {
            return Outcome::default();
        };
        let mut making = Making {
            read,
            ingress,
            annotated,
            others: annotated.others.clone(),
            findings: Vec::new(),
        };
        let policy = making.policy(&annotated.annotations);
        let rule = DestinationRule {
            host: refer::host_of(read, service),
            traffic_policy: Some(policy),
            ..DestinationRule::default()
        };
        let system = &read.settings().features.edge_namespace;
        let name = ObjectName::new(system.clone(), name::destination_rule(service));
        let (others, findings) = (making.others, making.findings);
        let derived = derived([(*ingress).clone()], others);
        Outcome {
            objects: vec![Made::new(object(name, derived, rule))],
            findings: findings.into(),
        }
    }
}

/// Whether annotations say anything about how Services are spoken to.
fn is_about_services(all: &Annotations) -> bool {
    let (balance, backend) = (&all.balance, &all.backend);
    // Sessions of MCP are kept by routes.
    balance.algorithm.is_some()
        || balance.hash.is_some()
        || balance.cookie.is_some()
        || backend.protocol != Protocol::Http
        || backend.tls.secret.is_some()
        || all.timeouts.connect.is_some()
}

struct Making<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    ingress: &'r ObjectName,
    annotated: &'r Arc<Annotated>,
    others: Vec<ObjectKey>,
    findings: Vec<Diagnostic>,
}

impl Making<'_, '_, '_> {
    fn policy(&mut self, all: &Annotations) -> TrafficPolicy {
        let is_http2 = matches!(
            all.backend.protocol,
            Protocol::Http2 | Protocol::Grpc | Protocol::Grpcs
        );
        let http = is_http2.then(|| HttpSettings {
            h2_upgrade_policy: H2UpgradePolicy::Upgrade.into(),
            ..HttpSettings::default()
        });
        let tcp = all.timeouts.connect.map(|time| TcpSettings {
            connect_timeout: Some(time.into()),
            ..TcpSettings::default()
        });
        let pool =
            (http.is_some() || tcp.is_some()).then_some(ConnectionPoolSettings { tcp, http });
        TrafficPolicy {
            load_balancer: policy_of(all).map(|policy| LoadBalancerSettings {
                lb_policy: Some(policy),
                ..LoadBalancerSettings::default()
            }),
            connection_pool: pool,
            tls: self.tls(all),
            ..TrafficPolicy::default()
        }
    }

    fn tls(&mut self, all: &Annotations) -> Option<ClientTlsSettings> {
        let is_tls = matches!(all.backend.protocol, Protocol::Https | Protocol::Grpcs);
        let stated: &BackendTls = &all.backend.tls;
        if !is_tls && stated.secret.is_none() {
            return None;
        }
        let name = stated.name.as_deref().unwrap_or_default().to_owned();
        let mut tls = ClientTlsSettings {
            mode: TlSmode::Simple.into(),
            insecure_skip_verify: Some(stated.verify != Some(true)),
            sni: if stated.send_name {
                name.clone()
            } else {
                String::new()
            },
            ..ClientTlsSettings::default()
        };
        if let Some(secret) = &stated.secret {
            let home = self.ingress;
            match refer::resolve(self.read, home, Kind::Secret, secret, &mut self.others) {
                Ok(found) => {
                    tls.mode = TlSmode::Mutual.into();
                    tls.credential_name = credential(&found);
                    // Envoy refuses names without an authority.
                    if stated.verify == Some(true) && !name.is_empty() {
                        tls.subject_alt_names = vec![name];
                    }
                }
                Err(why) => {
                    let at = self.annotated.path("proxy-ssl-secret");
                    let (key, severity) = (key(self.ingress), Severity::Error);
                    self.findings
                        .push(finding(&key, code::ANNOTATION, severity, at, why));
                }
            }
        }
        Some(tls)
    }
}

fn policy_of(all: &Annotations) -> Option<LbPolicy> {
    let hash = |key: HashKey| {
        LbPolicy::ConsistentHash(ConsistentHashLb {
            hash_key: Some(key),
            ..ConsistentHashLb::default()
        })
    };
    let balance = &all.balance;
    if let Some(cookie) = &balance.cookie {
        return Some(hash(HashKey::HttpCookie(HttpCookie {
            name: cookie.name.to_string(),
            path: cookie.path.to_string(),
            ttl: Some(cookie.ttl.into()),
            attributes: cookie.attributes.iter().map(attribute).collect(),
        })));
    }
    if let Some(by) = &balance.hash {
        return Some(hash(match by {
            HashBy::Header(name) => HashKey::HttpHeaderName(name.to_string()),
            HashBy::Query(name) => HashKey::HttpQueryParameterName(name.to_string()),
            HashBy::Address => HashKey::UseSourceIp(true),
        }));
    }
    let simple = match balance.algorithm? {
        Algorithm::RoundRobin => SimpleLb::RoundRobin,
        Algorithm::LeastRequest => SimpleLb::LeastRequest,
        Algorithm::Random => SimpleLb::Random,
        Algorithm::Passthrough => SimpleLb::Passthrough,
    };
    Some(LbPolicy::Simple(simple.into()))
}

fn attribute((name, value): (&Arc<str>, &Arc<str>)) -> Attribute {
    Attribute {
        name: name.to_string(),
        value: value.to_string(),
    }
}

//! The DestinationRule of a Service that annotations are about.
//!
//! Several Ingresses may be about one Service. Of each thing that they say, what the oldest says counts. Where that takes the
//! protection from what another says (TLS, the certificates that are shown and accepted), the requests of that one to the
//! Service are not served.
//!
//! Higress: pkg/ingress/kube/annotations/loadbalance.go, upstreamtls.go ApplyTrafficPolicy, 2.1.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annotations::{Algorithm, Annotations, HashBy, Protocol, Reference};
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
use super::elsewhere::entry_host;
use super::tls::credential;
use super::{derived, key, name, refer};
use crate::gateway_api::credential::Lacks;
use crate::outcome::{Made, Outcome, code, finding, object};
use crate::owner::{age, why_ingress_first};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The DestinationRule of a Service: of each thing that Ingresses about it say, what the oldest says counts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RuleOfService(pub ObjectName);

/// Why an Ingress's requests to a Service may not be served: what protects them is not what counts for the Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct UnprotectedBy {
    pub(super) ingress: ObjectName,
    pub(super) service: ObjectName,
}

/// What Ingresses say of how a Service is spoken to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SpokenTo(ObjectName);

/// What is said, of each thing by whom.
#[derive(PartialEq, Debug, Default)]
struct Spoken {
    /// Those that say anything, the oldest first.
    by: Vec<(ObjectName, Arc<Annotated>)>,
    /// Those of them whose word counts for something.
    from: Vec<ObjectName>,
    balance: Option<LbPolicy>,
    connect: Option<Duration>,
    protocol: Option<(ObjectName, Protocol)>,
    secret: Option<(ObjectName, Reference)>,
    verify: Option<(ObjectName, bool)>,
    name: Option<(ObjectName, Arc<str>)>,
    send_name: bool,
    /// Ingresses that say otherwise of what protects: the annotation, and whose word counts.
    losers: BTreeMap<ObjectName, (&'static str, ObjectName)>,
}

impl Derive for SpokenTo {
    type Stratum = Routes;
    type Value = Arc<Spoken>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Arc<Spoken> {
        let service = &self.0;
        let value = format!("{}/{}", service.namespace, service.name);
        let ingresses = read.list_by::<Ingress>(ObjectIndex::Service, &value);
        let mut all: Vec<_> = ingresses
            .iter()
            .filter_map(|ingress| {
                let name = &ingress.meta.name;
                let annotated = read.derived(AnnotatedBy(name.clone())).as_ref().clone()?;
                is_about_services(&annotated.annotations).then_some((
                    ingress.meta.created,
                    name.clone(),
                    annotated,
                ))
            })
            .collect();
        all.sort_by(|(a, of_a, _), (b, of_b, _)| age(*a, of_a).cmp(&age(*b, of_b)));
        let mut spoken = Spoken::default();
        for (_, name, annotated) in all {
            let before = spoken.said();
            spoken.add(&name, &annotated.annotations);
            if spoken.said() != before {
                spoken.from.push(name.clone());
            }
            spoken.by.push((name, annotated));
        }
        spoken.find_losers();
        Arc::new(spoken)
    }
}

impl Spoken {
    /// Takes in what an Ingress says that those before did not say.
    fn add(&mut self, ingress: &ObjectName, all: &Annotations) {
        let says = |name: &str| all.keys.contains_key(name);
        let by = || ingress.clone();
        let tls = &all.backend.tls;
        self.balance = self.balance.take().or_else(|| policy_of(all));
        self.connect = self.connect.or(all.timeouts.connect);
        if self.protocol.is_none()
            && (says("backend-protocol") || all.backend.protocol != Protocol::Http)
        {
            self.protocol = Some((by(), all.backend.protocol));
        }
        let secret = || Some((by(), tls.secret.clone()?));
        self.secret = self.secret.take().or_else(secret);
        let verify = || Some((by(), tls.verify?));
        self.verify = self.verify.take().or_else(verify);
        if self.name.is_none()
            && let Some(name) = &tls.name
        {
            self.name = Some((by(), name.clone()));
        }
        self.send_name |= tls.send_name;
    }

    /// What is said so far.
    fn said(&self) -> [bool; 7] {
        [
            self.balance.is_some(),
            self.connect.is_some(),
            self.protocol.is_some(),
            self.secret.is_some(),
            self.verify.is_some(),
            self.name.is_some(),
            self.send_name,
        ]
    }

    fn is_tls(&self) -> bool {
        is_tls(self.protocol.as_ref().map(|(_, protocol)| *protocol)) || self.secret.is_some()
    }

    fn find_losers(&mut self) {
        let found = self.by.iter().filter_map(|(ingress, annotated)| {
            let lost = self.lost(ingress, &annotated.annotations)?;
            Some((ingress.clone(), lost))
        });
        self.losers = found.collect();
    }

    /// What of an Ingress's protection is not what counts, and whose word counts in its place.
    fn lost(&self, ingress: &ObjectName, all: &Annotations) -> Option<(&'static str, ObjectName)> {
        let tls = &all.backend.tls;
        if is_tls(Some(all.backend.protocol)) && !self.is_tls() {
            let (by, _) = self.protocol.as_ref()?;
            return Some(("backend-protocol", by.clone()));
        }
        if let (Some(own), Some((by, counts))) = (&tls.secret, &self.secret)
            && refer::named(ingress, own) != refer::named(by, counts)
        {
            return Some(("proxy-ssl-secret", by.clone()));
        }
        if tls.verify == Some(true) {
            if let Some((by, false)) = &self.verify {
                return Some(("proxy-ssl-verify", by.clone()));
            }
            if let Some((by, counts)) = &self.name
                && tls.name.as_ref() != Some(counts)
            {
                return Some(("proxy-ssl-name", by.clone()));
            }
        }
        None
    }
}

/// Whether a Service is spoken to over TLS, as Ingresses say.
pub(super) fn is_secured(read: &Reader<'_, '_, Routes>, service: &ObjectName) -> bool {
    let service = service.in_cluster(None);
    read.derived(SpokenTo(service)).is_tls()
}

fn is_tls(protocol: Option<Protocol>) -> bool {
    matches!(protocol, Some(Protocol::Https | Protocol::Grpcs))
}

/// Whether a Secret holds an authority and no certificate: backends are judged by it, and shown none.
pub(super) fn is_authority_alone(read: &Reader<'_, '_, Routes>, secret: &ObjectName) -> bool {
    let lacks = |what: Lacks| read.derived(what).is_some();
    lacks(Lacks::pair(secret)) && !lacks(Lacks::roots(secret))
}

impl Derive for UnprotectedBy {
    type Stratum = Routes;
    type Value = Option<Arc<str>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let spoken = read.derived(SpokenTo(self.service.clone()));
        let (annotation, by) = spoken.losers.get(&self.ingress)?;
        Some(sentence(read, (&self.ingress, *annotation), &self.service, by).into())
    }
}

/// That the annotation of an Ingress does not count for a Service, as another one's does.
fn sentence(
    read: &Reader<'_, '_, Routes>,
    (ingress, annotation): (&ObjectName, &str),
    service: &ObjectName,
    by: &ObjectName,
) -> String {
    let why = why_ingress_first(read, by, ingress);
    format!(
        "{annotation} does not count for the Service {service}: {} {why} and says otherwise",
        key(by)
    )
}

impl Derive for RuleOfService {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let service = &self.0;
        if !is_on(read) {
            return Outcome::default();
        }
        let spoken = read.derived(SpokenTo(service.clone()));
        if spoken.by.is_empty() {
            return Outcome::default();
        }
        let mut making = Making {
            read,
            spoken: &spoken,
            others: Vec::new(),
            findings: Vec::new(),
        };
        let policy = making.policy();
        let rule = DestinationRule {
            host: match entry_host(read, service) {
                Some(host) => host.to_string(),
                None => refer::host_of(read, service),
            },
            traffic_policy: Some(policy),
            ..DestinationRule::default()
        };
        let system = &read.settings().features.edge_namespace;
        let name = ObjectName::new(system.clone(), name::of_service(service));
        let (mut others, mut findings) = (making.others, making.findings);
        for (ingress, annotated) in &spoken.by {
            if spoken.from.contains(ingress) {
                others.extend(annotated.others.iter().cloned());
            }
            if let Some((annotation, by)) = spoken.losers.get(ingress) {
                let why = sentence(read, (ingress, *annotation), service, by);
                let message = format!("{why}, so requests get 503 there");
                let at = annotated.path(annotation);
                let severity = Severity::Error;
                findings.push(finding(&key(ingress), code::CLOSED, severity, at, message));
            }
        }
        let derived = derived(spoken.from.iter().cloned(), others);
        let says_nothing = rule.traffic_policy == Some(TrafficPolicy::default());
        let made = (!says_nothing).then(|| Made::new(object(name, derived, rule)));
        Outcome {
            objects: made.into_iter().collect(),
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
        || all.keys.contains_key("backend-protocol")
        || backend.tls.secret.is_some()
        || all.timeouts.connect.is_some()
}

struct Making<'r, 'a, 'b> {
    read: &'r Reader<'a, 'b, Routes>,
    spoken: &'r Spoken,
    others: Vec<ObjectKey>,
    findings: Vec<Diagnostic>,
}

impl Making<'_, '_, '_> {
    fn policy(&mut self) -> TrafficPolicy {
        let spoken = self.spoken;
        let is_http2 = spoken.protocol.as_ref().is_some_and(|(_, protocol)| {
            matches!(protocol, Protocol::Http2 | Protocol::Grpc | Protocol::Grpcs)
        });
        let http = is_http2.then(|| HttpSettings {
            h2_upgrade_policy: H2UpgradePolicy::Upgrade.into(),
            ..HttpSettings::default()
        });
        let tcp = spoken.connect.map(|time| TcpSettings {
            connect_timeout: Some(time.into()),
            ..TcpSettings::default()
        });
        let pool =
            (http.is_some() || tcp.is_some()).then_some(ConnectionPoolSettings { tcp, http });
        let balance = spoken.balance.clone();
        TrafficPolicy {
            load_balancer: balance.map(|policy| LoadBalancerSettings {
                lb_policy: Some(policy),
                ..LoadBalancerSettings::default()
            }),
            connection_pool: pool,
            tls: spoken.is_tls().then(|| self.tls()),
            ..TrafficPolicy::default()
        }
    }

    fn tls(&mut self) -> ClientTlsSettings {
        let spoken = self.spoken;
        let is_verified = matches!(spoken.verify, Some((_, true)));
        let name = spoken.name.as_ref().map(|(_, name)| name.to_string());
        let name = name.unwrap_or_default();
        let mut tls = ClientTlsSettings {
            mode: TlSmode::Simple.into(),
            insecure_skip_verify: Some(!is_verified),
            sni: match spoken.send_name {
                true => name.clone(),
                false => String::new(),
            },
            ..ClientTlsSettings::default()
        };
        if let Some((ingress, secret)) = &spoken.secret {
            match refer::resolve(self.read, ingress, Kind::Secret, secret, &mut self.others) {
                Ok(found) => {
                    let is_alone = is_authority_alone(self.read, &found);
                    if !is_alone {
                        tls.mode = TlSmode::Mutual.into();
                    }
                    if !is_alone || is_verified {
                        tls.credential_name = credential(&found);
                    }
                    // Envoy refuses names without an authority.
                    if is_verified && !name.is_empty() {
                        tls.subject_alt_names = vec![name];
                    }
                }
                Err(why) => {
                    let mut by = spoken.by.iter().filter(|(name, _)| name == ingress);
                    let at = by.next().map(|(_, by)| by.path("proxy-ssl-secret"));
                    let (key, severity) = (key(ingress), Severity::Error);
                    let at = at.unwrap_or_default();
                    let found = finding(&key, code::ANNOTATION, severity, at, why.sentence());
                    self.findings.push(found);
                }
            }
        }
        tls
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

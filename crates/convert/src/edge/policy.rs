//! What all routes of an Ingress have, whatever their path.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use annotations::{Annotations, Dialect, HeaderChange, MirrorTo, Origin, Protocol, Reference};
use model::edge::{AddressRules, EdgeRoute, Fallback, RateLimit};
use model::kinds::kube::ConfigMap;
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Severity};
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{
    CorsPolicy, Headers, HttpMirrorPolicy, HttpRoute, Percent, StringMatch,
};

use super::annotated::{Annotated, AnnotatedBy};
use super::auth::Asked;
use super::balance::is_authority_alone;
use super::refer::{self, Fault};
use super::{access, calls, format, key, limits, mcp};
use crate::gateway_api::credential::Lacks;
use crate::outcome::{code, finding};
use crate::reader::{Derive, Reader};
use crate::refer::{Named, Target};
use crate::strata::Routes;

/// What all routes of an Ingress have; none where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PolicyOf(pub(super) ObjectName);

/// What all routes of an Ingress have.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Policy {
    /// Without a match and without a destination.
    pub(super) route: HttpRoute,
    pub(super) edge: EdgeRoute,
    /// The service that decides about requests, as long as the rules of a host have to say where it is.
    pub(super) asked: Option<Asked>,
    /// Why no request may be served.
    pub(super) closed: Option<Arc<str>>,
    /// The other objects that it was made from.
    pub(super) others: Vec<ObjectKey>,
    pub(super) findings: Vec<Diagnostic>,
}

impl Policy {
    /// Whether it keeps requests back in a way that the other does not.
    pub(super) fn protects_more(&self, other: &Self) -> bool {
        let (ours, others) = (&self.edge, &other.edge);
        let ways = [
            (self.closed.is_some(), false),
            (ours.addresses.is_some(), others.addresses.is_some()),
            (ours.users.is_some(), others.users.is_some()),
            (self.asks(), other.asks()),
        ];
        other.closed.is_none() && ways.into_iter().any(|(our, other)| our && !other)
    }

    /// Whether a service decides about requests.
    fn asks(&self) -> bool {
        self.edge.external.is_some() || self.asked.is_some()
    }

    /// What keeps requests back, to be compared.
    pub(super) fn protection(&self) -> impl PartialEq + use<'_> {
        let edge = &self.edge;
        (
            &self.closed,
            &edge.addresses,
            &edge.users,
            &edge.external,
            &self.asked,
            edge.any_is_enough,
        )
    }

    /// Whether it keeps any requests back.
    pub(super) fn protects(&self) -> bool {
        self.protects_more(&Self::default())
    }
}

impl Derive for PolicyOf {
    type Stratum = Routes;
    type Value = Option<Arc<Policy>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let annotated = read.derived(AnnotatedBy(self.0.clone())).as_ref().clone()?;
        let mut making = Making {
            read,
            ingress: &self.0,
            annotated: &annotated,
            policy: Policy::default(),
        };
        making.policy.closed = annotated.annotations.closed.clone();
        making.policy.others = annotated.others.clone();
        making.make();
        Some(Arc::new(making.policy))
    }
}

/// What backends are told of the certificates that clients show, as ingress-nginx tells them.
const CERTIFICATE_HEADERS: [(&str, &str); 3] = [
    ("ssl-client-cert", "%DOWNSTREAM_PEER_CERT%"),
    ("ssl-client-issuer-dn", "%DOWNSTREAM_PEER_ISSUER%"),
    ("ssl-client-subject-dn", "%DOWNSTREAM_PEER_SUBJECT%"),
];

/// What the names of all of them begin with.
pub(super) const OF_CERTIFICATES: &str = "ssl-client-";

/// What says whether a client's certificate was verified.
const VERIFIED: &str = "ssl-client-verify";

/// A policy being made.
pub(super) struct Making<'r, 'a, 'b> {
    pub(super) read: &'r Reader<'a, 'b, Routes>,
    pub(super) ingress: &'r ObjectName,
    pub(super) annotated: &'r Annotated,
    pub(super) policy: Policy,
}

impl Making<'_, '_, '_> {
    fn make(&mut self) {
        let all: &Annotations = &self.annotated.annotations;
        self.headers(all);
        self.queries(all);
        self.policy.route.cors_policy = all.cors.as_ref().map(cors);
        self.policy.route.timeout = all.timeouts.request.map(Into::into);
        self.mirror(all);
        self.fallback(all);
        self.backend_tls(all);
        let (allowed, denied) = (&all.access.allowed, &all.access.denied);
        if !allowed.is_empty() || !denied.is_empty() {
            self.policy.edge.addresses = Some(AddressRules {
                allowed: allowed.clone(),
                denied: denied.clone(),
            });
        }
        self.policy.edge.any_is_enough = all.access.any_is_enough;
        if let Some(basic) = &all.access.basic {
            self.policy.edge.users = access::users(self, basic);
        }
        if let Some(external) = &all.access.external {
            access::external(self, external);
        }
        let limits = all.limits.rates.iter().map(|rate| RateLimit {
            burst: rate.burst,
            fill: rate.requests,
            every: std::time::Duration::from_secs(rate.seconds.into()),
            status: rate.status,
            per_client: rate.per_client,
            except: match rate.per_client {
                true => all.limits.except.clone(),
                false => Default::default(),
            },
        });
        self.policy.edge.limits = limits.collect();
        let is_grpc = matches!(all.backend.protocol, Protocol::Grpc | Protocol::Grpcs);
        self.policy.edge.max_body = all.limits.body.filter(|_| !is_grpc);
        self.policy.edge.mcp = mcp::server(self, all);
        let server = self.policy.edge.mcp.as_ref();
        self.policy.edge.idle_timeout = mcp::idle_timeout(server, all.timeouts.idle);
        self.policy.edge.rpc = all.rpc.as_ref().map(|name| calls::calls(self, name));
        self.policy.edge.tells_clients = self.annotated.dialect == Dialect::Nginx;
        self.policy.edge.drops_underscores = all.headers.drops_underscores;
        self.policy.edge.hsts.clone_from(&all.headers.hsts);
    }

    /// Reports a query in a path that Higress's dialect rewrites to: as there, Envoy puts the query of a request behind it.
    fn queries(&mut self, all: &Annotations) {
        if self.annotated.dialect == Dialect::Nginx {
            return;
        }
        let stated = [
            ("rewrite-path", &all.rewrite.path),
            ("rewrite-target", &all.rewrite.target),
        ];
        let used = stated
            .into_iter()
            .find_map(|(name, to)| Some((name, to.as_ref()?)));
        if let Some((name, _)) = used.filter(|(_, to)| to.contains('?')) {
            let why = "has a query: requests that have one of their own reach the backend with two question marks";
            self.warn(name, why);
        }
    }

    fn headers(&mut self, all: &Annotations) {
        let mut request = operations(&all.headers.request);
        let mut response = operations(&all.headers.response);
        if let Some(prefix) = &all.rewrite.forwarded_prefix {
            let name = "x-forwarded-prefix".to_owned();
            request.set.insert(name, format::literal(prefix));
        }
        if let Some(map) = &all.headers.of_config_map {
            const NAME: &str = "custom-headers";
            match self.config_map(NAME, map) {
                Ok(headers) => {
                    let headers = headers.iter();
                    let set =
                        headers.map(|(name, value)| (name.to_string(), format::literal(value)));
                    response.set.extend(set);
                }
                Err(why) => self.warn(NAME, why),
            }
        }
        if let Some(client) = &all.tls.client {
            for (name, value) in CERTIFICATE_HEADERS {
                if client.pass || name != "ssl-client-cert" {
                    // Without a certificate the value is empty, and an empty value does not replace what a client says.
                    request.remove.push(name.to_owned());
                    request.set.insert(name.to_owned(), value.to_owned());
                }
            }
            // Where certificates may be absent nothing says of a request whether there was one: then nobody may say so.
            request.remove.push(VERIFIED.to_owned());
            if client.required {
                request
                    .set
                    .insert(VERIFIED.to_owned(), "SUCCESS".to_owned());
            }
        }
        let any = [&request, &response]
            .iter()
            .any(|part| **part != HeaderOperations::default());
        self.policy.route.headers = any.then_some(Headers {
            request: Some(request),
            response: Some(response),
        });
    }

    /// The headers of a ConfigMap that an annotation names, those with usable names and values; why there is no such ConfigMap.
    pub(super) fn config_map(
        &mut self,
        annotation: &str,
        map: &Reference,
    ) -> Result<BTreeMap<Arc<str>, Arc<str>>, String> {
        let ingress = self.ingress;
        let others = &mut self.policy.others;
        let name = refer::resolve(self.read, ingress, Kind::ConfigMap, map, others)?;
        let map = self.read.get::<ConfigMap>(&name);
        let map = map.ok_or_else(|| format!("there is no ConfigMap {name}"))?;
        self.policy.others.push(map.key());
        let mut headers = BTreeMap::new();
        for (name, value) in map.spec.data.iter().take(limits::HEADERS) {
            let lower: Arc<str> = name.to_ascii_lowercase().into();
            if format::is_header(&lower, value) {
                headers.insert(lower, value.clone());
            } else {
                let message = format!("{name:?} of the ConfigMap is no header that can be set");
                self.warn(annotation, message);
            }
        }
        Ok(headers)
    }

    /// Closes the routes where backends cannot be shown the certificate that they are to be shown, or theirs not checked.
    ///
    /// ingress-nginx: internal/ingress/controller/store/backend_ssl.go getPemCertificate, which takes an authority without a
    /// certificate. There nothing is checked where the authority is not there.
    fn backend_tls(&mut self, all: &Annotations) {
        const NAME: &str = "proxy-ssl-secret";
        let tls = &all.backend.tls;
        let is_verified = tls.verify == Some(true);
        let Some(secret) = &tls.secret else {
            if is_verified {
                let why =
                    "has no proxy-ssl-secret with an authority beside it, so requests get 503";
                self.close("proxy-ssl-verify", "proxy-ssl-verify has no authority", why);
            }
            return;
        };
        let (read, ingress) = (self.read, self.ingress);
        let others = &mut self.policy.others;
        let found = refer::resolve(read, ingress, Kind::Secret, secret, others);
        let holds = |lacks: Lacks| match &*read.derived(lacks) {
            None => Ok(()),
            Some(why) => Err(why.clone()),
        };
        let found = found.map_err(String::from).and_then(|name| {
            let is_alone = is_authority_alone(read, &name);
            if !is_alone {
                holds(Lacks::pair(&name))?;
            }
            if is_verified {
                holds(Lacks::roots(&name))?;
            }
            Ok((name, is_alone))
        });
        match found {
            Err(why) => {
                let why = format!("{why}, so requests get 503");
                self.close(NAME, "proxy-ssl-secret cannot be used", why);
            }
            Ok((name, true)) if !is_verified => {
                let message = format!(
                    "the Secret {name} has an authority and no certificate: backends are shown none, and without \
                     `proxy-ssl-verify` theirs is not checked"
                );
                self.warn(NAME, message);
            }
            Ok(_) => {}
        }
    }

    fn mirror(&mut self, all: &Annotations) {
        let Some(mirror) = &all.mirror else { return };
        let (target, port) = match &mirror.to {
            MirrorTo::Host(host, _) if host.parse::<IpAddr>().is_ok() => {
                let message = "is an address, which no destination stands for, so nothing is mirrored: \
                               give it a name with a ServiceEntry";
                self.warn("mirror-target-fqdn", message.to_owned());
                return;
            }
            MirrorTo::Host(host, port) => {
                let others = &mut self.policy.others;
                match refer::target(self.read, self.ingress, Named::Host(host), others) {
                    Ok(target) => (target, *port),
                    Err(refusal) => {
                        let why = format!("{}, so nothing is mirrored", refusal.sentence());
                        let severity = Severity::Warning;
                        self.tell(code::NOT_PERMITTED, severity, "mirror-target-fqdn", why);
                        return;
                    }
                }
            }
            MirrorTo::Service(service, port) => {
                match self.service("mirror-target-service", service, *port) {
                    Some(found) => found,
                    None => return,
                }
            }
        };
        self.policy.route.mirrors = vec![HttpMirrorPolicy {
            destination: Some(target.destination(port, None)),
            percentage: Some(Percent {
                value: f64::from(mirror.percent.min(100)),
            }),
        }];
    }

    fn fallback(&mut self, all: &Annotations) {
        let Some(service) = &all.fallback.service else {
            return;
        };
        let Some((target, port)) = self.service("default-backend", service, None) else {
            return;
        };
        let ObjectName {
            namespace, name, ..
        } = self.ingress;
        let headers = [
            ("x-code", "%RESPONSE_CODE%".to_owned()),
            ("x-original-uri", "%REQ(:path)%".to_owned()),
            ("x-format", "%REQ(accept)%".to_owned()),
            ("x-namespace", namespace.to_string()),
            ("x-ingress-name", name.to_string()),
            ("x-request-id", "%REQ(x-request-id)%".to_owned()),
        ];
        let headers = headers
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.policy.edge.fallback = Some(Fallback {
            host: target.host().clone(),
            port,
            if_unavailable: true,
            statuses: all.fallback.statuses.clone(),
            headers: headers.collect(),
        });
    }

    /// A Service that an annotation names, and its port; told where there is none.
    fn service(
        &mut self,
        annotation: &str,
        service: &Reference,
        port: Option<u16>,
    ) -> Option<(Target, u16)> {
        let (read, ingress) = (self.read, self.ingress);
        let object = ObjectKey {
            kind: Kind::Service,
            name: refer::named(ingress, service),
        };
        let others = &mut self.policy.others;
        let target = refer::target(read, ingress, Named::Object(object.clone()), others);
        let found = target.map_err(Fault::from).and_then(|target| {
            let port = port.map(super::rules::BackendPort::Number);
            let number = refer::port(read, &object.name, port.as_ref())?;
            Ok((target, number))
        });
        match found {
            Ok(found) => Some(found),
            Err(fault) => {
                let code = match fault.code {
                    code::NOT_PERMITTED => code::NOT_PERMITTED,
                    _ => code::ANNOTATION,
                };
                self.tell(code, Severity::Warning, annotation, fault.sentence);
                None
            }
        }
    }

    /// An annotation is ignored.
    pub(super) fn warn(&mut self, annotation: &str, why: impl Into<Arc<str>>) {
        self.tell(code::ANNOTATION, Severity::Warning, annotation, why);
    }

    /// An annotation that protects something cannot be honoured, so requests get 503. `reason` stands in a header.
    pub(super) fn close(&mut self, annotation: &str, reason: &str, why: impl Into<Arc<str>>) {
        self.tell(code::CLOSED, Severity::Error, annotation, why);
        self.policy.closed.get_or_insert_with(|| reason.into());
    }

    fn tell(
        &mut self,
        code: &'static str,
        severity: Severity,
        annotation: &str,
        why: impl Into<Arc<str>>,
    ) {
        let at = self.annotated.path(annotation);
        let found = finding(&key(self.ingress), code, severity, at, why);
        self.policy.findings.push(found);
    }
}

fn operations(change: &HeaderChange) -> HeaderOperations {
    let pairs = |map: &BTreeMap<Arc<str>, Arc<str>>| {
        let pairs = map
            .iter()
            .map(|(name, value)| (name.to_string(), format::value(value)));
        pairs.collect()
    };
    let formats = change.set_format.iter();
    let formats = formats.map(|(name, format)| (name.to_string(), format.to_string()));
    let mut set: BTreeMap<String, String> = pairs(&change.set);
    set.extend(formats);
    HeaderOperations {
        set,
        add: pairs(&change.add),
        remove: change.remove.iter().map(ToString::to_string).collect(),
    }
}

fn cors(cors: &annotations::Cors) -> CorsPolicy {
    let texts = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
    let origins = cors.origins.iter().map(|origin| StringMatch {
        match_type: Some(match origin {
            Origin::Any => MatchType::Regex(".*".to_owned()),
            Origin::Exact(origin) => MatchType::Exact(origin.to_string()),
            Origin::Regex(origin) => MatchType::Regex(origin.to_string()),
        }),
    });
    CorsPolicy {
        allow_origins: origins.collect(),
        allow_methods: texts(&cors.methods),
        allow_headers: texts(&cors.headers),
        expose_headers: texts(&cors.expose),
        allow_credentials: Some(cors.credentials),
        max_age: Some(cors.max_age.into()),
        ..CorsPolicy::default()
    }
}

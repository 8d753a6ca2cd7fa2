//! How the clients of a host connect. Of the Ingresses that decide about a host, the first that says anything of versions and
//! ciphers decides about those, but for the least version, which is the highest that any states, and the first that asks for
//! certificates about those.

use std::collections::BTreeSet;
use std::sync::Arc;

use annotations::{ClientCertificates, Dialect, HostTls, Version};
use model::kinds::kube::{Ingress, Secret};
use model::{Diagnostic, Kind, Namespace, ObjectKey, ObjectName, Severity, x509};
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::{TlSmode, TlsProtocol};
use store::index::ObjectIndex;

use super::https::{self, HttpsFor};
use super::rules::{HostRules, RulesAbout};
use super::{key, refer};
use crate::gateway_api::credential::Lacks;
use crate::outcome::{code, finding};
use crate::owner::{Members, OwnerOf};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Ingresses that may say something about a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct IngressesOf(pub(super) Arc<str>);

impl Derive for IngressesOf {
    type Stratum = Routes;
    type Value = Arc<Members<HostRules>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let names = read.names_by::<Ingress>(ObjectIndex::Host, &self.0);
        let rules = names.into_iter().filter_map(|ingress| {
            let about = RulesAbout {
                ingress: ingress.clone(),
                host: self.0.clone(),
            };
            let rules = read.derived(about).as_ref().clone()?;
            Some((ingress, rules))
        });
        let mut all: Vec<(ObjectName, Arc<HostRules>)> = rules.collect();
        // Where a host has rules of its own in a namespace it is nobody's other name there.
        let own = all.iter().filter(|(_, rules)| !rules.is_alias);
        let own: BTreeSet<Namespace> = own.map(|(name, _)| name.namespace.clone()).collect();
        all.retain(|(name, rules)| !rules.is_alias || !own.contains(&name.namespace));
        if all.is_empty() {
            return Arc::default();
        }
        let owner = read.derived(OwnerOf(self.0.clone()));
        let about = (Kind::Ingress, &self.0);
        Arc::new(Members::of(read, owner.as_ref().as_ref(), about, all))
    }
}

/// The oldest Ingress that is served for a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OldestOf(pub(crate) Arc<str>);

impl Derive for OldestOf {
    type Stratum = Routes;
    type Value = Option<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let ingresses = read.derived(IngressesOf(self.0.clone()));
        let (name, _) = ingresses.all().first()?;
        Some(name.clone())
    }
}

/// How the clients of a host connect.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TlsOf(pub(super) Arc<str>);

/// How the clients of a host connect.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Tls {
    /// What its HTTPS server is told; none where there is no HTTPS.
    pub(super) settings: Option<ServerTlsSettings>,
    /// Whoever comes in plain text can be sent to HTTPS: it is served here, or by what connections go to as they are.
    pub(super) has_https: bool,
    /// Connections go to the backend as they are.
    pub(super) passthrough: bool,
    /// The Ingresses that say so.
    pub(super) passing: BTreeSet<ObjectName>,
    /// Clients must or may show certificates, so nothing is served in plain text or to other connections.
    pub(super) is_mutual: bool,
    /// Why no request may be served.
    pub(super) closed: Option<Arc<str>>,
    /// Ingresses that ask for more of clients than the host does, so that none of their requests may be served.
    pub(super) refused: BTreeSet<ObjectName>,
    pub(super) others: Vec<ObjectKey>,
    pub(super) findings: Vec<Diagnostic>,
}

impl Derive for TlsOf {
    type Stratum = Routes;
    type Value = Arc<Tls>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let ingresses = read.derived(IngressesOf(self.0.clone()));
        let mut tls = Tls::default();
        let bases = || {
            let all = ingresses.deciding().iter();
            all.filter(|(_, rules)| rules.annotated.annotations.canary.is_none())
        };
        // nginx takes it from any Ingress of the host, Higress from the oldest.
        let passes = |(_, rules): &&(ObjectName, Arc<HostRules>)| {
            let is_stated = rules.annotated.annotations.tls.passthrough;
            is_stated && rules.annotated.dialect == Dialect::Nginx
        };
        let first = bases().next();
        tls.passthrough = first.is_some_and(|(_, r)| r.annotated.annotations.tls.passthrough)
            || bases().any(|base| passes(&base));
        if tls.passthrough {
            let passing = bases().filter(|(_, r)| r.annotated.annotations.tls.passthrough);
            tls.passing = passing.map(|(name, _)| name.clone()).collect();
            // In plain text the host is still served here, and nginx asks whether any of its Ingresses has TLS.
            tls.has_https = bases().any(|(_, rules)| rules.has_tls);
            return Arc::new(tls);
        }
        for (ingress, rules) in bases().filter(|(_, r)| r.annotated.annotations.tls.passthrough) {
            let message = format!(
                "is not used for the host {:?}: the Ingress that comes first does not say so",
                self.0
            );
            let at = rules.annotated.path("ssl-passthrough");
            let severity = Severity::Warning;
            tls.findings.push(finding(
                &key(ingress),
                code::ANNOTATION,
                severity,
                at,
                message,
            ));
        }
        tls.settings = certificate(read, &self.0, bases(), &mut tls.others, &mut tls.findings);
        tls.has_https = tls.settings.is_some();
        let states = |(_, rules): &&(ObjectName, Arc<HostRules>)| {
            let stated = &rules.annotated.annotations.tls;
            stated.min.is_some() || stated.max.is_some() || !stated.ciphers.is_empty()
        };
        if let Some(settings) = &mut tls.settings
            && let Some((_, rules)) = bases().find(states)
        {
            let least = bases().filter_map(|(_, rules)| rules.annotated.annotations.tls.min);
            parameters(settings, &rules.annotated.annotations.tls, least.max());
        }
        let mut asking = bases().filter_map(Asking::of);
        let first = asking.next();
        if let Some(first) = &first {
            clients(read, first, &mut tls);
        }
        let guests = ingresses.all().iter().skip(ingresses.deciding().len());
        for other in asking.chain(guests.filter_map(Asking::of)) {
            if first
                .as_ref()
                .is_none_or(|first| first.is_less_than(&other))
            {
                refuse(first.as_ref(), &other, &mut tls);
            }
        }
        Arc::new(tls)
    }
}

/// The settings with the certificate of a host, by the first Ingress that has one: that which it names, else that of the
/// ConfigMap `higress-https`, if it asks for TLS at all.
///
/// Higress: pkg/ingress/kube/ingressv1/controller.go ConvertGateway, 2.1.
fn certificate<'r>(
    read: &Reader<'_, '_, Routes>,
    host: &Arc<str>,
    mut bases: impl Iterator<Item = &'r (ObjectName, Arc<HostRules>)> + Clone,
    others: &mut Vec<ObjectKey>,
    findings: &mut Vec<Diagnostic>,
) -> Option<ServerTlsSettings> {
    let stated = bases
        .clone()
        .filter(|(_, rules)| rules.has_tls)
        .find_map(|(ingress, rules)| stated(read, host, ingress, rules, others, findings));
    let secret = match stated {
        Some(secret) => secret,
        None => {
            let Some(default) = read.settings().features.edge_certificate.object() else {
                findings.extend(
                    bases.filter_map(|(ingress, rules)| without_secret(host, ingress, rules)),
                );
                return None;
            };
            let is_nginx = |rules: &HostRules| rules.annotated.dialect == Dialect::Nginx;
            let (ingress, rules) = bases.find(|(_, r)| r.has_tls || is_nginx(r))?;
            findings.extend(without_default(
                read,
                &default,
                (&**host, ingress, &**rules),
            ));
            default
        }
    };
    Some(ServerTlsSettings {
        mode: TlSmode::Simple.into(),
        credential_name: credential(&secret),
        ..ServerTlsSettings::default()
    })
}

/// What is reported where an Ingress asks for TLS and nothing says which certificate is shown.
fn without_secret(host: &str, ingress: &ObjectName, rules: &HostRules) -> Option<Diagnostic> {
    let at = rules.without_secret.clone()?;
    let message = format!(
        "names no Secret, and there is no default certificate, so {host:?} has no HTTPS: name one, or set --ingress-default-certificate"
    );
    let severity = Severity::Warning;
    Some(finding(
        &key(ingress),
        code::NOT_SERVED,
        severity,
        at,
        message,
    ))
}

/// What is reported where nothing but the default certificate could be shown for a host, and it is not there.
fn without_default(
    read: &Reader<'_, '_, Routes>,
    default: &ObjectName,
    (host, ingress, rules): (&str, &ObjectName, &HostRules),
) -> Option<Diagnostic> {
    let lacking = read.derived(Lacks::pair(default));
    let why = lacking.as_ref().as_ref()?;
    let at = rules.without_secret.clone();
    let at = at.unwrap_or_else(|| rules.at.clone());
    let message = format!("for the default certificate {why}, so {host:?} has no HTTPS");
    let severity = Severity::Warning;
    Some(finding(
        &key(ingress),
        code::NO_BACKEND,
        severity,
        at,
        message,
    ))
}

/// Whether the certificate in a Secret is for a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CertifiedBy {
    secret: ObjectName,
    host: Arc<str>,
}

impl Derive for CertifiedBy {
    type Stratum = Routes;
    type Value = bool;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> bool {
        let secret = read.get::<Secret>(&self.secret);
        let chain = secret
            .as_ref()
            .and_then(|secret| secret.spec.data.get("tls.crt"));
        let text = chain.and_then(|chain| std::str::from_utf8(&chain.0).ok());
        let leaf = text.and_then(|text| x509::pem(text).next()?.der());
        let certificate = leaf.as_deref().and_then(x509::certificate);
        certificate.is_some_and(|certificate| certificate.names(&self.host))
    }
}

/// The Secret of a host by one Ingress that asks for TLS.
fn stated(
    read: &Reader<'_, '_, Routes>,
    host: &Arc<str>,
    ingress: &ObjectName,
    rules: &HostRules,
    others: &mut Vec<ObjectKey>,
    findings: &mut Vec<Diagnostic>,
) -> Option<ObjectName> {
    let secret = |name: &ObjectName| ObjectKey {
        kind: Kind::Secret,
        name: name.clone(),
    };
    let mut warn = |at: &str, message: String| {
        let severity = Severity::Warning;
        let at = at.to_owned();
        findings.push(finding(
            &key(ingress),
            code::NO_BACKEND,
            severity,
            at,
            message,
        ));
    };
    let of_server = rules.of_server.as_ref().filter(|(_, name)| {
        let secret = ObjectName::new(ingress.namespace.clone(), &**name);
        let secret = secret.in_cluster(ingress.cluster.as_ref());
        let host = host.clone();
        *read.derived(CertifiedBy { secret, host })
    });
    let Some((at, name)) = rules.certificate.as_ref().or(of_server) else {
        let stated = read.derived(HttpsFor(host.clone()));
        let name = stated.as_ref().as_ref()?.secret.clone();
        others.push(https::object(read));
        match &*read.derived(Lacks::pair(&name)) {
            None => others.push(secret(&name)),
            Some(why) => {
                let message = format!(
                    "{why}, so no HTTPS is served with it; the ConfigMap higress-https names it for {host}"
                );
                warn("spec.tls", message);
            }
        }
        return Some(name);
    };
    let name = ObjectName::new(ingress.namespace.clone(), &**name);
    let name = name.in_cluster(ingress.cluster.as_ref());
    let lacking = read.derived(Lacks::pair(&name));
    let Some(why) = lacking.as_ref() else {
        others.push(secret(&name));
        return Some(name);
    };
    let standin = read.derived(HttpsFor(host.clone()));
    if let Some(standin) = standin.as_ref().as_ref().filter(|s| s.fallback) {
        let other = standin.secret.clone();
        let message =
            format!("{why}, so {other} stands in for it, as the ConfigMap higress-https says");
        warn(at, message);
        others.extend([https::object(read), secret(&other)]);
        return Some(other);
    }
    let default = read.settings().features.edge_certificate.object();
    if let Some(default) = default.filter(|_| rules.annotated.dialect == Dialect::Nginx) {
        let message = match &*read.derived(Lacks::pair(&default)) {
            None => format!("{why}, so the default certificate is shown"),
            Some(too) => {
                format!("{why}, and for the default certificate {too}, so {host:?} has no HTTPS")
            }
        };
        warn(at, message);
        others.push(secret(&name));
        return Some(default);
    }
    warn(at, format!("{why}, so no HTTPS is served with it"));
    Some(name)
}

/// The name by which the gateway's proxies ask for a Secret.
///
/// Higress: pkg/ingress/kube/util/util.go, 2.1 (`kubernetes-ingress://<cluster>/<namespace>/<name>`).
pub(crate) fn credential(secret: &ObjectName) -> String {
    let ObjectName {
        namespace,
        name,
        cluster,
    } = secret;
    match cluster {
        None => format!("kubernetes-gateway://{namespace}/{name}"),
        Some(cluster) => format!("kubernetes-ingress://{cluster}/{namespace}/{name}"),
    }
}

/// Versions and ciphers as the first Ingress states them that states any, with the strictest of all least versions.
fn parameters(settings: &mut ServerTlsSettings, stated: &HostTls, least: Option<Version>) {
    let protocol = |version: Option<Version>| {
        let version = match version {
            None => TlsProtocol::TlsAuto,
            Some(Version::V1_0) => TlsProtocol::Tlsv10,
            Some(Version::V1_1) => TlsProtocol::Tlsv11,
            Some(Version::V1_2) => TlsProtocol::Tlsv12,
            Some(Version::V1_3) => TlsProtocol::Tlsv13,
        };
        version.into()
    };
    let most = stated
        .max
        .map(|most| least.map_or(most, |least| most.max(least)));
    settings.min_protocol_version = protocol(least);
    settings.max_protocol_version = protocol(most);
    settings.cipher_suites = stated.ciphers.iter().map(ToString::to_string).collect();
}

/// An Ingress that asks for certificates of clients.
struct Asking<'r> {
    ingress: &'r ObjectName,
    rules: &'r HostRules,
    client: &'r ClientCertificates,
}

impl<'r> Asking<'r> {
    /// None where the Ingress does not ask for any.
    fn of((ingress, rules): &'r (ObjectName, Arc<HostRules>)) -> Option<Self> {
        let annotations = &rules.annotated.annotations;
        // A canary has no say in how clients connect.
        let client = annotations.tls.client.as_ref()?;
        annotations.canary.is_none().then_some(Self {
            ingress,
            rules,
            client,
        })
    }

    /// The Secret with the authority, as the Ingress means it.
    fn secret(&self) -> ObjectName {
        refer::named(self.ingress, &self.client.secret)
    }

    /// Whether who is let in by this one need not be let in by the other.
    fn is_less_than(&self, other: &Asking<'_>) -> bool {
        self.secret() != other.secret() || other.client.required && !self.client.required
    }
}

/// Closes the routes of an Ingress that asks for other clients than the host, which has one authority or none.
fn refuse(first: Option<&Asking<'_>>, other: &Asking<'_>, tls: &mut Tls) {
    let message = match first {
        Some(first) => format!(
            "asks for other clients than {} does, whose word counts for the host, so no request of this Ingress is served there",
            key(first.ingress)
        ),
        None => "asks for certificates of clients, which only Ingresses of the namespace can do that the host belongs to, so no \
                 request of this Ingress is served there"
            .to_owned(),
    };
    let at = other.rules.annotated.path("auth-tls-secret");
    let found = finding(
        &key(other.ingress),
        code::CLOSED,
        Severity::Error,
        at,
        message,
    );
    tls.findings.push(found);
    tls.refused.insert(other.ingress.clone());
}

/// Makes clients show certificates; where that cannot be, the host is closed.
fn clients(read: &Reader<'_, '_, Routes>, asking: &Asking<'_>, tls: &mut Tls) {
    let Asking {
        ingress,
        rules,
        client,
    } = asking;
    tls.is_mutual = true;
    let found = refer::resolve(read, ingress, Kind::Secret, &client.secret, &mut tls.others);
    let found =
        found
            .map_err(String::from)
            .and_then(|name| match &*read.derived(Lacks::roots(&name)) {
                None => Ok(name),
                Some(why) => Err(why.clone()),
            });
    match (found, &mut tls.settings) {
        (Ok(name), Some(settings)) => {
            let mode = match client.required {
                true => TlSmode::Mutual,
                false => TlSmode::OptionalMutual,
            };
            settings.mode = mode.into();
            let credential = credential(&name);
            settings.ca_cert_credential_name = match credential.strip_suffix("-cacert") {
                Some(_) => credential,
                None => format!("{credential}-cacert"),
            };
            tls.others.push(ObjectKey {
                kind: Kind::Secret,
                name,
            });
        }
        (found, _) => {
            let why = found
                .err()
                .unwrap_or_else(|| "the host has no certificate".to_owned());
            let message = format!("{why}, so no request for the host is served");
            let at = rules.annotated.path("auth-tls-secret");
            let found = finding(&key(ingress), code::CLOSED, Severity::Error, at, message);
            tls.findings.push(found);
            tls.closed = Some("auth-tls-secret cannot be used".into());
        }
    }
}

//! TLS secrets: from Secret and ConfigMap objects, for those who may read them, and a workload's own certificate with the
//! roots of the mesh, for proxies that have no agent.
//!
//! A resource is made once for everybody; which of them a proxy gets is decided by its verified identity and the cluster
//! it is in ([`may_read`]). A proxy without an identity gets none.
//!
//! Istio: pilot/pkg/xds/sds.go and pilot/pkg/credentials/kube, 1.32.

mod allowed;
mod held;
mod made;
mod named;
mod own;
mod spiffe;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use mesh::capabilities::{Capabilities, CertificateSource};
use mesh::finding::{about_named, code};
use mesh::gateways;
use mesh::gateways::{GatewayKey, GatewayServer, MergedGateway};
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf};
use model::access::{Access, AccessKey};
use model::credential::Credential;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::gateway_api::{Gateway as KubeGateway, Listener, ListenerSet};
use model::kinds::istio::Gateway;
use model::names::ClusterId;
use model::node::{Identity, Role};
use model::object::{Object, ObjectKey, ObjectName};
use model::spiffe::SpiffeId;
use model::x509::Fault;
use store::{Reads, Snapshot};
use xds::ResourceSet;

use crate::clusters::sds;

pub use allowed::may_read;
use allowed::{is_reviewed, refusal};
pub use held::{Held, is_usable};
use made::{KeyProvider, SecretOf};
use named::{ClientCredentialsFor, of_server};
use own::{OwnCertificate, OwnRoots};

/// Proxies that have the same secrets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SecretsOf {
    /// Who they have proven to be.
    identity: Option<Identity>,
    /// The remote cluster that they are in, of those that have an identity.
    cluster: Option<ClusterId>,
    /// What they may see, of those that have an identity.
    scope: Option<ScopeKey>,
    /// The Gateways they serve, of those that have an identity.
    gateway: Option<GatewayKey>,
    /// What uses their private keys, of those that have an identity.
    keys: KeyProvider,
    /// The identity (`spiffe://...`) whose certificate they have from us, of those that do.
    own: Option<Arc<str>>,
}

/// Whether proxies may read Secrets of their own namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Admission {
    Granted,
    /// There is no answer yet.
    Awaited,
    /// And why.
    Refused(String),
}

impl SecretsOf {
    /// What decides the secrets of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let Some(identity) = proxy.node.identity.clone() else {
            return Self {
                identity: None,
                cluster: None,
                scope: None,
                gateway: None,
                keys: KeyProvider::Envoy,
                own: None,
            };
        };
        let takes_own = Capabilities::of(proxy).certificates == CertificateSource::Ads;
        let trust_domain = &cx.settings().mesh.trust_domain;
        let (namespace, account) = (&identity.namespace, &identity.service_account);
        let own = takes_own.then(|| {
            let id = SpiffeId::new(trust_domain, namespace.clone(), account.clone());
            Arc::from(id.to_string())
        });
        let gateway = proxy.node.role == Role::Router;
        Self {
            identity: Some(identity),
            cluster: cx.settings().remote(&proxy.node.cluster).cloned(),
            scope: Some(proxy.scope.clone()),
            gateway: gateway.then(|| gateways::key_of(cx, proxy)),
            keys: KeyProvider::of(cx, proxy),
            own,
        }
    }

    /// The secrets that their clusters and listeners may name and they may read.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let readable = self.readable(cx);
        let of_objects = readable.into_iter().filter_map(|credential| {
            let made = cx.query(&SecretOf::new(credential, &self.keys));
            made.resource.clone()
        });
        let own = self.own.iter().flat_map(|identity| {
            let certificate = OwnCertificate {
                identity: identity.clone(),
                keys: self.keys.clone(),
            };
            let (certificate, roots) = (cx.query(&certificate), cx.query(&OwnRoots));
            [certificate, roots].map(|resource| (*resource).clone())
        });
        ResourceSet::new(of_objects.chain(own.flatten()))
    }

    /// Whether their own certificate and the roots are in a set, if they have them from us.
    pub(crate) fn is_whole(&self, set: &ResourceSet) -> bool {
        let has = |name| set.get(name).is_some();
        self.own.is_none() || (has(sds::OWN) && has(sds::ROOT))
    }

    /// The identity (`spiffe://...`) whose certificate they want from us.
    pub(crate) fn own(&self) -> Option<&Arc<str>> {
        self.own.as_ref()
    }

    /// The credentials that their clusters and listeners may name and they may read.
    fn readable(&self, cx: &Cx<'_, Snapshot>) -> Vec<Credential> {
        let mut named = self.within_reach(cx);
        if named.iter().any(is_reviewed) && self.admission(cx) != Admission::Granted {
            named.retain(|credential| !is_reviewed(credential));
        }
        named
    }

    /// The review on which it depends whether they get all that is within their reach.
    pub(crate) fn wanted_review(&self, cx: &Cx<'_, Snapshot>) -> Option<AccessKey> {
        let review = self.review(cx)?;
        let within = self.within_reach(cx);
        within.iter().any(is_reviewed).then_some(review)
    }

    /// What is asked of their cluster; `None` where nothing is.
    fn review(&self, cx: &Cx<'_, Snapshot>) -> Option<AccessKey> {
        let identity = self.identity.clone()?;
        let cluster = self.cluster.clone();
        let reviews = cx.settings().reviews_access(cluster.as_ref());
        reviews.then_some(AccessKey { cluster, identity })
    }

    /// Whether they may read Secrets at all.
    fn admission(&self, cx: &Cx<'_, Snapshot>) -> Admission {
        let Some(review) = self.review(cx) else {
            return Admission::Granted;
        };
        match cx.access(&review).as_deref() {
            Some(Access::Allowed) => Admission::Granted,
            Some(Access::Denied) => Admission::Refused(format!("{review} may not list Secrets")),
            Some(Access::Unknown(why)) => {
                Admission::Refused(format!("it is not known whether {review} may: {why}"))
            }
            None => Admission::Awaited,
        }
    }

    /// The credentials that their clusters and listeners may name, of namespaces that are open to them.
    fn within_reach(&self, cx: &Cx<'_, Snapshot>) -> Vec<Credential> {
        let Some(identity) = &self.identity else {
            return Vec::new();
        };
        let merged = self.merged(cx);
        let servers = merged.as_deref();
        let client = cx.query(&ClientCredentialsFor(identity.namespace.clone()));
        let mut names: BTreeSet<&str> = client.iter().map(String::as_str).collect();
        let of_servers: Vec<String> = servers.iter().flat_map(|m| named::of_servers(m)).collect();
        names.extend(of_servers.iter().map(String::as_str));
        let scope = self
            .scope
            .as_ref()
            .map(|key| cx.query(&ScopeOf(key.clone())));
        let sidecar = scope.as_ref().and_then(|scope| scope.sidecar.as_ref());
        let ingress = sidecar.into_iter().flat_map(|s| &s.ingress);
        let of_sidecar: Vec<String> = ingress
            .filter_map(|l| l.tls.as_ref())
            .flat_map(of_server)
            .collect();
        names.extend(of_sidecar.iter().map(String::as_str));
        let verified = self.verified(cx, identity, servers);
        let parsed = names.into_iter().filter_map(|name| self.parse(name));
        parsed
            .filter(|credential| may_read(identity, credential, &verified))
            .collect()
    }

    fn parse(&self, name: &str) -> Option<Credential> {
        let namespace = &self.identity.as_ref()?.namespace;
        Credential::parse(name, namespace, self.cluster.as_ref())
    }

    fn merged(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<MergedGateway>> {
        let key = self.gateway.clone()?;
        (*cx.query(&gateways::MergedGatewayOf(key))).clone()
    }

    fn verified(
        &self,
        cx: &Cx<'_, Snapshot>,
        identity: &Identity,
        servers: Option<&MergedGateway>,
    ) -> BTreeSet<String> {
        servers.map_or_else(BTreeSet::new, |merged| {
            allowed::verified(cx, merged, identity)
        })
    }

    /// Credentials of servers that the proxies do not get, and objects that hold nothing which can be used.
    pub(crate) fn findings(&self, cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
        let mut found = self.missing(cx);
        let mut unusable: BTreeMap<ObjectKey, Fault> = BTreeMap::new();
        for credential in self.readable(cx) {
            let made = cx.query(&SecretOf::new(credential, &self.keys));
            if let Some((object, fault)) = &made.fault {
                unusable.entry(object.clone()).or_insert(*fault);
            }
        }
        found.extend(unusable.into_iter().map(|(object, fault)| {
            let effect = match fault {
                Fault::NotAPair => "it is not sent, and proxies go on with what they had",
                _ => "proxies refuse it",
            };
            let message = format!("{}: {effect}", fault.message());
            about_named(
                object.kind,
                &object.name,
                code::UNUSABLE_CREDENTIAL,
                Severity::Error,
                message,
            )
        }));
        found
    }

    /// The credentials of a gateway's servers, where its proxies have not proven who they are: such proxies get none.
    pub(crate) fn unproven(
        &self,
        cx: &Cx<'_, Snapshot>,
        merged: &MergedGateway,
    ) -> Vec<Diagnostic> {
        if self.identity.is_some() {
            return Vec::new();
        }
        let named = merged.placed().flat_map(|server| {
            let names = server.server.tls.as_ref().into_iter().flat_map(of_server);
            names.map(move |name| (server, name))
        });
        let found = named.map(|(server, name)| {
            let why = "is for proxies that prove who they are, and the proxy has not";
            not_sent(cx, server, &name, why).help(
                "connect the proxy over TLS (`--secure-grpc-addr` of the server), with a token or certificate of its service account",
            )
        });
        found.collect()
    }

    /// Credentials of a gateway's servers that its proxies do not get: their clients wait for a certificate in vain.
    pub(crate) fn missing(&self, cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let (Some(identity), Some(merged)) = (&self.identity, self.merged(cx)) else {
            return found;
        };
        let verified = self.verified(cx, identity, Some(&merged));
        let admission = self.admission(cx);
        for server in merged.placed() {
            for name in server.server.tls.as_ref().into_iter().flat_map(of_server) {
                let mut help = None;
                let why = match self.parse(&name) {
                    None => "is not the name of a credential".to_owned(),
                    Some(credential) if !may_read(identity, &credential, &verified) => {
                        let refusal = refusal(cx, identity, &server.gateway, &credential);
                        help = Some(refusal.help.into());
                        format!("may not be read by the proxy: {}", refusal.why)
                    }
                    Some(credential)
                        if is_reviewed(&credential) && admission != Admission::Granted =>
                    {
                        let Admission::Refused(why) = &admission else {
                            continue;
                        };
                        format!("may not be read by the proxy: {why}")
                    }
                    Some(credential) => {
                        let made = cx.query(&SecretOf::new(credential, &self.keys));
                        let is_held = made.resource.is_some() || made.fault.is_some();
                        if is_held || is_of_ingress(cx, &server.gateway) {
                            continue;
                        }
                        "is not there, or lacks the keys that a proxy needs".to_owned()
                    }
                };
                found.push(Diagnostic {
                    help,
                    ..not_sent(cx, server, &name, &why)
                });
            }
        }
        found
    }
}

/// Whether a Gateway is derived from Ingresses with annotations, whose translation reports each Secret that they lack where they
/// name it.
fn is_of_ingress(cx: &Cx<'_, Snapshot>, gateway: &ObjectName) -> bool {
    let gateway = cx.get::<Gateway>(gateway);
    gateway.is_some_and(|gateway| gateway.meta.is_edge())
}

/// The finding that a proxy does not get a credential of a server.
fn not_sent(cx: &Cx<'_, Snapshot>, server: &GatewayServer, name: &str, why: &str) -> Diagnostic {
    let gateway = cx.get::<Gateway>(&server.gateway);
    let listener = gateway.and_then(|gateway| listener_of(cx, &gateway));
    let (object, path) = listener.unwrap_or_else(|| {
        let own = ObjectKey {
            kind: Kind::Gateway,
            name: server.gateway.clone(),
        };
        (own, format!("spec.servers[{}].tls", server.field))
    });
    about_named(
        object.kind,
        &object.name,
        code::NO_CREDENTIAL,
        Severity::Error,
        format!("{name} {why}: clients get no answer"),
    )
    .at(path)
}

/// The object with the listener of the Gateway API that a Gateway is derived from, and the field there. The derived one is named after
/// the listener.
fn listener_of(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>) -> Option<(ObjectKey, String)> {
    let written = gateway.meta.derived.as_ref()?.from.first()?;
    let (_, section) = gateway.meta.name.name.rsplit_once('~')?;
    let at = |listeners: &[Listener]| listeners.iter().position(|of| *of.name == *section);
    let at = match written.kind {
        Kind::KubeGateway => at(&cx.get::<KubeGateway>(&written.name)?.spec.listeners),
        Kind::ListenerSet => at(&cx.get::<ListenerSet>(&written.name)?.spec.listeners),
        _ => None,
    }?;
    Some((written.clone(), format!("spec.listeners[{at}].tls")))
}

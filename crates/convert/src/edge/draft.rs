//! A rule of a host on its way to becoming routes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use annotations::{Dialect, HttpsRedirect, Protocol, Redirects, Retry, Text};
use model::edge::Rpc;
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::http_body::Specifier;
use proto_istio::networking::{
    HttpBody, HttpDirectResponse, HttpRedirect, HttpRewrite, HttpRoute, HttpRouteDestination,
};

use super::balance::UnprotectedBy;
use super::matching::rewrite;
use super::name;
use super::policy::{Policy, PolicyOf};
use super::refer::Fault;
use super::rules::{Backend, HostRules, Path, PathKind};
use super::tls::Tls;
use super::{annotated, backend, limits};
use crate::outcome::code;
use crate::reader::Reader;
use crate::strata::Routes;

/// A rule of a host.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Draft {
    pub(super) ingress: ObjectName,
    pub(super) dialect: Dialect,
    /// Where in the Ingress it stands.
    pub(super) at: String,
    pub(super) asks: Asks,
    /// It is what remains where no rule matches.
    pub(super) is_default: bool,
    /// It is a canary, by what requests have, of the rule that matches all. nginx chooses its rule first.
    pub(super) is_of_all: bool,
    /// Without a match.
    pub(super) route: HttpRoute,
    pub(super) policy: Arc<Policy>,
    /// Why no request is served; short, for a header.
    pub(super) closed: Option<Arc<str>>,
    /// Requests that are not secure are redirected.
    pub(super) https: Option<ToHttps>,
    /// The path that it makes has a query, beside which that of a request cannot stand.
    pub(super) excludes_queries: bool,
    pub(super) retry: Option<Retry>,
    /// Objects beside the policy's without which it would be another.
    pub(super) others: Vec<ObjectKey>,
}

/// A redirect to HTTPS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ToHttps {
    /// Its status.
    pub(super) status: u16,
    /// Requests are secure too of which a trusted proxy says so in `x-forwarded-proto`; Envoy overwrites what others say there.
    pub(super) by_forwarded: bool,
}

/// What a rule asks of requests: two rules of a host that ask the same are one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Asks {
    pub(super) path: Arc<str>,
    pub(super) kind: PathKind,
    pub(super) ignore_case: bool,
    pub(super) methods: Vec<Arc<str>>,
    pub(super) headers: BTreeMap<Arc<str>, Text>,
    pub(super) query: BTreeMap<Arc<str>, Text>,
    /// In place of an expression that nothing can ask: all paths that begin with this text.
    pub(super) below: Option<Arc<str>>,
}

impl Asks {
    /// What a path of an Ingress asks.
    pub(super) fn new(path: &Path, rules: &HostRules) -> Self {
        let matching = &rules.annotated.annotations.matching;
        Self {
            path: path.path.clone(),
            kind: path.kind,
            ignore_case: path.ignore_case,
            methods: matching.methods.clone(),
            headers: matching.headers.clone(),
            query: matching.query.clone(),
            below: None,
        }
    }

    /// What rules have in common that are one: nginx and Higress tell none apart by case.
    pub(super) fn same(&self) -> Self {
        Self {
            ignore_case: false,
            ..self.clone()
        }
    }

    /// Whether it asks nothing.
    pub(super) fn is_catch_all(&self) -> bool {
        self.kind == PathKind::Prefix
            && &*self.path == "/"
            && self.methods.is_empty()
            && self.headers.is_empty()
            && self.query.is_empty()
    }
}

impl Draft {
    /// The same for all requests with its path, whatever else they have.
    pub(super) fn of_all_requests(mut self) -> Self {
        self.asks.methods.clear();
        self.asks.headers.clear();
        self.asks.query.clear();
        self
    }

    /// The place among the rules of its host: the default last, before it what matches all; exact paths, then prefixes,
    /// then regular expressions; longer paths; methods, the fewer; more headers; more parameters. Equals stay in order. Of
    /// expressions of one length nginx asks that first which sorts last.
    ///
    /// Higress: pkg/ingress/kube/common/tool.go SortHTTPRoutes, 2.1.
    pub(super) fn order(&self) -> impl Ord + use<> {
        let asks = &self.asks;
        let kind = match asks.kind {
            PathKind::Exact => 0,
            PathKind::Prefix => 1,
            PathKind::PrefixRegex | PathKind::FullRegex => 2,
        };
        let text = match (kind, self.dialect) {
            (2, Dialect::Nginx) => asks.path.clone(),
            _ => Arc::from(""),
        };
        let methods: usize = asks.methods.iter().map(|method| method.len() + 1).sum();
        (
            self.is_default,
            asks.is_catch_all() || self.is_of_all,
            kind,
            Reverse((asks.path.len(), text)),
            (asks.methods.is_empty(), methods),
            Reverse(asks.headers.len()),
            Reverse(asks.query.len()),
        )
    }

    /// What its routes weigh about.
    pub(super) fn weight(&self) -> usize {
        use prost::Message;
        let edge = &self.policy.edge;
        let users = edge.users.as_ref().map_or(0, |users| users.lines.len());
        let calls = edge.rpc.as_ref().map_or(0, Rpc::bytes);
        self.route.encoded_len() + users + calls + limits::ROUTE_BYTES
    }
}

/// Drafts of the rules of an Ingress about a host.
pub(super) struct Drafting<'r, 'a, 'b> {
    pub(super) read: &'r Reader<'a, 'b, Routes>,
    pub(super) ingress: &'r ObjectName,
    pub(super) rules: &'r HostRules,
    pub(super) policy: Arc<Policy>,
    /// How the clients of the host connect.
    pub(super) tls: &'r Tls,
}

impl<'r, 'a, 'b> Drafting<'r, 'a, 'b> {
    pub(super) fn new(
        read: &'r Reader<'a, 'b, Routes>,
        ingress: &'r ObjectName,
        rules: &'r HostRules,
        tls: &'r Tls,
    ) -> Option<Self> {
        let policy = read.derived(PolicyOf(ingress.clone())).as_ref().clone()?;
        Some(Self {
            read,
            ingress,
            rules,
            policy,
            tls,
        })
    }

    /// The destinations of a path, or why there are none. The objects that let it name them are noted.
    pub(super) fn destinations(
        &self,
        path: &Path,
        others: &mut Vec<ObjectKey>,
    ) -> Result<Vec<HttpRouteDestination>, Fault> {
        let stated = &self.rules.annotated.annotations.backend;
        if let Backend::Service(name, _) = &path.backend
            && stated.protocol != Protocol::Http
        {
            let unprotected = UnprotectedBy {
                ingress: self.ingress.clone(),
                service: ObjectName::new(self.ingress.namespace.clone(), &**name),
            };
            if let Some(why) = &*self.read.derived(unprotected) {
                return Err(Fault {
                    code: code::CLOSED,
                    sentence: why.to_string(),
                });
            }
        }
        let stated = &stated.destinations;
        backend::destinations(self.read, self.ingress, &path.backend, stated, others)
    }

    /// The rule of a path, and what is wrong with its backend.
    pub(super) fn draft(&self, path: &Path) -> (Draft, Option<Fault>) {
        let annotations = &self.rules.annotated.annotations;
        let mut draft = self.bare(path);
        let redirects = &annotations.redirect;
        if let Some(route) = answer(redirects) {
            draft.route = route;
            draft.route.name = self.name();
            return (draft, None);
        }
        draft.retry.clone_from(&annotations.retry);
        draft.route.clone_from(&self.policy.route);
        draft.route.name = self.name();
        let (path_rewrite, authority) = (rewrite(path, self.rules), &annotations.rewrite.host);
        draft.excludes_queries = has_query(self.rules);
        if path_rewrite.is_some() || authority.is_some() {
            let mut stated = path_rewrite.unwrap_or_default();
            stated.authority = authority.as_deref().unwrap_or_default().to_owned();
            draft.route.rewrite = Some(stated);
        }
        let (destinations, fault) = match self.destinations(path, &mut draft.others) {
            Ok(destinations) => (destinations, None),
            // What is wrong with a backend that is none was reported where it was read.
            Err(_) if path.backend == Backend::None => (Vec::new(), None),
            Err(why) => (Vec::new(), Some(why)),
        };
        if let (Backend::Service(name, _), None) = (&path.backend, &fault) {
            draft.others.push(ObjectKey {
                kind: Kind::Service,
                name: ObjectName::new(self.ingress.namespace.clone(), &**name)
                    .in_cluster(self.ingress.cluster.as_ref()),
            });
        }
        draft.route.route = destinations;
        if draft.route.route.is_empty() {
            draft.route.rewrite = None;
            draft.route.mirrors.clear();
            draft.route.direct_response = Some(HttpDirectResponse {
                status: 503,
                body: None,
            });
        }
        (draft, fault)
    }

    /// Whether its Ingress keeps requests back.
    pub(super) fn protects(&self) -> bool {
        self.policy.protects() || self.closed().is_some()
    }

    /// The rule of a path that is closed, as its Ingress is not served.
    pub(super) fn closed_draft(&self, path: &Path, why: &Arc<str>) -> Draft {
        let mut draft = self.bare(path);
        draft.route.name = self.name();
        draft.closed = Some(why.clone());
        draft.https = None;
        draft
    }

    /// The redirect of `/` that an Ingress asks for.
    pub(super) fn app_root(&self, host: &str) -> Option<Draft> {
        let annotations = &self.rules.annotated.annotations;
        let target = annotations.redirect.app_root.as_ref()?;
        let mut draft = self.bare(&Path {
            at: self.rules.annotated.path("app-root").into(),
            path: "/".into(),
            kind: PathKind::Exact,
            ignore_case: false,
            backend: Backend::None,
        });
        draft.route = HttpRoute {
            name: format!("{host}-app-root"),
            redirect: Some(HttpRedirect {
                uri: target.to_string(),
                redirect_code: 302,
                ..HttpRedirect::default()
            }),
            ..HttpRoute::default()
        };
        Some(draft)
    }

    /// The redirect of everything to another host.
    pub(super) fn moved(&self, to: &str) -> Draft {
        let code = self.redirect_code();
        let mut draft = self.bare(&Path {
            at: self.rules.annotated.path("from-to-www-redirect").into(),
            path: "/".into(),
            kind: PathKind::Prefix,
            ignore_case: false,
            backend: Backend::None,
        });
        draft.https = None;
        draft.route = HttpRoute {
            name: self.name(),
            redirect: Some(HttpRedirect {
                authority: to.to_owned(),
                redirect_code: code.into(),
                ..HttpRedirect::default()
            }),
            ..HttpRoute::default()
        };
        draft
    }

    /// The status of redirects to HTTPS and between hosts.
    fn redirect_code(&self) -> u16 {
        let stated = self.rules.annotated.annotations.redirect.code;
        stated.unwrap_or(PERMANENT)
    }

    fn name(&self) -> String {
        let system = &self.read.settings().features.edge_namespace;
        name::route(self.ingress, system)
    }

    /// Whether gateways trust proxies before them.
    fn trusts_forwarded(&self) -> bool {
        let config = self.read.settings().mesh.default_config.as_ref();
        let topology = config.and_then(|config| config.gateway_topology.as_ref());
        let is_stated = topology.is_some_and(|topology| topology.num_trusted_proxies > 0);
        is_stated || annotated::front(self.read).trusted_proxies > 0
    }

    /// Why no request of the Ingress may be served for the host.
    fn closed(&self) -> Option<Arc<str>> {
        if self.tls.refused.contains(self.ingress) {
            return Some("auth-tls-secret asks for other clients".into());
        }
        self.policy.closed.clone()
    }

    fn bare(&self, path: &Path) -> Draft {
        let annotations = &self.rules.annotated.annotations;
        let https = match annotations.redirect.https {
            HttpsRedirect::Never => false,
            HttpsRedirect::WithCertificate => self.tls.has_https,
            HttpsRedirect::Always => true,
        };
        let redirected = https && !path.path.starts_with(CHALLENGES);
        Draft {
            ingress: self.ingress.clone(),
            dialect: self.rules.annotated.dialect,
            at: path.at.to_string(),
            asks: Asks::new(path, self.rules),
            is_default: false,
            is_of_all: false,
            route: HttpRoute::default(),
            policy: self.policy.clone(),
            closed: self.closed(),
            https: redirected.then(|| ToHttps {
                status: self.redirect_code(),
                by_forwarded: self.trusts_forwarded() && !self.tls.is_mutual,
            }),
            excludes_queries: false,
            retry: None,
            others: Vec::new(),
        }
    }
}

/// Whether requests get a query by their rewrite. nginx appends what they have themselves to it, Envoy would put it behind
/// another question mark.
fn has_query(rules: &HostRules) -> bool {
    let stated = &rules.annotated.annotations.rewrite;
    let target = stated.target.as_ref().filter(|_| stated.path.is_none());
    let is_nginx = rules.annotated.dialect == Dialect::Nginx;
    is_nginx && target.is_some_and(|target| target.contains('?'))
}

/// The status of a redirect that stays, and keeps the method.
pub(super) const PERMANENT: u16 = 308;

/// Paths that are never redirected to HTTPS: those who issue certificates ask for them before there is one.
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// The route of an Ingress that has one answer for everything; nginx gives it before it looks at who asks.
fn answer(redirects: &Redirects) -> Option<HttpRoute> {
    let mut route = HttpRoute::default();
    if let Some(to) = &redirects.to {
        let text = |part: &Option<Arc<str>>| part.as_deref().unwrap_or_default().to_owned();
        route.redirect = Some(HttpRedirect {
            uri: text(&to.path),
            authority: text(&to.authority),
            scheme: text(&to.scheme),
            redirect_code: to.code.into(),
            ..HttpRedirect::default()
        });
    } else if let Some(answer) = &redirects.answer {
        route.direct_response = Some(HttpDirectResponse {
            status: answer.status.into(),
            body: (!answer.body.is_empty()).then(|| HttpBody {
                specifier: Some(Specifier::String(answer.body.to_string())),
            }),
        });
    } else {
        return None;
    }
    Some(route)
}

/// A rewrite of paths by a regular expression.
pub(super) fn by_regex(matched: String, target: String) -> HttpRewrite {
    HttpRewrite {
        uri_regex_rewrite: Some(proto_istio::networking::RegexRewrite {
            r#match: matched,
            rewrite: target,
        }),
        ..HttpRewrite::default()
    }
}

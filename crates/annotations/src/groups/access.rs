//! Who may send requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;

use super::Reference;

/// Who may send requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access {
    /// `whitelist-source-range`: only these; all where empty.
    pub allowed: BTreeSet<IpNet>,
    /// `denylist-source-range`: none of these.
    pub denied: BTreeSet<IpNet>,
    /// `auth-type: basic`.
    pub basic: Option<BasicAuth>,
    /// `auth-url`.
    pub external: Option<ExternalAuth>,
    /// `satisfy: any`.
    pub any_is_enough: bool,
}

/// Names and passwords.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BasicAuth {
    /// The Secret that has them.
    pub secret: Reference,
    /// How it has them.
    pub form: SecretForm,
    /// What clients are told that they log in to.
    pub realm: Arc<str>,
}

/// How a Secret has users.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SecretForm {
    /// The key `auth` has a file of lines `name:hash`.
    #[default]
    File,
    /// Each key is a name, and its value the hash.
    Map,
}

/// A service that is asked about each request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ExternalAuth {
    /// Whether the URL is of https.
    pub tls: bool,
    /// The host of the URL.
    pub host: AuthHost,
    /// Its port, where the URL states one.
    pub port: Option<u16>,
    /// Path and query, from `/`, in the format of substitution that [`Signin::url`] has.
    pub path: Arc<str>,
    /// `auth-method`.
    pub method: Option<Arc<str>>,
    /// `auth-signin`, with nginx's variables: known ones only.
    pub signin: Option<Signin>,
    /// `auth-response-headers`, in lower case.
    pub response_headers: Vec<Arc<str>>,
    /// `auth-always-set-cookie`.
    pub always_set_cookie: bool,
    /// `auth-request-redirect`: `X-Auth-Request-Redirect` of the request to it.
    pub request_redirect: Option<Arc<str>>,
    /// `auth-proxy-set-headers`: a ConfigMap of headers of the request to it.
    pub headers: Option<Reference>,
}

/// The host of the URL of a service that is asked about each request.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum AuthHost {
    /// That of a Service (`auth.shop.svc.cluster.local`), one that Ingresses serve, or one outside.
    Named(Arc<str>),
    /// That of the request, `$host`.
    OfRequest,
}

/// Where clients are sent that are not logged in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signin {
    /// The URL in Envoy's format of substitution, its scheme http or https; the parameter that says where to come back
    /// to is in it.
    pub url: Arc<str>,
}

/// The headers of a ConfigMap.
pub type HeaderMap = BTreeMap<Arc<str>, Arc<str>>;

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

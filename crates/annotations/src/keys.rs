//! How annotations are called.

use model::parse::distance;

use crate::spec::{self, Spec};

/// The prefix of ingress-nginx, which is read first.
pub const NGINX: &str = "nginx.ingress.kubernetes.io/";

/// The prefix of Higress.
pub const HIGRESS: &str = "higress.io/";

/// What stands before the names of annotations that are switched off.
pub(crate) const OFF: &str = "disabled.";

/// Annotations that protect something, by name: where their values cannot be honoured no request may be served.
pub(crate) const PROTECTING: &[&str] = &[
    "allowlist-source-range",
    "auth-always-set-cookie",
    "auth-method",
    "auth-proxy-set-headers",
    "auth-realm",
    "auth-request-redirect",
    "auth-response-headers",
    "auth-secret",
    "auth-secret-type",
    "auth-signin",
    "auth-signin-redirect-param",
    "auth-snippet",
    "auth-tls-match-cn",
    "auth-tls-pass-certificate-to-upstream",
    "auth-tls-secret",
    "auth-tls-verify-client",
    "auth-type",
    "auth-url",
    "backend-protocol",
    "denylist-source-range",
    "enable-modsecurity",
    "enable-owasp-core-rules",
    "force-ssl-redirect",
    "limit-rpm",
    "limit-rps",
    "modsecurity-snippet",
    "proxy-body-size",
    "proxy-ssl-secret",
    "proxy-ssl-verify",
    "route-limit-rpm",
    "route-limit-rps",
    "satisfy",
    "ssl-redirect",
    "whitelist-source-range",
];

/// Options of ingress-nginx's ConfigMap that protect something.
pub(crate) const PROTECTING_OPTIONS: &[&str] = &[
    "block-cidrs",
    "block-referers",
    "block-user-agents",
    "denylist-source-range",
    "enable-modsecurity",
    "enable-owasp-modsecurity-crs",
    "global-auth-always-set-cookie",
    "global-auth-method",
    "global-auth-request-redirect",
    "global-auth-response-headers",
    "global-auth-signin",
    "global-auth-signin-redirect-param",
    "global-auth-snippet",
    "global-auth-url",
    "modsecurity-snippet",
    "whitelist-source-range",
];

/// Annotations that only Higress's console reads: they change no request.
pub(crate) const OF_CONSOLES: &[&str] = &[
    "biz-type",
    "comment",
    "enable-header-control",
    "enable-proxy-next-upstream",
    "enable-rewrite",
    "internal",
    "resource-definer",
];

/// The most letters that are wrong in what counts as a misspelt name.
const MOST_WRONG: usize = 2;

/// The annotation that protects and that somebody most likely meant who wrote a name that is not known.
pub(crate) fn meant(name: &str) -> Option<&'static str> {
    if name == "blacklist-source-range" {
        return Some("denylist-source-range");
    }
    let names = PROTECTING.iter().copied();
    names
        .map(|known| (distance(name, known), known))
        .min()
        .filter(|(distance, _)| *distance <= MOST_WRONG)
        .map(|(_, known)| known)
}

/// An annotation's key, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its name without the prefix, and without what switches it off.
    pub name: &'a str,
    /// Whether its prefix is that of ingress-nginx.
    pub nginx: bool,
    /// Whether it is switched off.
    pub off: bool,
    /// What is known of it.
    pub spec: Option<&'static Spec>,
}

/// Takes a key apart; `None` where it has neither prefix.
pub fn key(key: &str) -> Option<Key<'_>> {
    let (nginx, name) = match key.strip_prefix(NGINX) {
        Some(name) => (true, name),
        None => (false, key.strip_prefix(HIGRESS)?),
    };
    let (off, name) = match name.strip_prefix(OFF) {
        Some(name) => (true, name),
        None => (false, name),
    };
    let spec = spec::find(name);
    Some(Key {
        name,
        nginx,
        off,
        spec,
    })
}

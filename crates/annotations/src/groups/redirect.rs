//! Redirects.

use std::sync::Arc;

/// Redirects of the routes of an Ingress, and of its hosts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Redirects {
    /// `temporal-redirect`, `permanent-redirect`, or a `return` of a snippet.
    pub to: Option<RedirectTo>,
    /// `ssl-redirect`: requests that are not secure go to https; where the host has a certificate, if stated so.
    pub https: HttpsRedirect,
    /// The option `http-redirect-code`: the status of redirects to https and by `www`; 308 where absent.
    pub code: Option<u16>,
    /// `app-root`: where `/` goes.
    pub app_root: Option<Arc<str>>,
    /// `from-to-www-redirect`.
    pub www: bool,
    /// A fixed answer of a snippet (`return 403 "text"`).
    pub answer: Option<Answer>,
}

/// Which requests that are not secure are redirected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HttpsRedirect {
    /// None.
    #[default]
    Never,
    /// Those to hosts that the Ingress has a certificate for.
    WithCertificate,
    /// All.
    Always,
}

/// A redirect to a URL.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RedirectTo {
    /// `http` or `https`; that of the request where absent.
    pub scheme: Option<Arc<str>>,
    /// Host and port; those of the request where absent.
    pub authority: Option<Arc<str>>,
    /// Path and query, starting with `/`; those of the request where absent.
    pub path: Option<Arc<str>>,
    /// 301, 302, 303, 307 or 308.
    pub code: u16,
}

/// A fixed answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Answer {
    /// 200 to 599.
    pub status: u16,
    /// The body, 4,096 bytes at most.
    pub body: Arc<str>,
}

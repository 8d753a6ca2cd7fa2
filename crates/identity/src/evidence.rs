//! What a request shows of whoever sends it.

use std::fmt;
use std::net::SocketAddr;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::pki_types::CertificateDer;

use crate::jwt;
use crate::refusal::{Reason, Refusal};

/// What a request shows of whoever sends it.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// The client's certificates, its own first, as TLS has verified them against the roots; empty where it showed none.
    pub certificates: &'a [CertificateDer<'a>],
    /// The headers of the request.
    pub headers: &'a HeaderMap,
}

impl fmt::Debug for Evidence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evidence")
            .field("peer", &self.peer)
            .field("certificates", &self.certificates.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Evidence<'a> {
    /// A header that may come once. Which of two counts could be understood in different ways, so neither does.
    pub(crate) fn only(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        if values.next().is_some() {
            return Err(Refusal::new(
                Reason::Ambiguous,
                format!("more than one {name} header"),
            ));
        }
        let text = value.to_str();
        text.map(Some)
            .map_err(|_| Refusal::new(Reason::Malformed, format!("the {name} header is no text")))
    }

    /// The bearer token of the request; `None` where it has none.
    pub(crate) fn bearer(&self) -> Result<Option<&'a str>, Refusal> {
        let Some(value) = self.only(AUTHORIZATION.as_str())? else {
            return Ok(None);
        };
        let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
        let malformed = |detail: &str| Refusal::new(Reason::Malformed, detail);
        if !scheme.eq_ignore_ascii_case("Bearer") {
            return Err(malformed("the authorization header holds no bearer token"));
        }
        let token = token.trim();
        if token.is_empty() {
            return Err(malformed("the bearer token is empty"));
        }
        if token.len() > jwt::LONGEST {
            let size = token.len();
            return Err(Refusal::new(
                Reason::TooLarge,
                format!("the bearer token has {size} bytes"),
            ));
        }
        Ok(Some(token))
    }
}

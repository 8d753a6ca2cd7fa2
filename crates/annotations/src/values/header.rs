//! Headers: names, values, and which of them may be changed.

use std::sync::Arc;

use super::list;
use crate::reader::Fault;

/// The longest name of a header, in bytes.
const LONGEST: usize = 256;

/// Headers of a connection, of framing and of routing: a change would break requests, or what proxies rely on.
const UNTOUCHABLE: [&str; 11] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-client-cert",
];

/// A name of HTTP: of a header, a cookie or a method.
pub(crate) fn token(text: &str) -> Result<Arc<str>, Fault> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text.is_empty() || text.len() > LONGEST || !text.bytes().all(valid) {
        return Err("has something that is not a token of HTTP".into());
    }
    Ok(text.into())
}

/// The name of a header, in lower case.
pub(crate) fn header(text: &str) -> Result<Arc<str>, Fault> {
    let name = token(text).map_err(|_| "has something that is not a header name")?;
    Ok(name.to_ascii_lowercase().into())
}

/// The name of a header that may be changed.
pub(crate) fn changeable(text: &str) -> Result<Arc<str>, Fault> {
    let name = header(text)?;
    let taken = name.starts_with("x-envoy-") || UNTOUCHABLE.contains(&&*name);
    match taken {
        true => Err("has a header that cannot be changed".into()),
        false => Ok(name),
    }
}

/// The value of a header, without quotes around it.
pub(crate) fn header_value(text: &str) -> Result<Arc<str>, Fault> {
    super::text(text.trim())
}

/// Names of HTTP with commas between them, as written.
pub(crate) fn tokens(text: &str, most: usize) -> Result<Vec<Arc<str>>, Fault> {
    list(text, most)?.into_iter().map(token).collect()
}

/// Names of headers with commas between them, in lower case.
pub(crate) fn headers(text: &str, most: usize) -> Result<Vec<Arc<str>>, Fault> {
    list(text, most)?.into_iter().map(header).collect()
}

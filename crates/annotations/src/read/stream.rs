//! Annotations of which one value is what a streaming proxy does anyway; other values are told of.

use crate::reader::Reader;
use crate::values::boolean;

/// The annotation, the values that are what happens, and what is said of others.
const ONLY: [(&str, &[&str], &str); 8] = [
    (
        "affinity-mode",
        &["persistent"],
        "is always persistent: clients move only when endpoints come or go",
    ),
    (
        "mirror-request-body",
        &["on"],
        "is left out: copies always have the body",
    ),
    (
        "proxy-buffering",
        &["off"],
        "is left out: answers are always streamed",
    ),
    (
        "proxy-cookie-domain",
        &["off"],
        "is left out: cookies are not rewritten",
    ),
    (
        "proxy-cookie-path",
        &["off"],
        "is left out: cookies are not rewritten",
    ),
    (
        "proxy-http-version",
        &["1.1"],
        "is left out: backends speak HTTP/1.1 or HTTP/2",
    ),
    (
        "proxy-redirect-from",
        &["off", "default"],
        "is left out: Location headers are not rewritten",
    ),
    (
        "proxy-request-buffering",
        &["off"],
        "is left out: bodies are always streamed",
    ),
];

/// Tells of values that would need another proxy.
pub(crate) fn check(r: &mut Reader<'_>) {
    for (name, values, message) in ONLY {
        let as_it_is = r.get(name, |value| Ok(values.contains(&value)));
        if as_it_is == Some(false) {
            r.warn(name, message);
        }
    }
    if r.get("proxy-redirect-to", |_| Ok(())).is_some()
        && r.get("proxy-redirect-from", |value| Ok(value == "off")) != Some(true)
    {
        r.warn(
            "proxy-redirect-to",
            "is left out: Location headers are not rewritten",
        );
    }
    if r.get("preserve-trailing-slash", boolean) == Some(false) {
        r.warn(
            "preserve-trailing-slash",
            "is left out: redirects keep the path as it is",
        );
    }
}

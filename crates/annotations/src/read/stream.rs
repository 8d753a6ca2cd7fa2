//! Annotations of which one value is what a streaming proxy does anyway; other values are told of.

use crate::reader::Reader;
use crate::values::boolean;

/// The annotation, the values that are what happens, and what is said of others.
const ONLY: [(&str, &[&str], &str); 6] = [
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
];

/// Annotations about how nginx buffers what it passes on, and keeps connections: no value of theirs changes what clients and
/// backends see.
const WITHOUT_EFFECT: [&str; 12] = [
    "auth-keepalive",
    "auth-keepalive-requests",
    "auth-keepalive-timeout",
    "client-body-buffer-size",
    "http2-push-preload",
    "proxy-buffer-size",
    "proxy-buffering",
    "proxy-buffers-number",
    "proxy-busy-buffers-size",
    "proxy-max-temp-file-size",
    "proxy-request-buffering",
    "ssl-prefer-server-ciphers",
];

/// Tells of values that would need another proxy.
pub(crate) fn check(r: &mut Reader<'_>) {
    for name in WITHOUT_EFFECT {
        r.get(name, |_| Ok(()));
    }
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

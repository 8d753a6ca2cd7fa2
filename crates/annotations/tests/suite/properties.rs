//! Whatever annotations say: nothing panics, order does not matter, and what protects never fails open.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::{Labels, Severity};
use pilothouse_annotations::keys::{HIGRESS, NGINX};
use pilothouse_annotations::{Annotations, Defaults, Dialect, HeaderChange, options, read, spec};
use proptest::collection::vec;
use proptest::prelude::*;

/// Annotations of which no hostile value may be served.
const PROTECTING: [&str; 14] = [
    "allowlist-source-range",
    "auth-method",
    "auth-secret",
    "auth-secret-type",
    "auth-signin",
    "auth-snippet",
    "auth-tls-match-cn",
    "auth-tls-secret",
    "auth-tls-verify-client",
    "auth-type",
    "auth-url",
    "denylist-source-range",
    "satisfy",
    "whitelist-source-range",
];

/// Annotations that protect and take numbers or switches: some hostile values are valid for them.
const SWITCHES: [&str; 12] = [
    "auth-always-set-cookie",
    "auth-tls-pass-certificate-to-upstream",
    "enable-modsecurity",
    "enable-owasp-core-rules",
    "force-ssl-redirect",
    "limit-rpm",
    "limit-rps",
    "proxy-body-size",
    "proxy-ssl-verify",
    "route-limit-rpm",
    "route-limit-rps",
    "ssl-redirect",
];

/// Values that nearly fit: what a slip of the finger makes of good ones.
const SLIPS: [&str; 10] = [
    "bsic",
    "digest",
    "onn",
    "On.",
    "truee",
    "yes please",
    "10.0.0.0/8;",
    "10.0.0.256",
    "any,all",
    "10 rps",
];

/// Values that somebody may try: broken ones, large ones, ones that end a line or a string, and ones that nearly fit.
const HOSTILE: [&str; 28] = [
    "",
    " ",
    "\n",
    "\u{0}",
    "true\r\nx: y",
    "-1",
    "99999999999999999999999999",
    "1e9",
    "%REQ(authorization)%",
    "%",
    "$",
    "${",
    "$host",
    "((((((((((",
    "(?=a)",
    "a{1000}{1000}",
    "[",
    "\\",
    "\"",
    "'; deny all;",
    "https://",
    "https://[::1",
    "//evil.example.com",
    "*/*",
    "../../secret",
    "a/b/c",
    "10.0.0.0/99",
    "🦀",
];

fn name() -> impl Strategy<Value = String> {
    let known = (0..spec::ALL.len()).prop_map(|at| spec::ALL[at].name.replace('*', "x"));
    let option = (0..spec::OPTIONS.len()).prop_map(|at| spec::OPTIONS[at].name.to_owned());
    prop_oneof![8 => known, 1 => option, 1 => "[a-z*-]{0,20}"]
}

fn value() -> impl Strategy<Value = String> {
    let plain = [
        "true",
        "on",
        "off",
        "cookie",
        "basic",
        "10",
        "/a",
        "https://a.example.com/b",
        "10.0.0.0/8",
        "GET",
        "users",
    ];
    prop_oneof![
        4 => (0..HOSTILE.len()).prop_map(|at| HOSTILE[at].to_owned()),
        4 => (0..plain.len()).prop_map(move |at| plain[at].to_owned()),
        2 => any::<String>(),
        1 => "[ -~]{0,60}",
        1 => "(more_set_headers|add_header|return|if|deny|\\{|\\}|;|\"|'| |\\$[a-z]{1,3}|[0-9]{3}|#|\\\\|\n){0,30}",
        1 => (0usize..10_000).prop_map(|size| "x".repeat(size)),
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let key = (any::<bool>(), prop::bool::weighted(0.05), name());
    let key = key.prop_map(|(nginx, off, name)| {
        let prefix = if nginx { NGINX } else { HIGRESS };
        format!("{prefix}{}{name}", if off { "disabled." } else { "" })
    });
    vec((key, value()), 0..20)
}

fn dialect() -> impl Strategy<Value = Dialect> {
    any::<bool>().prop_map(|nginx| {
        if nginx {
            Dialect::Nginx
        } else {
            Dialect::Higress
        }
    })
}

fn labels(pairs: &[(String, String)]) -> Labels {
    pairs.iter().cloned().collect()
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// What holds of everything that is read.
fn judge(read: &Annotations) {
    if let Some(closed) = &read.closed {
        assert!(
            closed.len() <= 120 && closed.is_ascii() && is_plain(closed),
            "{closed}"
        );
        assert!(
            read.notes
                .iter()
                .any(|note| note.severity == Severity::Error)
        );
    }
    assert!(read.notes.len() <= 100);
    for note in &read.notes {
        assert!(
            is_plain(&note.message) && note.message.len() <= 400,
            "{}",
            note.message
        );
    }
    for change in [&read.headers.request, &read.headers.response] {
        headers(change);
    }
    let lists = [
        read.access.allowed.len(),
        read.access.denied.len(),
        read.limits.except.len(),
    ];
    assert!(lists.iter().all(|len| *len <= 2001));
    if let Some(external) = &read.access.external {
        assert!(is_plain(&external.path) && external.path.starts_with('/'));
        let signin = external.signin.as_ref().map(|signin| &*signin.url);
        assert!(is_plain(signin.unwrap_or_default()));
    }
    if let Some(to) = &read.redirect.to {
        assert!([301, 302, 303, 307, 308].contains(&to.code));
        assert!(
            to.path
                .as_deref()
                .is_none_or(|path| path.starts_with('/') && is_plain(path))
        );
    }
}

fn headers(change: &HeaderChange) {
    let set = change
        .set
        .iter()
        .chain(&change.set_format)
        .chain(&change.add);
    let names = set.clone().map(|(name, _)| name).chain(&change.remove);
    for name in names {
        assert_eq!(**name, name.to_ascii_lowercase());
        assert!(
            !name.starts_with(':') && !name.starts_with("x-envoy-") && **name != *"host",
            "{name}"
        );
    }
    for (_, value) in set {
        assert!(is_plain(value), "{value:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_everything_is_bounded(pairs in pairs(), defaults in vec((name(), value()), 0..6), dialect in dialect()) {
        let nginx = Arc::new(labels(&defaults));
        let defaults = Defaults { nginx };
        judge(&read(&labels(&pairs), dialect, &defaults));
        for note in options(&defaults) {
            prop_assert!(is_plain(&note.message));
        }
    }

    #[test]
    fn order_does_not_matter(mut pairs in pairs(), dialect in dialect()) {
        pairs.sort();
        pairs.dedup_by(|a, b| a.0 == b.0);
        let forth = read(&labels(&pairs), dialect, &Defaults::default());
        pairs.reverse();
        prop_assert_eq!(forth, read(&labels(&pairs), dialect, &Defaults::default()));
    }

    #[test]
    fn what_protects_never_fails_open(mut pairs in pairs(), at in 0..PROTECTING.len(), value in 0..HOSTILE.len(), nginx: bool, dialect in dialect()) {
        let prefix = if nginx { NGINX } else { HIGRESS };
        pairs.push((format!("{prefix}{}", PROTECTING[at]), HOSTILE[value].to_owned()));
        let read = read(&labels(&pairs), dialect, &Defaults::default());
        let (name, value) = (PROTECTING[at], HOSTILE[value]);
        // Numbers are names of Secrets, too.
        let fits = name.ends_with("-secret") && value.starts_with(|c: char| c.is_ascii_digit()) && !value.contains('/');
        prop_assert!(read.closed.is_some() || fits, "{name}: {value:?}");
    }

    #[test]
    fn snippets_with_access_rules_never_fail_open(before in value(), after in value(), nginx: bool) {
        let prefix = if nginx { NGINX } else { HIGRESS };
        // What stands before must not be able to hide the rule, unless it is a comment or in quotes as nginx reads it.
        prop_assume!(!before.contains(['#', '"', '\'', '\\', '$']));
        let snippet = format!("{before}\n;deny all;{after}");
        let pairs = [(format!("{prefix}configuration-snippet"), snippet)];
        let read = read(&labels(&pairs), Dialect::Nginx, &Defaults::default());
        prop_assert!(read.closed.is_some());
    }
}

#[test]
fn every_annotation_that_protects_closes_with_a_value_that_it_cannot_have() {
    let mut tried = 0;
    for name in PROTECTING.iter().chain(&SWITCHES) {
        for value in HOSTILE.iter().chain(&SLIPS) {
            let is_number = value.parse::<f64>().is_ok();
            // What may be the name of a Secret closes where the Secret is not there.
            let is_name = !value.contains(['/', ' ', ';', ','])
                && value.starts_with(|c: char| c.is_ascii_alphanumeric());
            if (SWITCHES.contains(name) && is_number) || (name.ends_with("-secret") && is_name) {
                continue;
            }
            for prefix in [NGINX, HIGRESS] {
                if prefix == NGINX && name.starts_with("route-limit") {
                    continue;
                }
                let pairs = [(format!("{prefix}{name}"), (*value).to_owned())];
                for dialect in [Dialect::Nginx, Dialect::Higress] {
                    let read = read(&labels(&pairs), dialect, &Defaults::default());
                    assert!(
                        read.closed.is_some(),
                        "{prefix}{name}: {value:?}, {dialect:?}"
                    );
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 3000, "{tried}");
}

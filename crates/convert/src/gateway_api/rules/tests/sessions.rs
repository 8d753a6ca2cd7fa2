//! Sessions that rules keep.

use std::time::Duration;

use model::session::Session;
use model::settings::Features;

use super::super::{HttpRules, reason};
use super::{grpc, http, of, read, reason_of, world};

/// The sessions of the routes of an HTTPRoute, or of a GRPCRoute with the same rules.
fn sessions(rules: &HttpRules) -> Vec<Option<&Session>> {
    let routes = rules.routes.iter();
    routes.map(|ruled| ruled.session.as_deref()).collect()
}

#[test]
fn sessions_of_a_rule_are_in_its_own_cookie_or_header() {
    let mut world = world(Features {
        persistent_session_filter: true,
        ..Features::default()
    });
    let mut read = |stated: &str| {
        let rules = format!(
            "[{{sessionPersistence: {stated}, backendRefs: [{{name: a, port: 80}}]}}, {{backendRefs: [{{name: b, port: 80}}]}}]"
        );
        let of_http = read(&mut world, &http(&rules), false);
        let of_grpc = read(&mut world, &grpc(&rules), false);
        (of_http, of_grpc)
    };
    let cookie = |name: &str, path: &str, seconds: Option<u64>| Session::Cookie {
        name: name.into(),
        path: path.into(),
        lifetime: seconds.map(Duration::from_secs),
    };
    let header = Session::Header("x-session".into());
    let cases = [
        (
            "{cookie: {name: c, path: /p}}",
            cookie("c", "/p", None),
            true,
        ),
        (
            "{absoluteTimeout: 1h, cookie: {name: c, lifetimeType: Permanent}}",
            cookie("c", "/", Some(3600)),
            true,
        ),
        (
            "{type: Header, header: {name: x-session}}",
            header.clone(),
            true,
        ),
        // What Envoy cannot end goes on, and is reported.
        (
            "{absoluteTimeout: 1h, cookie: {name: c}}",
            cookie("c", "/", None),
            false,
        ),
        (
            "{type: Header, absoluteTimeout: 1h, header: {name: x-session}}",
            header,
            false,
        ),
    ];
    for (stated, wanted, whole) in cases {
        let (of_http, of_grpc) = read(stated);
        for rules in [&of_http, &of_grpc] {
            assert_eq!(sessions(rules), [Some(&wanted), None], "{stated}");
            let reason = (!whole).then_some(reason::UNSUPPORTED_VALUE);
            assert_eq!(reason_of(rules), reason, "{stated}");
        }
    }
    let names = |rules: &HttpRules| match &sessions(rules)[0] {
        Some(Session::Cookie { name, .. }) => name.to_string(),
        other => panic!("{other:?}"),
    };
    let (of_http, of_grpc) = read("{cookie: {}}");
    assert_ne!(
        names(&of_http),
        names(&of_grpc),
        "each has a name of its own"
    );
    let (again, _) = read("{cookie: {}}");
    assert_eq!(
        names(&of_http),
        names(&again),
        "which is the same each time"
    );
}

#[test]
fn sessions_that_are_not_kept_are_told_of() {
    let rules = of(&http(
        "[{sessionPersistence: {cookie: {}}, backendRefs: [{name: a, port: 80}]}, {backendRefs: [{name: b, port: 80}]}]",
    ));
    assert_eq!(sessions(&rules), [None, None]);
    assert_eq!(reason_of(&rules), Some(reason::UNSUPPORTED_VALUE));
    assert!(!rules.error.as_ref().unwrap().refuses);
}

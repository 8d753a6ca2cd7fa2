//! Filters of rules and of backends.

use serde_json::{Value, json};

use super::super::{RouteError, reason};
use super::{grpc, http, of, reason_of, routes};

#[test]
fn what_is_wrong_with_a_mirror_leaves_its_rule_alone() {
    let filters = "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: nobody, port: 80}}}, {type: \
                   RequestMirror, requestMirror: {backendRef: {name: a, port: 80}, fraction: {numerator: 1, denominator: 8}}}]";
    for route in [
        http(&format!(
            "[{{{filters}, backendRefs: [{{name: gone, port: 80}}]}}]"
        )),
        grpc(&format!(
            "[{{{filters}, backendRefs: [{{name: gone, port: 80}}]}}]"
        )),
    ] {
        let rules = of(&route);
        let RouteError {
            reason, message, ..
        } = rules.error.clone().unwrap();
        assert_eq!(reason, reason::BACKEND_NOT_FOUND);
        assert!(
            message.contains("gone") && message.contains("; ") && message.contains("nobody"),
            "{message}"
        );
        assert_eq!(
            routes(&rules)[0]["mirrors"],
            json!([{"destination": {"host": "a.shop.svc.cluster.local", "port": {"number": 80}},
                    "percentage": {"value": 12.5}}])
        );
    }
}

#[test]
fn filters_become_what_istio_calls_them() {
    let b = json!({"host": "b.shop.svc.cluster.local", "port": {"number": 80}});
    let cases = [
        (
            "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: A, value: '1'}, {name: a, value: '2'}], \
             add: [{name: b, value: '3'}], remove: [C]}}",
            json!({"headers": {"request": {"set": {"a": "1"}, "add": {"b": "3"}, "remove": ["C"]}}}),
        ),
        (
            "{type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: a, value: '1'}], remove: [b]}}",
            json!({"headers": {"response": {"add": {"a": "1"}, "remove": ["b"]}}}),
        ),
        (
            "{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}}}",
            json!({"mirrors": [{"destination": b}]}),
        ),
        (
            "{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}, percent: 42}}",
            json!({"mirrors": [{"destination": b, "percentage": {"value": 42.0}}]}),
        ),
        (
            "{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}, fraction: {numerator: 3}}}",
            json!({"mirrors": [{"destination": b, "percentage": {"value": 3.0}}]}),
        ),
        (
            "{type: RequestRedirect, requestRedirect: {hostname: h}}",
            json!({"redirect": {"authority": "h", "redirectCode": 302, "derivePort": "FROM_REQUEST_PORT"}}),
        ),
        (
            "{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 308, path: {type: ReplacePrefixMatch, \
          replacePrefixMatch: /p}}}",
            json!({"redirect": {"scheme": "https", "redirectCode": 308, "prefixRewrite": "/p",
                   "derivePort": "FROM_PROTOCOL_DEFAULT"}}),
        ),
        (
            "{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}",
            json!({"rewrite": {"uri": "/"}}),
        ),
        (
            "{type: URLRewrite, urlRewrite: {hostname: h, path: {type: ReplaceFullPath, replaceFullPath: /f}}}",
            json!({"rewrite": {"authority": "h", "uriRegexRewrite": {"match": "/.*", "rewrite": "/f"}}}),
        ),
        (
            "{type: CORS, cors: {allowOrigins: ['https://a.com', 'https://b.com:*', 'https://*.c.com'], maxAge: 7}}",
            json!({"corsPolicy": {"allowOrigins": [{"exact": "https://a.com"}, {"prefix": "https://b.com:"},
                   {"regex": r"^https://.*\.c\.com$"}], "maxAge": "7s", "unmatchedPreflights": "IGNORE"}}),
        ),
    ];
    for (filter, expected) in cases {
        let rules = of(&http(&format!(
            "[{{filters: [{filter}], backendRefs: [{{name: a, port: 80}}]}}]"
        )));
        let mut made = routes(&rules).remove(0);
        for key in ["name", "match", "route"] {
            made.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(made, expected, "{filter}");
    }
}

#[test]
fn filters_of_a_backend_change_its_requests_alone() {
    let change = |kind: &str, field: &str| {
        format!("{{type: {kind}, {field}: {{set: [{{name: to, value: a}}]}}}}")
    };
    let request = change("RequestHeaderModifier", "requestHeaderModifier");
    let response = change("ResponseHeaderModifier", "responseHeaderModifier");
    let rules = of(&http(&format!(
        "[{{backendRefs: [{{name: a, port: 80, filters: [{request}, {response}]}}, {{name: b, port: 80}}]}}]"
    )));
    let made = &routes(&rules)[0];
    let operations = json!({"set": {"to": "a"}});
    assert_eq!(
        made["route"][0]["headers"],
        json!({"request": operations, "response": operations})
    );
    assert_eq!(
        (&made["route"][1]["headers"], &made["headers"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn filters_that_are_wrong_take_the_route_with_them() {
    let header = |value: &str| {
        format!(
            "{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: a, value: \"{value}\"}}]}}}}"
        )
    };
    let of_rule = |filter: &str| {
        http(&format!(
            "[{{filters: [{filter}], backendRefs: [{{name: a, port: 80}}]}}]"
        ))
    };
    let of_backend = |filter: &str| {
        http(&format!(
            "[{{backendRefs: [{{name: a, port: 80, filters: [{filter}]}}]}}]"
        ))
    };
    assert_eq!(of(&of_rule(&header("a\\tb"))).error, None);
    for route in [
        of_rule(&header("a\\nb")),
        of_backend(&header("a\\x7fb")),
        of_rule("{type: ExtensionRef, extensionRef: {group: g, kind: Kind, name: one}}"),
        of_backend("{type: URLRewrite, urlRewrite: {hostname: h}}"),
    ] {
        let rules = of(&route);
        assert_eq!(reason_of(&rules), Some(reason::INVALID_FILTER), "{route}");
        assert!(rules.routes.is_empty(), "{route}");
    }
}

#[test]
fn a_route_is_not_served_without_its_external_authorizer() {
    let filter = "{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: b, port: 80}, grpc: {}}}";
    for rules in [
        format!("[{{filters: [{filter}], backendRefs: [{{name: a, port: 80}}]}}]"),
        format!("[{{backendRefs: [{{name: a, port: 80, filters: [{filter}]}}]}}]"),
    ] {
        let rules = of(&http(&rules));
        assert!(rules.routes.is_empty());
        assert_eq!(reason_of(&rules), Some(reason::UNSUPPORTED_VALUE));
        assert!(rules.error.as_ref().unwrap().refuses);
    }
}

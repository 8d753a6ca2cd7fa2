//! RequestAuthentications whose keys are not known, or that make no sense.

use std::sync::Arc;

use mesh::finding::code;
use model::jwks::{FetchedKeys, KeySource};
use model::outside::Outside;
use model::settings::{Features, Settings};
use model::{Change, Severity};
use serde_json::{Value, json};
use testkit::settings;

use crate::findings::support::{Case, SERVICE};

const JWT: &str = "envoy.filters.http.jwt_authn";

fn tokens(rule: &str) -> String {
    format!(
        "
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {{name: t, namespace: shop}}
spec: {{jwtRules: [{rule}]}}
"
    )
}

/// The keys that the proxy is told.
fn keys(case: &Case) -> String {
    let jwt = case.filter(8080, JWT);
    let keys = &jwt["providers"]["origins-0"]["local_jwks"]["inline_string"];
    keys.as_str().unwrap().to_owned()
}

/// Keys that a proxy can use.
const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// Whether they are the ones for which nobody can sign.
fn refuses_all(case: &Case) -> bool {
    keys(case).contains("unknown-issuer")
}

fn about_tokens(code: &'static str, path: &str) -> (&'static str, String, String) {
    (code, "RequestAuthentication shop/t".into(), path.into())
}

#[test]
fn keys_that_are_none_refuse_every_token() {
    for jwks in [
        "not json",
        "'{}'",
        "'{\"keys\": 3}'",
        "'{\"keys\": [\"x\"]}'",
        "'{\"keys\": []}'",
        "'{\"keys\": [{\"kty\": \"EC\", \"crv\": \"secp256k1\", \"x\": \"AQ\", \"y\": \"AQ\"}]}'",
    ] {
        let case = Case::new(&tokens(&format!("{{issuer: me, jwks: {jwks}}}")));
        assert_eq!(
            case.only(),
            about_tokens(code::BAD_KEYS, "spec.jwtRules[0].jwks")
        );
        assert!(refuses_all(&case), "{jwks}");
    }
    let case = Case::new(&tokens(&format!("{{issuer: me, jwks: '{KEYS}'}}")));
    assert_eq!(case.findings(), []);
    assert_eq!(keys(&case), KEYS);
}

#[test]
fn a_rule_without_issuer_refuses_every_token() {
    let case = Case::new(&tokens(&format!("{{jwks: '{KEYS}'}}")));
    assert_eq!(
        case.only(),
        about_tokens(code::NO_ISSUER, "spec.jwtRules[0].issuer")
    );
    assert!(refuses_all(&case));
}

#[test]
fn tokens_are_refused_until_keys_are_fetched_and_the_last_good_ones_are_kept() {
    let uri = "https://me.example.com/keys";
    for (rule, source, field) in [
        (
            format!("{{issuer: me, jwksUri: {uri}}}"),
            KeySource::Uri(uri.into()),
            "spec.jwtRules[0].jwksUri",
        ),
        (
            "{issuer: 'https://me'}".to_owned(),
            KeySource::Issuer("https://me".into()),
            "spec.jwtRules[0].issuer",
        ),
    ] {
        let mut case = Case::new(&tokens(&rule));
        let wanted = case.world.get(&policy::jwt::WantedKeys);
        assert_eq!(wanted.keys().collect::<Vec<_>>(), [&source]);
        assert_eq!(case.only(), about_tokens(code::NO_KEYS, field));
        assert!(refuses_all(&case));

        let mut fetched = |keys: Option<&str>, trouble: Option<&str>| {
            let outcome = FetchedKeys {
                keys: keys.map(|keys| Outside::new(keys.into())),
                trouble: trouble.map(Arc::from),
            };
            case.world
                .apply([Change::Keys(source.clone(), Some(Arc::new(outcome)))]);
            (case.findings(), keys_or_none(&case))
        };
        let (found, told) = fetched(None, Some("nobody answers"));
        assert!(found[0].message.contains("nobody answers"), "{found:?}");
        assert_eq!(told, None);
        let good = "{\"keys\": [{}]}";
        assert_eq!(fetched(Some(good), None), (vec![], Some(good.to_owned())));
        let (found, told) = fetched(Some(good), Some("nobody answers"));
        assert_eq!((found.len(), told.as_deref()), (1, Some(good)));
        assert_eq!(found[0].severity, Severity::Warning);
        let effect = "are checked with the keys that were fetched last: ";
        assert!(found[0].message.contains(effect), "{found:?}");
        case.world.apply([Change::Keys(source.clone(), None)]);
        assert!(refuses_all(&case));
    }
}

fn keys_or_none(case: &Case) -> Option<String> {
    (!refuses_all(case)).then(|| keys(case))
}

#[test]
fn proxies_that_should_fetch_keys_from_an_unknown_service_get_none() {
    let fetching = |value: &str| {
        let variable = ("PILOT_JWT_ENABLE_REMOTE_JWKS".to_owned(), value.to_owned());
        Settings {
            features: Arc::new(Features::from_env([variable])),
            ..settings("")
        }
    };
    let yaml = |host: &str| {
        let rule = format!("{{issuer: me, jwksUri: 'http://{host}/keys', timeout: 2s}}");
        format!("{SERVICE}---{}", tokens(&rule))
    };
    let remote = |case: &Case| {
        let jwt = case.filter(8080, JWT);
        jwt["providers"]["origins-0"]["remote_jwks"]["http_uri"].clone()
    };
    let case = Case::with(fetching("envoy"), json!({}), &yaml("me.example.com:8080"));
    assert_eq!(
        case.only(),
        about_tokens(code::NO_KEY_SERVICE, "spec.jwtRules[0].jwksUri")
    );
    assert_eq!(remote(&case)["cluster"], "outbound|8080||me.example.com");
    assert!(case.world.get(&policy::jwt::WantedKeys).is_empty());

    // With a fallback the control plane fetches what proxies do not know.
    let case = Case::with(fetching("hybrid"), json!({}), &yaml("me.example.com"));
    assert_eq!(
        case.only(),
        about_tokens(code::NO_KEYS, "spec.jwtRules[0].jwksUri")
    );
    assert!(refuses_all(&case));
    let case = Case::with(
        fetching("true"),
        json!({}),
        &yaml("cart.shop.svc.cluster.local"),
    );
    assert_eq!(case.findings(), []);
    let uri = remote(&case);
    assert_eq!(uri["cluster"], "outbound|80||cart.shop.svc.cluster.local");
    assert_eq!(uri["timeout"], "2s");
}

#[test]
fn names_of_tokens_that_are_empty_are_left_out() {
    let rule = format!(
        "{{issuer: me, jwks: '{KEYS}', \
         fromHeaders: [{{name: ''}}, {{name: x-token}}, {{name: \"x\\n\"}}, {{name: x, prefix: \"a\\n\"}}], \
         fromParams: ['', token], fromCookies: [''], outputPayloadToHeader: \"x\\n\", \
         outputClaimToHeaders: [{{header: '', claim: a}}, {{header: \"x\\n\", claim: a}}]}}"
    );
    let case = Case::new(&tokens(&rule));
    let found = case.findings();
    assert!(found.iter().all(|f| f.code == code::NAMELESS));
    assert_eq!(found.len(), 5, "{found:#?}");
    let jwt = case.filter(8080, JWT);
    let provider = &jwt["providers"]["origins-0"];
    assert_eq!(provider["from_headers"], json!([{"name": "x-token"}]));
    assert_eq!(provider["from_params"], json!(["token"]));
    assert_eq!(provider["from_cookies"], Value::Null);
    assert_eq!(provider["claim_to_headers"], Value::Null);
    assert_eq!(provider["forward_payload_header"], Value::Null);
}

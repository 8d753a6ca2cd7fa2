//! RequestAuthentications as Envoy's JWT filter: a token that is there must be good, none at all is let through.
//!
//! Istio: pilot/pkg/security/authn/policy_applier.go convertToEnvoyJwtConfig, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::jwks::{Demand, KeySource};
use model::kinds::istio::RequestAuthentication;
use model::labels::Labels;
use model::names::Namespace;
use model::settings::JwksFetch;
use prost_types::Duration;
use proto_envoy::envoy::config::core::v3::{DataSource, HttpUri, data_source, http_uri};
use proto_envoy::envoy::config::route::v3::{RouteMatch, route_match};
use proto_envoy::envoy::extensions::filters::http::jwt_authn::v3 as envoy;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_istio::security::{ClaimToHeader, JwtHeader, JwtRule};
use store::{Reads, Snapshot};
use validate::text::{is_token, one_line};

use crate::{filters, provider_cluster};
use mesh::capabilities::name::JWT_AUTHN;
use mesh::finding::{about, code};
use mesh::policy_target::{Target, oldest_first};
use mesh::trust;
use xds::any;

/// The key of the metadata under which the filter leaves the claims.
const PAYLOAD: &str = "payload";
/// Claims that hold several values with spaces between them.
const SPACE_DELIMITED: [&str; 2] = ["permission", "scope"];
/// How long proxies keep keys that they fetched. Istio: policy_applier.go, 1.32.
const CACHE_SECONDS: i64 = 300;
/// How long fetching keys may take where the rule does not say. Istio: policy_applier.go, 1.32.
const TIMEOUT: Duration = Duration {
    seconds: 5,
    nanos: 0,
};

/// How long fetching a SPIFFE bundle may take. Istio: pilot/pkg/trustbundle/trustbundle.go remoteTimeout, 1.32.
const BUNDLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// A key for tokens of issuers whose keys are not known: nobody has the private half, so every token is refused. Without
/// any key Envoy would not say why.
const REFUSES_ALL: &str = r#"{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"unknown-issuer","e":"AQAB","n":"kUO1MfnJogQ3YgdRc4OQrvbT_YQwE7QPtuR8XUIolbWrdOyQgvJZXnjqtVMsv08NJxCleD2v2rmcAjvUZkFdedP1MmJD_jrUVyeTicXRpYYhzhBB_jFgsWv2DEaXBc38MSYXENjWad8xSZ5V4LePchCXfitm-bfc_6cZ_8XvJLqD1phsUStqNkMmTaoNDdPhxBYxK2CDgq9lOq-LNEgFL5cK9QqMZ0_AbfIhGx3RqFPr5VkdiddcZH8TvaIKZ2joHuVGV6A2apiMN4TVk48EBdTxus71mswDDWflOGyIu6cUMCM9mLYjToWKSY5mAuouH5QB5GgP1bFxpPvhGADBGw"}]}"#;

/// The filter of a workload; `None` where no policy is about it. Gateways choose routes by claims and so choose again
/// after the filter has run.
pub fn filter(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    labels: &Labels,
    gateway: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<hcm::HttpFilter> {
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    let spaces = std::iter::once(namespace).chain((*namespace != root).then_some(&root));
    let mut rules = Vec::new();
    for space in spaces {
        for policy in oldest_first::<RequestAuthentication>(cx, space) {
            let target = Target {
                namespace: space,
                selector: policy.spec.selector.as_ref(),
                target_refs: &policy.spec.target_refs,
                target_ref: policy.spec.target_ref.as_ref(),
            };
            if target.covers(namespace, labels) {
                for (at, rule) in policy.spec.jwt_rules.iter().enumerate() {
                    let keys = keys(cx, rule).unwrap_or_else(|trouble| {
                        let issuer = &rule.issuer;
                        let (severity, effect) = match trouble.kept {
                            true => (
                                Severity::Warning,
                                format!("tokens of {issuer:?} are checked with the keys that were fetched last"),
                            ),
                            false => (
                                Severity::Error,
                                format!("requests with a token of {issuer:?} are answered with 401"),
                            ),
                        };
                        let why = format!("{effect}: {}", trouble.why);
                        let found = about(&policy, trouble.code, severity, why);
                        let path = format!("spec.jwtRules[{at}]{}", trouble.field);
                        diagnostics.push(found.at(path));
                        trouble.instead
                    });
                    for field in nameless(rule) {
                        let why = "a name that is empty, or not the name of a header, is left out";
                        let found = about(&policy, code::NAMELESS, Severity::Error, why);
                        diagnostics.push(found.at(format!("spec.jwtRules[{at}].{field}")));
                    }
                    rules.push((rule.clone(), keys));
                }
            }
        }
    }
    config(rules, gateway).map(|config| filters::http(JWT_AUTHN, any(&config)))
}

/// Where a proxy has the keys of an issuer from.
#[derive(Clone, PartialEq, Debug)]
enum Keys {
    /// It is told them.
    Stated(String),
    /// It fetches them from a cluster that it knows.
    Fetched(Box<envoy::RemoteJwks>),
}

/// Why the keys of a rule are of no use, and what the proxy gets instead of them.
struct Trouble {
    code: &'static str,
    field: &'static str,
    why: String,
    instead: Keys,
    /// Whether that is what was in force before.
    kept: bool,
}

impl Trouble {
    fn refusing(code: &'static str, field: &'static str, why: impl Into<String>) -> Self {
        Self {
            code,
            field,
            why: why.into(),
            instead: Keys::Stated(REFUSES_ALL.to_owned()),
            kept: false,
        }
    }
}

fn keys(cx: &Cx<'_, Snapshot>, rule: &JwtRule) -> Result<Keys, Trouble> {
    if rule.issuer.is_empty() {
        // Envoy would take tokens of any issuer for good.
        let why = "the rule names no issuer";
        return Err(Trouble::refusing(code::NO_ISSUER, ".issuer", why));
    }
    if let Some(fetched) = fetched_by_proxy(cx, rule) {
        return fetched.map(|remote| Keys::Fetched(Box::new(remote)));
    }
    let Some(source) = source(rule) else {
        return match model::jwks::check(&rule.jwks) {
            Ok(()) => Ok(Keys::Stated(rule.jwks.clone())),
            Err(why) => {
                let why = format!("the text of `jwks` {why}");
                Err(Trouble::refusing(code::BAD_KEYS, ".jwks", why))
            }
        };
    };
    let field = match source {
        KeySource::Uri(_) | KeySource::Bundle(_) => ".jwksUri",
        KeySource::Issuer(_) => ".issuer",
    };
    let no_keys = |why: String| Trouble::refusing(code::NO_KEYS, field, why);
    let Some(fetched) = cx.keys(&source) else {
        return Err(no_keys(format!(
            "its keys have not been fetched yet from {source}"
        )));
    };
    let keys = fetched
        .keys
        .as_ref()
        .map(|keys| Keys::Stated(keys.to_string()));
    match (keys, &fetched.trouble) {
        (Some(keys), None) => Ok(keys),
        (Some(keys), Some(why)) => Err(Trouble {
            why: format!("the last attempt to fetch them again from {source} failed: {why}"),
            instead: keys,
            kept: true,
            ..no_keys(String::new())
        }),
        (None, why) => Err(no_keys(format!(
            "its keys cannot be fetched from {source}: {}",
            why.as_deref().unwrap_or("nothing came")
        ))),
    }
}

/// Whether Envoy takes tokens from a header.
fn is_source(from: &JwtHeader) -> bool {
    is_token(&from.name) && one_line(&from.prefix).is_ok()
}

/// Whether Envoy can put a claim into a header.
fn is_target(to: &ClaimToHeader) -> bool {
    is_token(&to.header) && !to.claim.is_empty()
}

/// The fields of a rule that hold a name which is empty or not that of a header, for which Envoy would refuse the whole
/// listener.
fn nameless(rule: &JwtRule) -> Vec<&'static str> {
    let claims = &rule.output_claim_to_headers;
    [
        ("fromHeaders", !rule.from_headers.iter().all(is_source)),
        ("fromParams", rule.from_params.iter().any(String::is_empty)),
        (
            "fromCookies",
            rule.from_cookies.iter().any(String::is_empty),
        ),
        ("outputClaimToHeaders", !claims.iter().all(is_target)),
        ("outputPayloadToHeader", payload_header(rule).is_none()),
    ]
    .into_iter()
    .filter_map(|(field, empty)| empty.then_some(field))
    .collect()
}

/// The header for the payload, or none where none is stated; `None` where Envoy would refuse its name.
fn payload_header(rule: &JwtRule) -> Option<&str> {
    let name = rule.output_payload_to_header.as_str();
    (name.is_empty() || is_token(name)).then_some(name)
}

fn named(names: &[String]) -> Vec<String> {
    names.iter().filter(|n| !n.is_empty()).cloned().collect()
}

/// Where the control plane fetches the keys of a rule from; `None` for a rule that states them.
fn source(rule: &JwtRule) -> Option<KeySource> {
    if !rule.jwks.is_empty() {
        None
    } else if !rule.jwks_uri.is_empty() {
        Some(KeySource::Uri(rule.jwks_uri.as_str().into()))
    } else {
        Some(KeySource::Issuer(rule.issuer.as_str().into()))
    }
}

/// How proxies fetch the keys of a rule themselves, where the mesh wants that.
fn fetched_by_proxy(
    cx: &Cx<'_, Snapshot>,
    rule: &JwtRule,
) -> Option<Result<envoy::RemoteJwks, Trouble>> {
    let mode = cx.settings().features.jwks_fetch;
    if mode == JwksFetch::ControlPlane || rule.jwks_uri.is_empty() {
        return None;
    }
    let remote = |cluster: String| envoy::RemoteJwks {
        http_uri: Some(HttpUri {
            uri: rule.jwks_uri.clone(),
            timeout: Some(timeout(rule)),
            http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster(cluster)),
        }),
        cache_duration: Some(Duration {
            seconds: CACHE_SECONDS,
            nanos: 0,
        }),
        ..Default::default()
    };
    let (host, port) = host_and_port(&rule.jwks_uri).unwrap_or_default();
    match provider_cluster::lookup(cx, host, port) {
        Some(found) => Some(Ok(remote(found.cluster))),
        None if mode == JwksFetch::Hybrid => None,
        None => Some(Err(Trouble {
            code: code::NO_KEY_SERVICE,
            field: ".jwksUri",
            why: format!("proxies fetch the keys themselves, and know no service {host:?}"),
            // A cluster that is not there: Envoy gets no keys, and says so.
            instead: Keys::Fetched(Box::new(remote(format!("outbound|{port}||{host}")))),
            kept: false,
        })),
    }
}

fn timeout(rule: &JwtRule) -> Duration {
    rule.timeout.as_ref().map_or(TIMEOUT, |stated| stated.0)
}

/// Host and port of an `http` or `https` address.
fn host_and_port(uri: &str) -> Option<(&str, u32)> {
    let (scheme, rest) = uri.split_once("://")?;
    let default = match scheme.to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, a)| a);
    if let Some(v6) = authority.strip_prefix('[') {
        let (host, port) = v6.split_once(']')?;
        let port = port.strip_prefix(':').map(str::parse).transpose().ok()?;
        return Some((host, port.unwrap_or(default)));
    }
    match authority.rsplit_once(':') {
        Some((host, "")) => Some((host, default)),
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((authority, default)),
    }
}

/// Every source that keys are to be fetched from, with who wants them and the longest time that a rule gives it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WantedKeys;

impl Query<Snapshot> for WantedKeys {
    type Value = Arc<BTreeMap<KeySource, Demand>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut wanted: BTreeMap<KeySource, Demand> = BTreeMap::new();
        for endpoint in trust::endpoints(&cx.settings().mesh) {
            let demand = wanted.entry(endpoint).or_default();
            demand.limit = BUNDLE_TIMEOUT;
        }
        for policy in cx.list::<RequestAuthentication>() {
            for rule in &policy.spec.jwt_rules {
                if rule.issuer.is_empty() || fetched_by_proxy(cx, rule).is_some() {
                    continue;
                }
                let Some(source) = source(rule) else { continue };
                let limit = std::time::Duration::try_from(timeout(rule)).unwrap_or_default();
                let demand = wanted.entry(source).or_default();
                demand.limit = limit.max(demand.limit);
                demand.namespaces.insert(policy.meta.name.namespace.clone());
            }
        }
        Arc::new(wanted)
    }
}

/// The configuration of the filter, rules in the order of their issuers.
fn config(mut rules: Vec<(JwtRule, Keys)>, gateway: bool) -> Option<envoy::JwtAuthentication> {
    rules.sort_by(|(a, _), (b, _)| a.issuer.cmp(&b.issuer));
    let name = |at: usize| format!("origins-{at}");
    let providers: BTreeMap<String, envoy::JwtProvider> = rules
        .iter()
        .enumerate()
        .map(|(at, (rule, keys))| (name(at), provider(rule, keys, gateway)))
        .collect();
    let named = |at| requirement(Requires::ProviderName(name(at)));
    let or_none = |at| {
        let missing = requirement(Requires::AllowMissing(()));
        any_of(vec![named(at), missing])
    };
    let requires = match rules.len() {
        0 => return None,
        1 => or_none(0),
        count => {
            // Every token that is there is good; or one is, where several issuers' tokens come at the same place.
            let all = envoy::JwtRequirementAndList {
                requirements: (0..count).map(or_none).collect(),
            };
            let mut either: Vec<_> = (0..count).map(named).collect();
            either.push(requirement(Requires::RequiresAll(all)));
            any_of(either)
        }
    };
    Some(envoy::JwtAuthentication {
        providers,
        rules: vec![envoy::RequirementRule {
            r#match: Some(RouteMatch {
                path_specifier: Some(route_match::PathSpecifier::Prefix("/".to_owned())),
                ..Default::default()
            }),
            requirement_type: Some(envoy::requirement_rule::RequirementType::Requires(requires)),
        }],
        bypass_cors_preflight: true,
        ..Default::default()
    })
}

use envoy::jwt_requirement::RequiresType as Requires;

fn requirement(requires: Requires) -> envoy::JwtRequirement {
    envoy::JwtRequirement {
        requires_type: Some(requires),
    }
}

fn any_of(requirements: Vec<envoy::JwtRequirement>) -> envoy::JwtRequirement {
    requirement(Requires::RequiresAny(envoy::JwtRequirementOrList {
        requirements,
    }))
}

fn provider(rule: &JwtRule, keys: &Keys, gateway: bool) -> envoy::JwtProvider {
    use envoy::jwt_provider::JwksSourceSpecifier as Specifier;
    envoy::JwtProvider {
        issuer: rule.issuer.clone(),
        audiences: rule.audiences.clone(),
        forward: rule.forward_original_token,
        forward_payload_header: payload_header(rule).unwrap_or_default().to_owned(),
        payload_in_metadata: PAYLOAD.to_owned(),
        normalize_payload_in_metadata: Some(envoy::jwt_provider::NormalizePayload {
            space_delimited_claims: space_delimited(&rule.space_delimited_claims),
        }),
        clear_route_cache: gateway,
        claim_to_headers: rule
            .output_claim_to_headers
            .iter()
            .filter(|to| is_target(to))
            .map(|to| envoy::JwtClaimToHeader {
                header_name: to.header.clone(),
                claim_name: to.claim.clone(),
                ..Default::default()
            })
            .collect(),
        from_headers: rule
            .from_headers
            .iter()
            .filter(|from| is_source(from))
            .map(|from| envoy::JwtHeader {
                name: from.name.clone(),
                value_prefix: from.prefix.clone(),
            })
            .collect(),
        from_params: named(&rule.from_params),
        from_cookies: named(&rule.from_cookies),
        jwks_source_specifier: Some(match keys {
            Keys::Stated(keys) => Specifier::LocalJwks(DataSource {
                specifier: Some(data_source::Specifier::InlineString(keys.clone())),
                ..Default::default()
            }),
            Keys::Fetched(remote) => Specifier::RemoteJwks((**remote).clone()),
        }),
        ..Default::default()
    }
}

fn space_delimited(stated: &[String]) -> Vec<String> {
    let all: BTreeSet<&str> = stated
        .iter()
        .map(String::as_str)
        .chain(SPACE_DELIMITED)
        .collect();
    all.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use prost::{Message, Name};
    use serde_json::Value;

    use super::*;
    use testkit::cases;

    #[test]
    fn configurations_are_those_of_the_recording() {
        for case in cases("authn", "authn.convertToEnvoyJwtConfig") {
            let input = &case["in"];
            let mut rules: Vec<JwtRule> =
                serde_json::from_value(input["jwtRules"].clone()).unwrap();
            // Keys as Istio stated or fetched them in its tests; where proxies fetch is for another test.
            let keys = |at: usize| {
                let keys = &case["out"]["providers"][format!("origins-{at}")]["localJwks"];
                Keys::Stated(keys["inlineString"].as_str().unwrap_or_default().to_owned())
            };
            let issuers: Vec<_> = rules.iter().map(|r| r.issuer.clone()).collect();
            if !issuers.is_sorted() {
                // The recorded function is called with sorted rules everywhere but in this table.
                for (at, rule) in rules.iter_mut().enumerate() {
                    rule.issuer = format!("{at}");
                }
            }
            let rules = rules.into_iter().enumerate();
            let rules = rules.map(|(at, rule)| (rule, keys(at))).collect();
            let found = config(rules, input["clearRouteCache"] == true).map(|mut c| {
                for (at, issuer) in issuers.iter().enumerate() {
                    if let Some(p) = c.providers.get_mut(&format!("origins-{at}")) {
                        p.issuer.clone_from(issuer);
                    }
                }
                let url = envoy::JwtAuthentication::type_url();
                let mut json = descriptors::json::from_bytes(&url, &c.encode_to_vec());
                json.as_object_mut().unwrap().remove("@type");
                json
            });
            assert_eq!(found.unwrap_or(Value::Null), case["out"], "{case}");
        }
    }

    #[test]
    fn claims_with_spaces_are_those_of_the_recording() {
        for case in cases("authn", "authn.buildSpaceDelimitedClaims") {
            let stated: Option<Vec<String>> =
                serde_json::from_value(case["in"]["spaceDelimitedClaimsList"].clone()).unwrap();
            let found = space_delimited(&stated.unwrap_or_default());
            assert_eq!(Value::from(found), case["out"], "{case}");
        }
    }
}

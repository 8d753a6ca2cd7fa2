//! RequestAuthentications as Envoy's JWT filter: a token that is there must be good, none at all is let through.
//!
//! Istio: pilot/pkg/security/authn/policy_applier.go convertToEnvoyJwtConfig, 1.32.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::RequestAuthentication;
use model::labels::Labels;
use model::names::Namespace;
use model::object::Object;
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::config::route::v3::{RouteMatch, route_match};
use proto_envoy::envoy::extensions::filters::http::jwt_authn::v3 as envoy;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_istio::security::JwtRule;
use store::{Reads, Snapshot};

use crate::capabilities::name::JWT_AUTHN;
use crate::listeners::filters;
use crate::policy_target::Target;
use crate::resource::any;

/// The key of the metadata under which the filter leaves the claims.
const PAYLOAD: &str = "payload";
/// Claims that hold several values with spaces between them.
const SPACE_DELIMITED: [&str; 2] = ["permission", "scope"];
/// Told of rules whose keys are not known.
const NO_KEYS: &str = "PIL0411";

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
        let mut policies = cx.list_in::<RequestAuthentication>(space);
        policies.sort_by(|a, b| {
            (a.meta.created, &a.meta.name.name).cmp(&(b.meta.created, &b.meta.name.name))
        });
        for policy in policies {
            let target = Target {
                namespace: space,
                selector: policy.spec.selector.as_ref(),
                target_refs: &policy.spec.target_refs,
                target_ref: policy.spec.target_ref.as_ref(),
            };
            if target.covers(namespace, labels) {
                report(&policy, diagnostics);
                rules.extend(policy.spec.jwt_rules.iter().cloned());
            }
        }
    }
    config(rules, gateway).map(|config| filters::http(JWT_AUTHN, any(&config)))
}

fn report(policy: &Object<RequestAuthentication>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, rule) in policy.spec.jwt_rules.iter().enumerate() {
        if rule.jwks.is_empty() {
            let why = format!(
                "the keys of issuer {:?} are not known here: its tokens are refused",
                rule.issuer
            );
            diagnostics.push(Diagnostic {
                object: Some(policy.key()),
                origin: Some(policy.meta.origin.clone()),
                ..Diagnostic::new(NO_KEYS, Severity::Error, why)
                    .at(format!("spec.jwtRules[{at}]"))
                    .help("state the keys in jwks".to_owned())
            });
        }
    }
}

/// The configuration of the filter, rules in the order of their issuers.
fn config(mut rules: Vec<JwtRule>, gateway: bool) -> Option<envoy::JwtAuthentication> {
    rules.sort_by(|a, b| a.issuer.cmp(&b.issuer));
    let name = |at: usize| format!("origins-{at}");
    let providers: BTreeMap<String, envoy::JwtProvider> = rules
        .iter()
        .enumerate()
        .map(|(at, rule)| (name(at), provider(rule, gateway)))
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

fn provider(rule: &JwtRule, gateway: bool) -> envoy::JwtProvider {
    let keys = match rule.jwks.as_str() {
        "" => REFUSES_ALL,
        keys => keys,
    };
    envoy::JwtProvider {
        issuer: rule.issuer.clone(),
        audiences: rule.audiences.clone(),
        forward: rule.forward_original_token,
        forward_payload_header: rule.output_payload_to_header.clone(),
        payload_in_metadata: PAYLOAD.to_owned(),
        normalize_payload_in_metadata: Some(envoy::jwt_provider::NormalizePayload {
            space_delimited_claims: space_delimited(&rule.space_delimited_claims),
        }),
        clear_route_cache: gateway,
        claim_to_headers: rule
            .output_claim_to_headers
            .iter()
            .map(|to| envoy::JwtClaimToHeader {
                header_name: to.header.clone(),
                claim_name: to.claim.clone(),
                ..Default::default()
            })
            .collect(),
        from_headers: rule
            .from_headers
            .iter()
            .map(|from| envoy::JwtHeader {
                name: from.name.clone(),
                value_prefix: from.prefix.clone(),
            })
            .collect(),
        from_params: rule.from_params.clone(),
        from_cookies: rule.from_cookies.clone(),
        jwks_source_specifier: Some(envoy::jwt_provider::JwksSourceSpecifier::LocalJwks(
            DataSource {
                specifier: Some(data_source::Specifier::InlineString(keys.to_owned())),
                ..Default::default()
            },
        )),
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
    use crate::recorded::cases;

    #[test]
    fn configurations_are_those_of_the_recording() {
        for case in cases("authn.json", "authn.convertToEnvoyJwtConfig") {
            let input = &case["in"];
            let mut rules: Vec<JwtRule> =
                serde_json::from_value(input["jwtRules"].clone()).unwrap();
            // Keys that Istio fetched in its tests.
            for (at, rule) in rules
                .iter_mut()
                .enumerate()
                .filter(|(_, r)| r.jwks.is_empty())
            {
                let keys = &case["out"]["providers"][format!("origins-{at}")]["localJwks"];
                rule.jwks = keys["inlineString"].as_str().unwrap_or_default().to_owned();
            }
            let issuers: Vec<_> = rules.iter().map(|r| r.issuer.clone()).collect();
            if !issuers.is_sorted() {
                // The recorded function is called with sorted rules everywhere but in this table.
                for (at, rule) in rules.iter_mut().enumerate() {
                    rule.issuer = format!("{at}");
                }
            }
            let found = config(rules, input["clearRouteCache"] == true).map(|mut c| {
                for (at, issuer) in issuers.iter().enumerate() {
                    if let Some(p) = c.providers.get_mut(&format!("origins-{at}")) {
                        p.issuer.clone_from(issuer);
                    }
                }
                let url = envoy::JwtAuthentication::type_url();
                let mut json = crate::json::from_bytes(&url, &c.encode_to_vec());
                json.as_object_mut().unwrap().remove("@type");
                json
            });
            assert_eq!(found.unwrap_or(Value::Null), case["out"], "{case}");
        }
    }

    #[test]
    fn claims_with_spaces_are_those_of_the_recording() {
        for case in cases("authn.json", "authn.buildSpaceDelimitedClaims") {
            let stated: Option<Vec<String>> =
                serde_json::from_value(case["in"]["spaceDelimitedClaimsList"].clone()).unwrap();
            let found = space_delimited(&stated.unwrap_or_default());
            assert_eq!(Value::from(found), case["out"], "{case}");
        }
    }
}

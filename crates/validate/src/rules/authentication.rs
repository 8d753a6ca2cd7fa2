//! PeerAuthentication and RequestAuthentication.

use model::jwks::BadKeys;
use proto_istio::security::{JwtRule, PeerAuthentication, RequestAuthentication};
use serde_json::Value;

use super::selector;
use crate::report::{At, Report};
use crate::text::{duration_if_set, is_token, jwks_uri, one_line, port};

pub(super) fn peer(policy: &PeerAuthentication, at: &At<'_>, report: &mut Report) {
    let selects = policy
        .selector
        .as_ref()
        .is_some_and(|s| !s.match_labels.is_empty());
    let at_ports = at.field("portLevelMtls");
    if !selects && !policy.port_level_mtls.is_empty() {
        report.error(&at_ports, "ports need a selector with labels");
    }
    for number in policy.port_level_mtls.keys() {
        report.check(&at_ports.field(&number.to_string()), port((*number).into()));
    }
    selector::workloads(policy.selector.as_ref(), at, report);
}

pub(super) fn request(policy: &RequestAuthentication, at: &At<'_>, report: &mut Report) {
    selector::policy(
        policy.selector.as_ref(),
        policy.target_ref.as_ref(),
        &policy.target_refs,
        at,
        report,
    );
    for (at, rule) in at.field("jwtRules").each(&policy.jwt_rules) {
        jwt(rule, &at, report);
    }
}

/// Istio: pkg/config/validation/validation.go validateJwtRule, 1.32.
fn jwt(rule: &JwtRule, at: &At<'_>, report: &mut Report) {
    let lists = [
        ("audiences", &rule.audiences),
        ("fromParams", &rule.from_params),
        ("fromCookies", &rule.from_cookies),
    ];
    for (field, values) in lists {
        for (at, value) in at.field(field).each(values) {
            if value.is_empty() {
                report.error(&at, "must not be empty");
            }
        }
    }
    if rule.issuer.is_empty() && rule.jwks_uri.is_empty() {
        report.error(at, "one of `issuer` and `jwksUri` is needed");
    }
    if !rule.jwks_uri.is_empty() {
        report.check(&at.field("jwksUri"), jwks_uri(&rule.jwks_uri));
    }
    if !rule.jwks.is_empty() {
        keys(&rule.jwks, &at.field("jwks"), report);
    }
    for (at, header) in at.field("fromHeaders").each(&rule.from_headers) {
        if header.name.is_empty() {
            report.error(&at.field("name"), "a name of a header is needed");
        } else if !is_token(&header.name) {
            let message = format!("{:?} is not the name of a header", header.name);
            report.error(&at.field("name"), message);
        }
        report.check(&at.field("prefix"), one_line(&header.prefix));
    }
    for (at, claim) in at
        .field("outputClaimToHeaders")
        .each(&rule.output_claim_to_headers)
    {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if claim.claim.is_empty() {
            report.error(&at.field("claim"), "the name of a claim is needed");
        }
        if claim.header.is_empty() || !claim.header.bytes().all(good) {
            let message = format!("{:?} is not a header name", claim.header);
            report.error(&at.field("header"), message);
        }
    }
    let payload = &rule.output_payload_to_header;
    if !payload.is_empty() && !is_token(payload) {
        let message = format!("{payload:?} is not the name of a header");
        report.error(&at.field("outputPayloadToHeader"), message);
    }
    report.check(&at.field("timeout"), duration_if_set(rule.timeout));
}

/// A set of keys, or a single one, as RFC 7517 has them.
fn keys(text: &str, at: &At<'_>, report: &mut Report) {
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return report.error(at, "the keys are no JSON");
    };
    let all = match json.get("keys") {
        Some(Value::Array(keys)) => keys.as_slice(),
        Some(_) => return report.error(at, "`keys` is no list"),
        None if json.get("kty").is_some() => std::slice::from_ref(&json),
        None => return report.error(at, "there are no keys"),
    };
    for (index, key) in all.iter().enumerate() {
        let has = |fields: &[&str]| fields.iter().all(|f| key[*f].is_string());
        let good = match key["kty"].as_str() {
            Some("RSA") => has(&["n", "e"]),
            Some("EC") => has(&["crv", "x", "y"]),
            Some("OKP") => has(&["crv", "x"]),
            Some("oct") => has(&["k"]),
            _ => false,
        };
        if !good {
            report.error(at, format!("the key {index} is no key"));
        } else if key["kty"] == "oct" || has(&["d"]) {
            let message = format!("the key {index} is private, and only public ones are used");
            report.warning(at, message);
        }
    }
    // Envoy has one form only, and refuses the listener for keys of which it can use none.
    match model::jwks::check(text) {
        // istiod takes them as well.
        Err(BadKeys::NoneUsable) => {
            let why = "no key of it can be used, so every token of the issuer is refused";
            report.warning(at, why.to_owned());
        }
        Err(why) if !report.has_errors() => report.error(at, format!("the text {why}")),
        _ => {}
    }
}

//! Questions that are no objects: `kubectl auth can-i`, `kubectl auth whoami`, and whether a token counts.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};

use super::discovery::REVIEWS;
use super::request::ObjectTarget;
use super::{Api, Request, Response, body, read_body, tokens};
use crate::access::Verb;
use crate::status::Failure;

/// Answers a review.
pub(super) async fn answer(
    api: &Api,
    request: &Request,
    target: &ObjectTarget,
) -> Result<Response, Failure> {
    let review = REVIEWS
        .iter()
        .find(|(group, _, plural)| *group == target.group && *plural == target.plural);
    let (group, kind, _) = review
        .filter(|_| target.version == "v1")
        .ok_or_else(Failure::no_path)?;
    if request.method != http::Method::POST {
        return Err(Failure::method_not_allowed());
    }
    let mut object = read_body(request)?;
    if !object.is_object() {
        return Err(Failure::bad_request("the body is no object"));
    }
    object["apiVersion"] = format!("{group}/v1").into();
    object["kind"] = (*kind).into();
    let status = match *kind {
        "TokenReview" => tokens::review(api, request, &object).await?,
        "SelfSubjectReview" => {
            let groups: Vec<&str> = request.who.groups.iter().map(|g| &**g).collect();
            json!({"userInfo": {"username": &*request.who.name, "groups": groups}})
        }
        "SelfSubjectRulesReview" => rules(api, request, &object["spec"])?,
        _ => json!({"allowed": may(api, request, &object["spec"]["resourceAttributes"])}),
    };
    object["status"] = status;
    Ok(body::json(StatusCode::CREATED, &object))
}

/// The rules of what the caller may do in a namespace and in the cluster.
fn rules(api: &Api, request: &Request, asked: &Value) -> Result<Value, Failure> {
    let namespace = asked["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let (access, catalog) = (api.access(), api.catalog());
    // Kinds of a group with which the same may be done are one rule.
    let mut rules: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for resource in catalog.all() {
        let in_namespace = resource.namespaced || resource.is("", "namespaces");
        let scope = in_namespace.then_some(namespace);
        let may = |verb: &Verb| {
            let allowed = access.allow(&request.who, *verb, &resource.plural, scope);
            allowed.is_ok()
        };
        let verbs: Vec<&str> = Verb::all().filter(may).map(Verb::name).collect();
        if !verbs.is_empty() {
            let rule = rules.entry((&*resource.group, verbs)).or_default();
            rule.push(&resource.plural);
        }
    }
    let rules = rules.into_iter().map(|((group, verbs), resources)| {
        json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
    });
    let rules: Vec<Value> = rules.collect();
    Ok(json!({"resourceRules": rules, "nonResourceRules": [], "incomplete": false}))
}

/// Whether whoever asks may do what they ask about.
fn may(api: &Api, request: &Request, asked: &Value) -> bool {
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    let namespace = Some(text("namespace")).filter(|n| !n.is_empty());
    Verb::of_name(text("verb")).is_some_and(|verb| {
        let allowed = api
            .access()
            .allow(&request.who, verb, text("resource"), namespace);
        allowed.is_ok()
    })
}

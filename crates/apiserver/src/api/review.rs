//! Questions about oneself: `kubectl auth can-i` and `kubectl auth whoami`.

use http::StatusCode;
use serde_json::{Value, json};

use super::discovery::REVIEWS;
use super::request::ObjectTarget;
use super::{Api, Request, Response, body, read_body};
use crate::access::Verb;
use crate::status::Failure;

/// Answers a review.
pub(super) fn answer(
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
    let groups: Vec<&str> = request.who.groups.iter().map(|g| &**g).collect();
    object["status"] = if *kind == "SelfSubjectReview" {
        json!({"userInfo": {"username": &*request.who.name, "groups": groups}})
    } else {
        let asked = &object["spec"]["resourceAttributes"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&asked["namespace"]);
        let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
        let allowed = match Verb::of_name(&text(&asked["verb"])) {
            Some(verb) => {
                let plural = text(&asked["resource"]);
                api.access()
                    .allow(&request.who, verb, &plural, namespace)
                    .is_ok()
            }
            None => false,
        };
        json!({"allowed": allowed})
    };
    Ok(body::json(StatusCode::CREATED, &object))
}

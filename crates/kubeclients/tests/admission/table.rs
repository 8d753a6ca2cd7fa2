//! The cases, and what is compared.
//!
//! A case has a namespace of its own, `NAME`, with the label `case: NAME`; its webhooks see only that namespace unless they say
//! otherwise. `{ca}`, `{server}` and `{case}` in texts stand for the bundle, the address and the name.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::hooks::Hooks;

const CASES: &str = include_str!("cases.yaml");
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

#[derive(Deserialize)]
pub(crate) struct Table {
    /// Definitions that must be there first.
    definitions: Vec<Value>,
    cases: Vec<Case>,
    /// Webhooks that are refused or taken.
    configurations: Vec<Configured>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Labels of the namespace besides its own.
    #[serde(default)]
    labels: Map<String, Value>,
    /// Webhooks by path, with fields that differ from the usual ones.
    #[serde(default)]
    mutating: Vec<Value>,
    #[serde(default)]
    validating: Vec<Value>,
    /// Objects by path, made before there are webhooks.
    #[serde(default)]
    given: Vec<Given>,
    #[serde(default)]
    answers: Map<String, Value>,
    #[serde(default)]
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    path: String,
    object: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    request: Sent,
    code: u16,
    /// Parts that the answer must have.
    #[serde(default)]
    answer: Value,
    /// What the message must contain.
    #[serde(default)]
    says: String,
    #[serde(default)]
    warnings: Option<Vec<String>>,
    /// What webhooks are asked, in order: path, and parts that the request must have.
    #[serde(default)]
    asked: Vec<Value>,
    /// Whether those who judge are several, who are asked at once.
    #[serde(default)]
    in_any_order: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    method: String,
    path: String,
    #[serde(default)]
    body: Value,
    #[serde(default, rename = "type")]
    content_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configured {
    name: String,
    hook: Value,
    /// Fields that are wrong; none where it is taken.
    #[serde(default)]
    wrong: Vec<String>,
    /// Parts of the webhook as it is stored.
    #[serde(default)]
    stored: Value,
}

impl Table {
    pub(crate) fn read() -> Self {
        let mut documents = model::parse::to_json(CASES);
        serde_json::from_value(documents.remove(0).unwrap()).unwrap()
    }
}

struct Answered {
    code: u16,
    body: Value,
    warnings: Vec<String>,
}

async fn send(client: &Client, sent: &Sent) -> Answered {
    let patched = match sent.method.as_str() {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let kind = sent.content_type.as_deref().unwrap_or(patched);
    let body = match &sent.body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(Method::from_bytes(sent.method.as_bytes()).unwrap())
        .uri(&sent.path)
        .header(http::header::CONTENT_TYPE, kind)
        .header(http::header::ACCEPT, "application/json")
        .body(Body::from(body));
    let response = client.send(request.unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let warnings = parts.headers.get_all("warning").iter();
    let warnings = warnings.map(|w| {
        let text = w.to_str().unwrap();
        let text = text.strip_prefix("299 - \"").unwrap();
        text.strip_suffix('"').unwrap().to_owned()
    });
    Answered {
        code: parts.status.as_u16(),
        warnings: warnings.collect(),
        body: serde_json::from_slice(&body)
            .unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&body)})),
    }
}

async fn make(client: &Client, path: &str, object: Value) {
    let sent = Sent {
        method: "POST".to_owned(),
        path: path.to_owned(),
        body: object,
        content_type: None,
    };
    let answered = send(client, &sent).await;
    assert_eq!(answered.code, 201, "{path}: {}", answered.body);
}

/// Puts in what `{...}` stands for.
fn filled(value: &Value, hooks: &Hooks, case: &str) -> Value {
    let text = value.to_string();
    let text = text
        .replace("{ca}", &hooks.bundle)
        .replace("{other ca}", &hooks.other)
        .replace("{server}", &hooks.address.to_string())
        .replace("{case}", case);
    serde_json::from_str(&text).unwrap()
}

/// Whether all of `wanted` is in `found`; `ABSENT` stands for nothing.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (_, Value::Null) => found.is_null(),
        (_, Value::String(text)) if text == "ABSENT" => found.is_null(),
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| has(found.get(key).unwrap_or(&Value::Null), value)),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(f, w)| has(f, w))
        }
        (found, wanted) => found == wanted,
    }
}

/// A webhook with the usual fields, and those that differ.
fn hook(index: usize, differs: &Value, case: &str) -> Value {
    let mut hook = json!({
        "name": format!("h{index}.{case}.example.com"),
        "clientConfig": {"caBundle": "{ca}"},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"case": case}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    });
    for (field, value) in differs.as_object().unwrap() {
        match (field.as_str(), value) {
            ("path", Value::String(path)) => {
                hook["clientConfig"]["url"] = format!("https://{{server}}/{case}/{path}").into();
            }
            ("configuration", _) => {}
            (_, Value::Null) => _ = hook.as_object_mut().unwrap().remove(field),
            _ => hook[field] = value.clone(),
        }
    }
    hook
}

async fn configure(client: &Client, hooks: &Hooks, case: &Case, mutating: bool) {
    let (kind, plural, all) = match mutating {
        true => (
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            &case.mutating,
        ),
        false => (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            &case.validating,
        ),
    };
    // Those of one configuration stand together.
    let mut of: Vec<(String, Vec<Value>)> = Vec::new();
    for (index, differs) in all.iter().enumerate() {
        let name = differs["configuration"].as_str().unwrap_or("hooks");
        let made = hook(index, differs, &case.name);
        match of.iter_mut().find(|(known, _)| known == name) {
            Some((_, hooks)) => hooks.push(made),
            None => of.push((name.to_owned(), vec![made])),
        }
    }
    for (name, webhooks) in of {
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": format!("{}-{name}", case.name)}, "webhooks": webhooks});
        let object = filled(&object, hooks, &case.name);
        make(client, &format!("{GROUP}/{plural}"), object).await;
    }
}

/// Runs all cases; says what is not as the table says.
pub(crate) async fn run(
    client: &Client,
    hooks: &Hooks,
    table: &Table,
    late: Duration,
) -> Vec<String> {
    for definition in &table.definitions {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        make(client, path, definition.clone()).await;
    }
    tokio::time::sleep(late).await;
    for case in &table.cases {
        let mut labels = case.labels.clone();
        labels.insert("case".to_owned(), case.name.clone().into());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.name, "labels": labels}});
        make(client, "/api/v1/namespaces", namespace).await;
        for given in &case.given {
            let path = given.path.replace("{case}", &case.name);
            make(client, &path, filled(&given.object, hooks, &case.name)).await;
        }
    }
    for case in &table.cases {
        for (path, answer) in &case.answers {
            hooks.answer(&format!("/{}/{path}", case.name), answer.clone());
        }
        configure(client, hooks, case, true).await;
        configure(client, hooks, case, false).await;
    }
    tokio::time::sleep(late).await;
    let mut wrong = Vec::new();
    for case in &table.cases {
        hooks.asked(&format!("/{}/", case.name));
        for (index, step) in case.steps.iter().enumerate() {
            let mut sent: Value = json!({"body": step.request.body, "path": step.request.path});
            sent = filled(&sent, hooks, &case.name);
            let sent = Sent {
                method: step.request.method.clone(),
                path: sent["path"].as_str().unwrap().to_owned(),
                body: sent["body"].clone(),
                content_type: step.request.content_type.clone(),
            };
            let answered = send(client, &sent).await;
            let asked = hooks.asked(&format!("/{}/", case.name));
            let faults = compare(step, hooks, &case.name, &answered, &asked);
            wrong.extend(
                faults
                    .into_iter()
                    .map(|fault| format!("{} [{index}]: {fault}", case.name)),
            );
        }
    }
    for configured in &table.configurations {
        wrong.extend(configured_wrongly(client, hooks, configured).await);
    }
    wrong
}

fn compare(
    step: &Step,
    hooks: &Hooks,
    case: &str,
    answered: &Answered,
    asked: &[(String, Value)],
) -> Vec<String> {
    let mut faults = Vec::new();
    if answered.code != step.code {
        faults.push(format!("{}: {}", answered.code, answered.body));
    }
    let wanted = filled(&step.answer, hooks, case);
    if !wanted.is_null() && !has(&answered.body, &wanted) {
        faults.push(format!("{} has not {wanted}", answered.body));
    }
    let says = step.says.replace("{server}", &hooks.address.to_string());
    let message = answered.body["message"].as_str().unwrap_or_default();
    if !message.contains(&says) {
        faults.push(format!("{message:?} does not say {says:?}"));
    }
    if let Some(warnings) = step.warnings.as_ref().filter(|w| **w != answered.warnings) {
        faults.push(format!(
            "warnings {:?}, not {warnings:?}",
            answered.warnings
        ));
    }
    let mut asked = asked.to_vec();
    if step.in_any_order {
        asked.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let paths: Vec<&str> = asked
        .iter()
        .map(|(path, _)| path.rsplit('/').next().unwrap())
        .collect();
    let wanted: Vec<&str> = step
        .asked
        .iter()
        .map(|a| a["path"].as_str().unwrap())
        .collect();
    if paths != wanted {
        faults.push(format!("asked {paths:?}, not {wanted:?}"));
        return faults;
    }
    for ((path, review), wanted) in asked.iter().zip(&step.asked) {
        let mut wanted = filled(wanted, hooks, case);
        wanted.as_object_mut().unwrap().remove("path");
        let mut found = review["request"].clone();
        found["review"] = review["apiVersion"].clone();
        if !has(&found, &wanted) {
            faults.push(format!("{path} was asked {found}, which has not {wanted}"));
        }
    }
    faults
}

async fn configured_wrongly(client: &Client, hooks: &Hooks, case: &Configured) -> Vec<String> {
    let mut made = hook(0, &case.hook, &case.name);
    if made["clientConfig"].get("service").is_none() && case.hook.get("clientConfig").is_none() {
        made["clientConfig"]["url"] = "https://{server}/x".into();
    }
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": case.name}, "webhooks": [made]});
    let sent = Sent {
        method: "POST".to_owned(),
        // Nothing is left that other cases would meet.
        path: format!("{GROUP}/mutatingwebhookconfigurations?dryRun=All"),
        body: filled(&object, hooks, &case.name),
        content_type: None,
    };
    let answered = send(client, &sent).await;
    let code = if case.wrong.is_empty() { 201 } else { 422 };
    if answered.code != code {
        return vec![format!(
            "{}: {} {}",
            case.name, answered.code, answered.body
        )];
    }
    let mut faults = Vec::new();
    let causes = answered.body["details"]["causes"].as_array();
    let causes: Vec<&str> = causes
        .into_iter()
        .flatten()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    let wanted: Vec<String> = case
        .wrong
        .iter()
        .map(|field| format!("webhooks[0].{field}"))
        .collect();
    // One may say more of where than the other.
    let about = |field: &String| {
        let within = |c: &&str| c.starts_with(field.as_str()) || field.starts_with(*c);
        causes.iter().any(within)
    };
    if code == 422 && (!wanted.iter().all(about)) {
        faults.push(format!("{}: about {causes:?}, not {wanted:?}", case.name));
    }
    if !case.stored.is_null() && !has(&answered.body["webhooks"][0], &case.stored) {
        faults.push(format!(
            "{}: {} has not {}",
            case.name, answered.body, case.stored
        ));
    }
    faults
}

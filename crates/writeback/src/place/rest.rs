//! Requests of the Kubernetes API and what its answers mean.

use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ObjectRef, Page, Part, Place, WriteError};

/// The name under which managed fields record what we write.
pub const MANAGER: &str = "pilothouse";

/// How many objects are asked for at once.
const PAGE: usize = 100;

/// The longest text of an answer that is repeated in an error.
const LONGEST_MESSAGE: usize = 512;

/// The types of bodies.
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request, whichever way it travels.
#[derive(Debug)]
pub struct ApiRequest {
    /// The verb.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// The body, if it has one.
    pub body: Option<Value>,
    /// The type of the body.
    pub content: &'static str,
}

impl ApiRequest {
    pub(super) fn get(object: &ObjectRef) -> Self {
        Self {
            method: Method::GET,
            uri: path(object, true, None),
            body: None,
            content: JSON,
        }
    }

    pub(super) fn list(object: &ObjectRef, next: Option<&str>) -> Self {
        let everywhere = ObjectRef {
            namespace: "".into(),
            ..object.clone()
        };
        let mut uri = format!("{}?limit={PAGE}", path(&everywhere, false, None));
        if let Some(next) = next {
            uri.push_str("&continue=");
            uri.extend(next.bytes().map(escaped));
        }
        Self {
            method: Method::GET,
            uri,
            body: None,
            content: JSON,
        }
    }

    pub(super) fn create(object: &ObjectRef, value: Value) -> Self {
        Self {
            method: Method::POST,
            uri: with_manager(path(object, false, None)),
            body: Some(identified(object, value)),
            content: JSON,
        }
    }

    pub(super) fn try_create(object: &ObjectRef, value: Value) -> Self {
        let mut asked = Self::create(object, value);
        asked.uri.push_str("&dryRun=All");
        asked
    }

    pub(super) fn replace(object: &ObjectRef, part: Part, value: Value) -> Self {
        Self {
            method: Method::PUT,
            uri: with_manager(path(object, true, named(part))),
            body: Some(identified(object, value)),
            content: JSON,
        }
    }

    pub(super) fn apply(object: &ObjectRef, part: Part, value: Value, manager: &str) -> Self {
        let mut uri = path(object, true, named(part));
        uri.push_str("?force=true&fieldManager=");
        uri.extend(manager.bytes().map(escaped));
        Self {
            method: Method::PATCH,
            uri,
            body: Some(identified(object, value)),
            content: APPLY,
        }
    }

    pub(super) fn delete(object: &ObjectRef, version: Option<&str>) -> Self {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(version) = version {
            options["preconditions"] = json!({"resourceVersion": version});
        }
        Self {
            method: Method::DELETE,
            uri: path(object, true, None),
            body: Some(options),
            content: JSON,
        }
    }
}

/// What a part is called in paths.
fn named(part: Part) -> Option<&'static str> {
    match part {
        Part::Object => None,
        Part::Status => Some("status"),
        Part::Approval => Some("approval"),
    }
}

/// A way to an API: what is asked, and what the answer means, is the same on each.
pub trait Transport: Send + Sync + 'static {
    /// For people.
    fn name(&self) -> &str;

    /// Sends a request; the answer's value, or what it says instead.
    fn send(&self, asked: ApiRequest) -> BoxFuture<'_, Result<Value, WriteError>>;
}

async fn ask(
    way: &impl Transport,
    object: &ObjectRef,
    asked: ApiRequest,
) -> Result<Value, WriteError> {
    check(object)?;
    way.send(asked).await
}

impl<T: Transport> Place for T {
    fn name(&self) -> &str {
        Transport::name(self)
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, WriteError>> {
        Box::pin(async move {
            match ask(self, object, ApiRequest::get(object)).await {
                Err(WriteError::Missing) => Ok(None),
                other => other.map(Some),
            }
        })
    }

    fn list<'a>(
        &'a self,
        object: &'a ObjectRef,
        next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>> {
        Box::pin(async move {
            let list = self.send(ApiRequest::list(object, next)).await?;
            Ok(page(object, list))
        })
    }

    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(ask(self, object, ApiRequest::create(object, value)))
    }

    fn try_create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let asked = ApiRequest::try_create(object, value);
            ask(self, object, asked).await.map(|_| ())
        })
    }

    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(ask(self, object, ApiRequest::replace(object, part, value)))
    }

    fn apply<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
        manager: &'a str,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(ask(
            self,
            object,
            ApiRequest::apply(object, part, value, manager),
        ))
    }

    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let done = ask(self, object, ApiRequest::delete(object, version)).await;
            done.map(|_| ())
        })
    }
}

/// The path to an object, or to the collection that it belongs in.
fn path(object: &ObjectRef, named: bool, part: Option<&str>) -> String {
    let mut path = match &*object.group {
        "" => format!("/api/{}", object.version),
        group => format!("/apis/{group}/{}", object.version),
    };
    if !object.namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(&object.namespace);
    }
    path.push('/');
    path.push_str(&object.plural);
    if named {
        path.push('/');
        path.push_str(&object.name);
    }
    if let Some(part) = part {
        path.push('/');
        path.push_str(part);
    }
    path
}

/// A byte of a query.
fn escaped(byte: u8) -> String {
    match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    }
}

fn with_manager(path: String) -> String {
    format!("{path}?fieldManager={MANAGER}")
}

/// Whether a name can stand in a path as it is: every name that an API accepts can, but names also come from elsewhere.
pub(super) fn check(object: &ObjectRef) -> Result<(), WriteError> {
    let all = [&object.namespace, &object.name];
    let fits = |name: &str| {
        name.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    match all.into_iter().all(|n| fits(n)) && !matches!(&*object.name, "" | "." | "..") {
        true => Ok(()),
        false => Err(WriteError::Refused(format!(
            "{object} has a name that no API accepts"
        ))),
    }
}

fn api_version(object: &ObjectRef) -> String {
    match &*object.group {
        "" => object.version.to_string(),
        group => format!("{group}/{}", object.version),
    }
}

/// The value with the kind and the name that it is written under.
fn identified(object: &ObjectRef, mut value: Value) -> Value {
    if !value.is_object() {
        value = json!({});
    }
    value["apiVersion"] = api_version(object).into();
    value["kind"] = Value::from(&*object.kind);
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    value["metadata"]["name"] = Value::from(&*object.name);
    if !object.namespace.is_empty() {
        value["metadata"]["namespace"] = Value::from(&*object.namespace);
    }
    value
}

/// The object that an answer holds, or what it says instead.
pub fn answer(status: StatusCode, body: &[u8]) -> Result<Value, WriteError> {
    if status.is_success() {
        // What was asked for is done, and reading the object tells what became of it.
        return serde_json::from_slice(body)
            .map_err(|e| WriteError::Unavailable(format!("the answer is not JSON: {e}")));
    }
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |field: &str| told[field].as_str().unwrap_or_default();
    let message = match text("message") {
        "" => status.to_string(),
        message => shortened(message),
    };
    Err(match (status, text("reason")) {
        (StatusCode::CONFLICT, "AlreadyExists") => WriteError::Exists,
        (StatusCode::CONFLICT, _) => WriteError::Conflict,
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => WriteError::Missing,
        (StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS, _) => {
            WriteError::Unavailable(message)
        }
        // Credentials are renewed, and grants are given, while we run.
        (StatusCode::UNAUTHORIZED, _) => WriteError::Unavailable(message),
        (status, _) if status.is_server_error() => WriteError::Unavailable(message),
        _ => WriteError::Refused(message),
    })
}

/// The objects of a list, each with its kind, which lists leave out.
pub(super) fn page(object: &ObjectRef, mut list: Value) -> Page {
    let next = list["metadata"]["continue"].as_str().unwrap_or_default();
    let next = (!next.is_empty()).then(|| next.to_owned());
    let items = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let identified = items.into_iter().map(|mut item| {
        item["apiVersion"] = api_version(object).into();
        item["kind"] = Value::from(&*object.kind);
        item
    });
    Page {
        items: identified.collect(),
        next,
    }
}

/// What an API says, not longer than it may be repeated.
pub(super) fn shortened(message: &str) -> String {
    let mut message = message.to_owned();
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(namespace: &str) -> ObjectRef {
        ObjectRef {
            group: "networking.istio.io".into(),
            version: "v1".into(),
            kind: "ServiceEntry".into(),
            plural: "serviceentries".into(),
            namespace: namespace.into(),
            name: "a".into(),
        }
    }

    #[test]
    fn requests_name_the_object() {
        let asked = ApiRequest::replace(&object("shop"), Part::Status, json!({"status": {}}));
        assert_eq!(
            asked.uri,
            "/apis/networking.istio.io/v1/namespaces/shop/serviceentries/a/status?fieldManager=pilothouse"
        );
        assert_eq!(
            asked.body.unwrap(),
            json!({
                "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
                "metadata": {"name": "a", "namespace": "shop"}, "status": {},
            })
        );
        let core = ObjectRef {
            group: "".into(),
            ..object("")
        };
        assert_eq!(ApiRequest::get(&core).uri, "/api/v1/serviceentries/a");
        assert_eq!(
            ApiRequest::list(&object("shop"), Some("a b=")).uri,
            "/apis/networking.istio.io/v1/serviceentries?limit=100&continue=a%20b%3D"
        );
        let asked = ApiRequest::apply(&core, Part::Status, json!({}), "a.b/c d");
        assert_eq!(
            (asked.method, asked.uri.as_str(), asked.content),
            (
                Method::PATCH,
                "/api/v1/serviceentries/a/status?force=true&fieldManager=a.b%2Fc%20d",
                "application/apply-patch+yaml"
            )
        );
        let asked = ApiRequest::delete(&core, Some("7"));
        assert_eq!(asked.body.unwrap()["preconditions"]["resourceVersion"], "7");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for bad in ["", "..", "a/b", "a?b", "a%2fb"] {
            let object = ObjectRef {
                name: bad.into(),
                ..object("shop")
            };
            assert!(check(&object).is_err(), "{bad}");
        }
        assert!(check(&object("sh/op")).is_err());
        assert_eq!(check(&object("shop")), Ok(()));
    }

    #[test]
    fn answers_say_what_to_do() {
        let of = |code: u16, body: &str| {
            answer(StatusCode::from_u16(code).unwrap(), body.as_bytes()).unwrap_err()
        };
        assert_eq!(of(409, r#"{"reason":"Conflict"}"#), WriteError::Conflict);
        assert_eq!(of(409, r#"{"reason":"AlreadyExists"}"#), WriteError::Exists);
        assert_eq!(of(404, "404 page not found"), WriteError::Missing);
        assert_eq!(
            of(403, r#"{"message":"no"}"#),
            WriteError::Refused("no".to_owned())
        );
        for code in [401, 408, 429, 500, 503] {
            assert!(
                matches!(of(code, "x"), WriteError::Unavailable(_)),
                "{code}"
            );
        }
        assert!(matches!(of(200, "<html>"), WriteError::Unavailable(_)));
    }
}

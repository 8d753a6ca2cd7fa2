//! Reviews as they are sent and answered.
// Kubernetes: staging/src/k8s.io/api/admission/{v1,v1beta1}/types.go, 1.36; Istio: pkg/kube/adapter.go, 1.32.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// A version of AdmissionReview.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`, which is also answered where no version can be read.
    #[default]
    V1Beta1,
}

impl Version {
    /// As `apiVersion` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// What is done to the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// Something else.
    Other,
}

impl Operation {
    fn of(text: &str) -> Self {
        match text {
            "CREATE" => Self::Create,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// What is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The identity of the question, which the answer repeats.
    pub uid: String,
    /// The kind of the object.
    pub kind: String,
    /// Group, version and plural name of the resource.
    pub resource: [String; 3],
    /// What is done.
    pub operation: Operation,
    /// Namespace of the object; empty for objects of cluster scope.
    pub namespace: String,
    /// Name of the object; empty where it has none yet.
    pub name: String,
    /// The object as it is to be; null where it is to be deleted.
    pub object: Value,
    /// Whether nothing will be written.
    pub dry_run: bool,
}

/// A review that was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Review {
    /// The version it came in, and is answered in.
    pub version: Version,
    /// What is asked.
    pub request: Request,
}

/// Why a body is no review. Whoever sent it can act.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

impl Review {
    /// Reads a body.
    ///
    /// # Errors
    ///
    /// When it is no review, or asks nothing.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let bad = |why: String| Malformed(why);
        let mut review: Value = serde_json::from_slice(body)
            .map_err(|e| bad(format!("couldn't get version/kind; json parse error: {e}")))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
        let version = [Version::V1, Version::V1Beta1]
            .into_iter()
            .find(|version| version.name() == api_version && kind == "AdmissionReview");
        let version = version.ok_or_else(|| {
            bad(format!(
                "no kind {kind:?} is known in version {api_version:?}: an AdmissionReview of admission.k8s.io/v1 or v1beta1 is"
            ))
        })?;
        let request = review["request"].take();
        if !request.is_object() {
            return Err(bad("the review has no request".to_owned()));
        }
        Ok(Self {
            version,
            request: Request::of(request),
        })
    }

    /// The body of an answer. `None`: to a body that is no review.
    pub fn answer(asked: Option<&Self>, response: &Response) -> Vec<u8> {
        let mut said = Map::new();
        let uid = asked.map_or("", |review| &review.request.uid);
        said.insert("uid".to_owned(), uid.into());
        said.insert("allowed".to_owned(), response.allowed.into());
        if let Some(message) = &response.message {
            let status = json!({"metadata": {}, "message": message});
            said.insert("status".to_owned(), status);
        }
        if let Some(patch) = &response.patch {
            let patch = STANDARD.encode(patch.to_string());
            said.insert("patch".to_owned(), patch.into());
            said.insert("patchType".to_owned(), "JSONPatch".into());
        }
        if !response.warnings.is_empty() {
            said.insert("warnings".to_owned(), response.warnings.clone().into());
        }
        let mut review = json!({"response": said});
        if let Some(asked) = asked {
            review["kind"] = "AdmissionReview".into();
            review["apiVersion"] = asked.version.name().into();
        }
        review.to_string().into_bytes()
    }
}

impl Request {
    fn of(mut request: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = &request["resource"];
        Self {
            uid: text(&request["uid"]),
            kind: text(&request["kind"]["kind"]),
            resource: ["group", "version", "resource"].map(|part| text(&resource[part])),
            operation: Operation::of(request["operation"].as_str().unwrap_or_default()),
            namespace: text(&request["namespace"]),
            name: text(&request["name"]),
            dry_run: request["dryRun"] == true,
            object: request["object"].take(),
        }
    }
}

/// What is answered.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Response {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Why not, for whoever asked.
    pub message: Option<String>,
    /// Operations of a JSON patch (RFC 6902) that change the object.
    pub patch: Option<Value>,
    /// What there is to say all the same.
    pub warnings: Vec<String>,
}

impl Response {
    /// Yes.
    pub fn allowed() -> Self {
        Self {
            allowed: true,
            ..Self::default()
        }
    }

    /// No, for a reason.
    pub fn refused(message: impl Into<String>) -> Self {
        Self {
            message: Some(message.into()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(version: &str) -> Value {
        json!({"apiVersion": version, "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": "shop", "dryRun": true,
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": {"kind": "Pod"}}})
    }

    #[test]
    fn both_versions_are_read_and_answered_in_kind() {
        for version in [Version::V1, Version::V1Beta1] {
            let body = review(version.name()).to_string();
            let read = Review::read(body.as_bytes()).unwrap();
            assert_eq!(
                (read.version, read.request.operation),
                (version, Operation::Create)
            );
            assert_eq!(read.request.resource[2], "pods");
            assert!(read.request.dry_run);
            let answer = Review::answer(
                Some(&read),
                &Response {
                    patch: Some(json!([{"op": "remove", "path": "/a"}])),
                    warnings: vec!["w".to_owned()],
                    ..Response::allowed()
                },
            );
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["apiVersion"], version.name());
            assert_eq!(answer["response"]["uid"], "u");
            assert_eq!(answer["response"]["patchType"], "JSONPatch");
            assert_eq!(answer["response"]["warnings"], json!(["w"]));
            let patch = STANDARD
                .decode(answer["response"]["patch"].as_str().unwrap())
                .unwrap();
            assert_eq!(patch, br#"[{"op":"remove","path":"/a"}]"#);
        }
    }

    #[test]
    fn what_is_no_review_is_told() {
        for (body, why) in [
            ("", "json parse error"),
            ("[", "json parse error"),
            ("[]", "no kind"),
            ("{}", "no kind"),
            (
                r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview"}"#,
                "no kind",
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}"#,
                "no kind",
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
                "no request",
            ),
            (
                r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":[]}"#,
                "no request",
            ),
        ] {
            let fault = Review::read(body.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains(why), "{body}: {fault}");
        }
        let answer = Review::answer(None, &Response::refused("no"));
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["status"]["message"], "no");
        assert_eq!(answer["response"]["allowed"], false);
    }
}

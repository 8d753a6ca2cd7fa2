//! TokenReview: the question whether a token counts, and the answer.
//!
//! Istio: security/pkg/k8s/tokenreview/k8sauthn.go, 1.32.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::refusal::quoted;

/// The group of every service account.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// What an API server tells of the pod and the node that a token is bound to.
const POD: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE: &str = "authentication.kubernetes.io/node-name";

/// Somebody who can judge tokens.
pub trait Reviewer: Send + Sync {
    /// Whom a token, which came from an address, proves to one of these audiences.
    fn review<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        from: IpAddr,
    ) -> BoxFuture<'a, Result<Reviewed, ReviewError>>;
}

/// Why a token was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReviewError {
    /// The API server does not take it.
    #[error("{0}")]
    Rejected(Arc<str>),
    /// The API server does not answer, or not that. The operator's to settle, or time's.
    #[error("the token cannot be reviewed: {0}")]
    Unavailable(Arc<str>),
}

/// Whom a token proves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reviewed {
    /// The name of the user.
    pub user: String,
    /// Whether it is in the group of service accounts.
    pub is_service_account: bool,
    /// Those of the audiences that were asked for, for which the token is.
    pub audiences: Vec<String>,
    /// The pod that it is bound to; empty if none.
    pub pod: Arc<str>,
    /// The uid of that pod.
    pub pod_uid: Arc<str>,
    /// The node of that pod.
    pub node: Option<Arc<str>>,
}

/// The object that asks.
pub fn review_of(token: &str, audiences: &[String]) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "spec": {"token": token, "audiences": audiences},
    })
}

impl Reviewed {
    /// Reads the object that answers.
    ///
    /// # Errors
    ///
    /// When it says that the token does not count, or is no answer.
    pub fn read(review: &Value) -> Result<Self, ReviewError> {
        let status = &review["status"];
        if !status.is_object() {
            return Err(ReviewError::Unavailable("the answer has no status".into()));
        }
        let error = status["error"].as_str().unwrap_or_default();
        if !error.is_empty() {
            let why = format!("the API server says {}", quoted(error));
            return Err(ReviewError::Rejected(why.into()));
        }
        if status["authenticated"] != true {
            let why = "the API server does not take the token";
            return Err(ReviewError::Rejected(why.into()));
        }
        let user = &status["user"];
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let extra =
            |name: &str| -> Option<Arc<str>> { Some(user["extra"][name][0].as_str()?.into()) };
        Ok(Self {
            user: user["username"].as_str().unwrap_or_default().to_owned(),
            is_service_account: texts(&user["groups"]).iter().any(|g| g == SERVICE_ACCOUNTS),
            audiences: texts(&status["audiences"]),
            pod: extra(POD).unwrap_or_default(),
            pod_uid: extra(POD_UID).unwrap_or_default(),
            node: extra(NODE),
        })
    }
}

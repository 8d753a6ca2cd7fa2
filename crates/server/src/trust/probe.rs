//! Whether a bad object is refused: only then may validation fail closed, or nobody could write anything.

use std::sync::Arc;
use std::time::Duration;

use model::{Kind, ObjectName};
use serde_json::{Value, json};
use writeback::{ObjectRef, Place, WriteError};

use super::wish::REVISION;

/// How soon it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// A Gateway that no webhook of the revision lets pass: it says so, and its host has no meaning.
fn bad_gateway(revision: &str) -> Value {
    json!({
        "metadata": {
            "labels": {REVISION: revision},
            "annotations": {"internal.istio.io/webhook-always-reject": "true"},
        },
        "spec": {"servers": [{
            "port": {"number": 80, "name": "http", "protocol": "HTTP"},
            "hosts": ["*.*.invalid"],
        }]},
    })
}

/// Returns once an API has refused a bad object of a revision because of a webhook, or can refuse none.
pub(super) async fn refused(place: Arc<dyn Place>, namespace: &str, revision: &str) {
    let name = ObjectName::new(namespace, "pilothouse-invalid-gateway");
    let object = ObjectRef::of(Kind::Gateway, &name);
    let mut told = None;
    loop {
        let outcome = place.try_create(&object, bad_gateway(revision)).await;
        let why = match outcome {
            Err(WriteError::Refused(why)) if why.contains("denied the request") => {
                tracing::info!(
                    "A bad object was refused: objects are validated from now on even while no replica answers (failurePolicy: Fail)."
                );
                return;
            }
            // Istio: isDryRunOfInvalidConfigRejected, 1.32.
            Err(WriteError::Missing) => return,
            Err(WriteError::Refused(why)) if why.contains("does not support dry run") => {
                tracing::warn!(
                    why,
                    "Another webhook does not let validation be tried; it is taken to work."
                );
                return;
            }
            Ok(()) => "a bad object was not refused".to_owned(),
            Err(error) => format!("a bad object met with something else: {error}"),
        };
        if told.as_ref() != Some(&why) {
            tracing::info!(
                why,
                "Objects pass unvalidated while no replica answers (failurePolicy: Ignore)."
            );
            told = Some(why);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

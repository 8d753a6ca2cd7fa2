//! What objects are to hold of the roots, over what they hold.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The label of a revision.
pub(super) const REVISION: &str = "istio.io/rev";
/// How the names of webhooks end that inject sidecars.
pub(super) const INJECTOR: &str = "sidecar-injector.istio.io";
/// The signer of the ClusterTrustBundle.
const SIGNER: &str = "istio.io/istiod-ca";

/// What an object is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// A ConfigMap with a text under a key.
    Entry {
        /// The key.
        key: &'static str,
        /// The text.
        value: Arc<str>,
    },
    /// A ClusterTrustBundle with these roots.
    TrustBundle(Arc<str>),
    /// Webhooks of a revision that inject sidecars are called by these roots.
    Injectors {
        /// The revision.
        revision: Arc<str>,
        /// The roots.
        roots: Arc<str>,
    },
    /// Webhooks of a revision that validate are called by these roots.
    Validators {
        /// The revision.
        revision: Arc<str>,
        /// The roots.
        roots: Arc<str>,
        /// Whether objects are refused while nobody answers.
        fail: bool,
    },
}

impl writeback::objects::Wish for Wish {
    fn over(&self, now: Option<&Value>) -> Option<Value> {
        let mut next = now.cloned().unwrap_or_else(|| json!({}));
        match self {
            Self::Entry { key, value } => {
                if now.is_none() {
                    next["metadata"] = json!({"labels": {"istio.io/config": "true"}});
                }
                if !next["data"].is_object() {
                    next["data"] = json!({});
                }
                next["data"][*key] = Value::from(&**value);
            }
            Self::TrustBundle(roots) => {
                if now.is_none() {
                    next["spec"] = json!({"signerName": SIGNER});
                }
                next["spec"]["trustBundle"] = Value::from(&**roots);
            }
            Self::Injectors { revision, roots } => {
                let bundle = STANDARD.encode(roots.as_bytes());
                for webhook in webhooks(&mut next, revision) {
                    if webhook["name"]
                        .as_str()
                        .is_some_and(|n| n.ends_with(INJECTOR))
                    {
                        webhook["clientConfig"]["caBundle"] = bundle.as_str().into();
                    }
                }
            }
            Self::Validators {
                revision,
                roots,
                fail,
            } => {
                let bundle = STANDARD.encode(roots.as_bytes());
                for webhook in webhooks(&mut next, revision) {
                    webhook["clientConfig"]["caBundle"] = bundle.as_str().into();
                    if *fail {
                        webhook["failurePolicy"] = "Fail".into();
                    }
                }
            }
        }
        let made = matches!(self, Self::Entry { .. } | Self::TrustBundle(_));
        match now {
            Some(now) if *now == next => None,
            // Who deletes a webhook configuration wants none.
            None if !made => None,
            _ => {
                if let Some(metadata) = next["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
                Some(next)
            }
        }
    }
}

/// The webhooks of a configuration; none if it is of another revision by now.
fn webhooks<'v>(object: &'v mut Value, revision: &str) -> impl Iterator<Item = &'v mut Value> {
    let ours = object["metadata"]["labels"][REVISION] == revision;
    let all = object["webhooks"].as_array_mut().filter(|_| ours);
    all.into_iter().flatten()
}

#[cfg(test)]
mod tests;

//! Secrets of the type `kubernetes.io/service-account-token`: what Kubernetes' controller puts into them is put in when they are
//! written. The token is good for a year, at this API, and as long as the Secret and the account are there; a Secret from which
//! it is taken gets another when it is written.
//!
//! Kubernetes: pkg/controller/serviceaccount/tokens_controller.go, 1.36, whose tokens do not expire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Api, Call};
use crate::access::service_accounts::{Bound, BoundKind, LONGEST_LIFE, Wanted};
use crate::object::{is_terminating, map_mut, meta, meta_mut};
use crate::pki::Files;
use crate::status::{Cause, Failure};

/// The type of such Secrets.
pub(crate) const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

impl Api {
    /// Puts in what a Secret for a token lacks.
    pub(super) async fn fill_token(
        &self,
        call: &Call<'_>,
        secret: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Failure> {
        if !call.resource.is("", "secrets") || secret["type"] != TYPE || is_terminating(secret) {
            return Ok(());
        }
        let name = secret["metadata"]["annotations"][NAME].as_str();
        let Some(name) = name.filter(|name| !name.is_empty()).map(str::to_owned) else {
            let cause = Cause::required(format!("metadata.annotations[{NAME}]"), "");
            let secret = meta(secret, "name");
            return Err(Failure::invalid(&call.resource, secret, vec![cause]));
        };
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let account = self.core_object("serviceaccounts", namespace, &name);
        let Some(account) = account.filter(|account| !is_terminating(account)) else {
            warnings.push(format!(
                "there is no service account {name}: write this Secret again once it exists, and it gets a token"
            ));
            return Ok(());
        };
        let uid = meta(&account, "uid").to_owned();
        let annotations = meta_mut(secret).entry("annotations").or_insert(json!({}));
        map_mut(annotations).insert(UID.to_owned(), uid.as_str().into());
        if lacks(secret, "token") && !call.dry_run {
            let wanted = Wanted {
                namespace: namespace.to_owned(),
                account: name,
                uid,
                audiences: vec![self.service_accounts().issuer().to_owned()],
                seconds: LONGEST_LIFE,
                bound: Some(Bound {
                    kind: BoundKind::Secret,
                    name: meta(secret, "name").to_owned(),
                    uid: meta(secret, "uid").to_owned(),
                }),
                node: None,
            };
            let issued = self.service_accounts().issue(&wanted).await;
            let (token, _) = issued.map_err(super::tokens::no_keys)?;
            put(secret, "token", token.as_bytes());
        }
        if lacks(secret, "namespace") {
            put(secret, "namespace", namespace.as_bytes());
        }
        if lacks(secret, "ca.crt") {
            // Where the API is served without TLS there is none.
            let file = Files::of(self.store.folder()).ca();
            if let Ok(root) = tokio::fs::read(file).await {
                put(secret, "ca.crt", &root);
            }
        }
        Ok(())
    }
}

fn lacks(secret: &Value, key: &str) -> bool {
    secret["data"][key].as_str().is_none_or(str::is_empty)
}

fn put(secret: &mut Value, key: &str, value: &[u8]) {
    let data = map_mut(secret).entry("data").or_insert(json!({}));
    map_mut(data).insert(key.to_owned(), STANDARD.encode(value).into());
}

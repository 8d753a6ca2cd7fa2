//! One request with the API: made, approved, waited for, and deleted whatever became of it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use writeback::{ObjectRef, Part, Place, WriteError};

use crate::certificate::hex;
use crate::signer::SignError;

/// How soon it is looked again whether a signer has signed, at first and at most.
const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(2);

/// The shortest time that the API lets a certificate be valid.
const SHORTEST: Duration = Duration::from_secs(600);

/// A request with the API.
pub(super) struct Exchange {
    pub(super) place: Arc<dyn Place>,
    /// The full name of the signer.
    pub(super) signer: Arc<str>,
    /// PEM.
    pub(super) csr: String,
    pub(super) ttl: Option<Duration>,
    /// For people who read approvals.
    pub(super) sans: Vec<Arc<str>>,
    pub(super) patience: Duration,
}

impl Exchange {
    /// The certificates that were signed, in PEM.
    pub(super) async fn run(self) -> Result<Vec<u8>, SignError> {
        let object = self.reference()?;
        let told = |error: WriteError| SignError::Failed(format!("{object}: {error}"));
        let signed = async {
            let created = self
                .place
                .create(&object, self.value())
                .await
                .map_err(told)?;
            let approved = self.approved(created);
            let part = Part::Approval;
            self.place
                .replace(&object, part, approved)
                .await
                .map_err(told)?;
            self.wait(&object).await
        };
        let signed = tokio::time::timeout(self.patience, signed).await;
        // A request whose making was not answered may be there as well.
        match self.place.delete(&object, None).await {
            Ok(()) | Err(WriteError::Missing) => {}
            Err(error) => tracing::warn!(%object, %error, "A signing request stays behind."),
        }
        signed.unwrap_or_else(|_| {
            let (signer, patience) = (&self.signer, self.patience);
            Err(SignError::Failed(format!(
                "{signer} has not signed within {patience:?}"
            )))
        })
    }

    fn reference(&self) -> Result<ObjectRef, SignError> {
        let mut bytes = [0; 10];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|e| SignError::Failed(e.to_string()))?;
        Ok(ObjectRef {
            group: "certificates.k8s.io".into(),
            version: "v1".into(),
            kind: "CertificateSigningRequest".into(),
            plural: "certificatesigningrequests".into(),
            namespace: "".into(),
            name: format!("csr-workload-{}", hex(&bytes)).into(),
        })
    }

    fn value(&self) -> Value {
        let mut spec = json!({
            "request": STANDARD.encode(&self.csr),
            "signerName": &*self.signer,
            "usages": ["digital signature", "key encipherment", "server auth", "client auth"],
        });
        if let Some(ttl) = self.ttl {
            spec["expirationSeconds"] = ttl.max(SHORTEST).as_secs().into();
        }
        json!({ "spec": spec })
    }

    fn approved(&self, mut object: Value) -> Value {
        let message = format!("pilothouse has authenticated {}", self.sans.join(", "));
        let condition = json!({
            "type": "Approved", "status": "True", "reason": "AuthenticatedByPilothouse", "message": message,
        });
        object["status"]["conditions"] = json!([condition]);
        object
    }

    async fn wait(&self, object: &ObjectRef) -> Result<Vec<u8>, SignError> {
        let mut pause = SOON;
        loop {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LATE);
            match self.place.get(object).await {
                Ok(Some(now)) => {
                    if let Some(outcome) = self.outcome(&now) {
                        return outcome;
                    }
                }
                Ok(None) => return Err(SignError::Failed(format!("{object} was deleted"))),
                // It may answer the next time.
                Err(WriteError::Unavailable(_)) => {}
                Err(error) => return Err(SignError::Failed(format!("{object}: {error}"))),
            }
        }
    }

    /// What became of the request; `None` as long as nothing has.
    fn outcome(&self, object: &Value) -> Option<Result<Vec<u8>, SignError>> {
        let status = &object["status"];
        if let Some(signed) = status["certificate"].as_str().filter(|s| !s.is_empty()) {
            let read = STANDARD.decode(signed);
            return Some(read.map_err(|e| SignError::Failed(e.to_string())));
        }
        let conditions = status["conditions"].as_array()?;
        let ended = |c: &&Value| matches!(c["type"].as_str(), Some("Denied" | "Failed"));
        let condition = conditions.iter().find(ended)?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let (signer, kind, message) = (&self.signer, text("type"), text("message"));
        Some(Err(SignError::Failed(format!(
            "{signer}: {kind}: {message}"
        ))))
    }
}

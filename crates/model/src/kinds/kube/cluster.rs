//! Webhook configurations and `CustomResourceDefinition`: nothing is generated from them, analysis reads them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kinds::gateway_api::LabelSelector;
use crate::kinds::kube::config::Base64;

/// Webhooks that change objects.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MutatingWebhookConfiguration {
    /// Webhooks, in the order written.
    pub webhooks: Vec<Webhook>,
}

/// Webhooks that judge objects.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValidatingWebhookConfiguration {
    /// Webhooks, in the order written.
    pub webhooks: Vec<Webhook>,
}

/// A webhook of either sort.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Webhook {
    /// Its name.
    pub name: Arc<str>,
    /// Who is called.
    pub client_config: WebhookClient,
    /// Namespaces whose objects it sees; all where absent.
    pub namespace_selector: Option<LabelSelector>,
    /// Objects that it sees; all where absent.
    pub object_selector: Option<LabelSelector>,
    /// What happens to objects while nobody answers: `Fail` or `Ignore`.
    pub failure_policy: Option<Arc<str>>,
}

/// How a webhook is called.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookClient {
    /// By URL.
    pub url: Option<Arc<str>>,
    /// By Service.
    pub service: Option<WebhookService>,
    /// The roots that its certificate is judged by, in PEM.
    pub ca_bundle: Base64,
}

/// The Service of a webhook.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookService {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// What a CustomResourceDefinition defines.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinition {
    /// The API group.
    pub group: Arc<str>,
    /// Names of the kind.
    pub names: DefinitionNames,
}

/// The names of a defined kind.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefinitionNames {
    /// As in `kind:`.
    pub kind: Arc<str>,
}

//! Limits of webhook configurations.
// Kubernetes: pkg/apis/admissionregistration/validation, 1.36.

mod conditions;

use model::Kind;

use super::kubernetes::PORT;
use super::limits::Limit::{
    self, Between, Choice, Entries, Form, Length, Needs, OneOf, Other, Unique,
};
use super::metadata::check_labels;
use super::shape::Row::{self, Has, Is, Only};
use super::shape::Spec;

use conditions as c;

/// The shape of each kind, and where it stands.
pub(super) const SPECS: &[(Kind, &str, Spec)] = &[
    (Kind::MutatingWebhook, "Webhooks", Spec::None),
    (Kind::ValidatingWebhook, "Webhooks", Spec::None),
];

const SOME: Limit = Length(1, usize::MAX);
const AT_LEAST_ONE: Limit = Entries(1, usize::MAX);
const ALONE: Limit = Other(c::wildcard_alone);

pub(super) const ROWS: &[(&str, &str, Row)] = &[
    ("Webhooks", "webhooks", Has(Unique("name"))),
    ("Webhooks", "webhooks[]", Is("Webhook")),
    (
        "Webhook",
        "",
        Only(&[
            "name",
            "clientConfig",
            "rules",
            "failurePolicy",
            "matchPolicy",
            "namespaceSelector",
            "objectSelector",
            "sideEffects",
            "timeoutSeconds",
            "admissionReviewVersions",
            "matchConditions",
            "reinvocationPolicy",
        ]),
    ),
    (
        "Webhook",
        "",
        Has(Needs(&[
            "name",
            "clientConfig",
            "sideEffects",
            "admissionReviewVersions",
        ])),
    ),
    (
        "Webhook",
        "name",
        Has(Form(
            c::is_webhook_name,
            "the name of a webhook, which has three parts or more",
        )),
    ),
    ("Webhook", "sideEffects", Has(SOME)),
    (
        "Webhook",
        "sideEffects",
        Has(Choice(&["None", "NoneOnDryRun"])),
    ),
    ("Webhook", "failurePolicy", Has(SOME)),
    ("Webhook", "failurePolicy", Has(Choice(&["Ignore", "Fail"]))),
    ("Webhook", "matchPolicy", Has(SOME)),
    (
        "Webhook",
        "matchPolicy",
        Has(Choice(&["Exact", "Equivalent"])),
    ),
    ("Webhook", "reinvocationPolicy", Has(SOME)),
    (
        "Webhook",
        "reinvocationPolicy",
        Has(Choice(&["Never", "IfNeeded"])),
    ),
    ("Webhook", "timeoutSeconds", Has(Between(1.0, 30.0))),
    ("Webhook", "admissionReviewVersions", Has(AT_LEAST_ONE)),
    (
        "Webhook",
        "admissionReviewVersions",
        Has(Other(c::review_versions)),
    ),
    ("Webhook", "clientConfig", Has(OneOf(&["url", "service"]))),
    ("Webhook", "clientConfig", Has(Other(c::client))),
    ("Webhook", "clientConfig", Is("WebhookClient")),
    ("Webhook", "namespaceSelector", Is("WebhookSelector")),
    ("Webhook", "objectSelector", Is("WebhookSelector")),
    ("Webhook", "rules[]", Is("WebhookRule")),
    ("Webhook", "matchConditions", Has(Entries(0, 64))),
    ("Webhook", "matchConditions", Has(Unique("name"))),
    ("Webhook", "matchConditions[]", Is("WebhookCondition")),
    (
        "WebhookClient",
        "service",
        Has(Needs(&["namespace", "name"])),
    ),
    ("WebhookClient", "url", Has(Other(c::url))),
    ("WebhookClient", "service", Is("WebhookService")),
    ("WebhookService", "name", Has(SOME)),
    ("WebhookService", "namespace", Has(SOME)),
    ("WebhookService", "port", Has(PORT)),
    ("WebhookService", "path", Has(Other(c::service_path))),
    ("WebhookSelector", "matchLabels", Has(Other(check_labels))),
    (
        "WebhookSelector",
        "matchExpressions[]",
        Has(Other(c::requirement)),
    ),
    (
        "WebhookRule",
        "",
        Has(Needs(&[
            "operations",
            "apiGroups",
            "apiVersions",
            "resources",
        ])),
    ),
    ("WebhookRule", "operations", Has(AT_LEAST_ONE)),
    ("WebhookRule", "operations", Has(ALONE)),
    (
        "WebhookRule",
        "operations[]",
        Has(Choice(&["*", "CREATE", "UPDATE", "DELETE", "CONNECT"])),
    ),
    ("WebhookRule", "operations[]", Has(SOME)),
    ("WebhookRule", "apiGroups", Has(AT_LEAST_ONE)),
    ("WebhookRule", "apiGroups", Has(ALONE)),
    ("WebhookRule", "apiVersions", Has(AT_LEAST_ONE)),
    ("WebhookRule", "apiVersions", Has(ALONE)),
    ("WebhookRule", "apiVersions[]", Has(SOME)),
    ("WebhookRule", "resources", Has(AT_LEAST_ONE)),
    ("WebhookRule", "resources", Has(Other(c::resources))),
    ("WebhookRule", "resources[]", Has(SOME)),
    ("WebhookRule", "scope", Has(SOME)),
    (
        "WebhookRule",
        "scope",
        Has(Choice(&["*", "Cluster", "Namespaced"])),
    ),
    ("WebhookCondition", "", Has(Needs(&["name", "expression"]))),
    (
        "WebhookCondition",
        "name",
        Has(Form(c::is_condition_name, "a condition")),
    ),
    ("WebhookCondition", "expression", Has(Other(c::expression))),
];

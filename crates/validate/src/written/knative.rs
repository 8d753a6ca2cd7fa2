//! Limits of Knative's Ingress. What its values mean together is for `rules`.

use model::Kind;

use super::limits::Limit::{Between, Choice, Needs};
use super::shape::Row::{self, Has, Is};
use super::shape::Spec;

pub(super) const SPECS: &[(Kind, &str, Spec)] =
    &[(Kind::KnativeIngress, "KnativeIngress", Spec::Needed)];

pub(super) const ROWS: &[(&str, &str, Row)] = &[
    ("KnativeIngress", "", Has(Needs(&["rules"]))),
    ("KnativeIngress", "tls[]", Is("KnativeTls")),
    ("KnativeIngress", "rules[]", Is("KnativeRule")),
    (
        "KnativeIngress",
        "httpOption",
        Has(Choice(&["Enabled", "Redirected"])),
    ),
    (
        "KnativeTls",
        "",
        Has(Needs(&["secretName", "secretNamespace"])),
    ),
    ("KnativeRule", "", Has(Needs(&["http"]))),
    (
        "KnativeRule",
        "visibility",
        Has(Choice(&["ExternalIP", "ClusterLocal"])),
    ),
    ("KnativeRule", "http", Is("KnativePaths")),
    ("KnativePaths", "", Has(Needs(&["paths"]))),
    ("KnativePaths", "paths[]", Is("KnativePath")),
    ("KnativePath", "", Has(Needs(&["splits"]))),
    ("KnativePath", "headers[]", Is("KnativeHeader")),
    ("KnativePath", "splits[]", Is("KnativeSplit")),
    ("KnativeHeader", "", Has(Needs(&["exact"]))),
    (
        "KnativeSplit",
        "",
        Has(Needs(&["serviceNamespace", "serviceName", "servicePort"])),
    ),
    ("KnativeSplit", "percent", Has(Between(0.0, 100.0))),
];

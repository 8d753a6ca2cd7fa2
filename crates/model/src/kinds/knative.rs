//! Knative's Ingress: what Knative asks of whoever carries its traffic.
//!
//! Its JSON is that of Go types that are not ours, so that it has Rust types. Defaults are left out here, as in what is
//! written: the hash by which Knative's probes know a version of an Ingress is that of its JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kube::IntOrString;

/// What requests for hosts become: which Services they are shared out to. Served where the annotation
/// `networking.knative.dev/ingress.class` names a class of `--knative-ingress-class`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Ingress {
    /// Certificates.
    pub tls: Vec<IngressTls>,
    /// Rules by host.
    pub rules: Vec<IngressRule>,
    /// What becomes of plain text for hosts that are reached from outside: `Enabled` serves it as HTTPS, `Redirected` sends
    /// clients to HTTPS. `Enabled` where absent.
    pub http_option: Arc<str>,
}

/// A certificate and the hosts that it is for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct IngressTls {
    /// The hosts.
    pub hosts: Vec<Arc<str>>,
    /// The Secret.
    pub secret_name: Arc<str>,
    /// The namespace of the Secret.
    pub secret_namespace: Arc<str>,
}

/// What requests for some hosts become.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct IngressRule {
    /// The hosts.
    pub hosts: Vec<Arc<str>>,
    /// Who reaches them: everybody through gateways (`ExternalIP`), or the cluster alone (`ClusterLocal`). `ExternalIP`
    /// where absent.
    pub visibility: Arc<str>,
    /// Where their paths lead.
    pub http: Option<IngressPaths>,
}

/// Paths; the first that matches a request counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct IngressPaths {
    /// The paths.
    pub paths: Vec<IngressPath>,
}

/// Which requests go where.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct IngressPath {
    /// How paths of requests begin; every path where absent.
    pub path: Arc<str>,
    /// The host that Services see in place of that of the request.
    pub rewrite_host: Arc<str>,
    /// Headers that requests have, by name.
    pub headers: BTreeMap<Arc<str>, HeaderMatch>,
    /// The Services that requests are shared out to.
    pub splits: Vec<IngressSplit>,
    /// Headers that all requests get.
    pub append_headers: BTreeMap<Arc<str>, Arc<str>>,
}

/// What a header is compared with.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HeaderMatch {
    /// The whole value.
    pub exact: Arc<str>,
}

/// A share of requests and the Service that it goes to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct IngressSplit {
    /// The namespace of the Service, which is that of the Ingress.
    pub service_namespace: Arc<str>,
    /// The Service.
    pub service_name: Arc<str>,
    /// Its port, by number or name.
    pub service_port: Option<IntOrString>,
    /// How many of a hundred requests. All where it is the only one and states none.
    pub percent: i32,
    /// Headers that these requests get.
    pub append_headers: BTreeMap<Arc<str>, Arc<str>>,
}

/// Who reaches the hosts of a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Visibility {
    /// Everybody, through gateways.
    ExternalIp,
    /// The cluster alone.
    ClusterLocal,
}

impl IngressRule {
    /// Who reaches the hosts; `None` where what is stated is not known, so that nobody does.
    pub fn reached_by(&self) -> Option<Visibility> {
        match &*self.visibility {
            "" | "ExternalIP" => Some(Visibility::ExternalIp),
            "ClusterLocal" => Some(Visibility::ClusterLocal),
            _ => None,
        }
    }
}

impl Ingress {
    /// Every host that it names, with who reaches it.
    pub fn hosts(&self) -> BTreeSet<(Visibility, Arc<str>)> {
        let known = self.rules.iter().filter_map(|rule| {
            let visibility = rule.reached_by()?;
            Some(
                rule.hosts
                    .iter()
                    .map(move |host| (visibility, host.clone())),
            )
        });
        known.flatten().collect()
    }
}

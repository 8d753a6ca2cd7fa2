//! `pilothouse permissions`: the roles that a server needs in a Kubernetes API.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use server::permissions::{Feature, Reach, rules};

use crate::yaml::write_yaml;

/// The API group of roles.
const GROUP: &str = "rbac.authorization.k8s.io";

/// `pilothouse permissions`.
#[derive(Args)]
pub(crate) struct PermissionsOptions {
    /// Namespace of the control plane.
    #[arg(
        long,
        short = 'n',
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "istio-system"
    )]
    namespace: String,

    /// The service account that gets the roles, in that namespace. Default: pilothouse, or with --remote
    /// istio-reader-service-account.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,

    /// What the server is to do. Each takes rights of its own.
    #[arg(
        long,
        value_name = "FEATURE",
        value_delimiter = ',',
        default_value = "reading,reviews,roots,webhooks,statuses,deployments,ca"
    )]
    features: Vec<Feature>,

    /// For a cluster that a control plane in another one reads: the roles of its service account there.
    #[arg(long)]
    remote: bool,

    /// The rules of every feature, as the chart has them.
    #[arg(long, hide = true, conflicts_with_all = ["remote", "features"])]
    table: bool,
}

/// Prints roles with their bindings.
pub(crate) fn run(options: &PermissionsOptions, out: &mut impl Write) -> anyhow::Result<()> {
    if options.table {
        write_yaml(out, &table(), 0)?;
        return Ok(());
    }
    let (account, reaches) = match options.remote {
        true => ("istio-reader-service-account", &[Reach::Remote][..]),
        false => ("pilothouse", &[Reach::Cluster, Reach::Namespace][..]),
    };
    let account = options.service_account.as_deref().unwrap_or(account);
    for (at, reach) in reaches.iter().enumerate() {
        let features = options.features.iter();
        let rules: Vec<Value> = features.flat_map(|f| granted(*reach, *f)).collect();
        if rules.is_empty() {
            continue;
        }
        if at > 0 {
            writeln!(out, "---")?;
        }
        let (role, binding) = bound(*reach, account, &options.namespace, rules);
        write_yaml(out, &role, 0)?;
        writeln!(out, "---")?;
        write_yaml(out, &binding, 0)?;
    }
    Ok(())
}

fn granted(reach: Reach, feature: Feature) -> impl Iterator<Item = Value> {
    rules(reach, feature).into_iter().map(|rule| rule.json())
}

/// The rules of the configured cluster, by reach and feature.
fn table() -> Value {
    let by_feature = |reach| {
        let mut features = Map::new();
        for feature in Feature::value_variants() {
            let rules: Vec<Value> = granted(reach, *feature).collect();
            if let Some(name) = feature.to_possible_value().filter(|_| !rules.is_empty()) {
                features.insert(name.get_name().to_owned(), rules.into());
            }
        }
        features
    };
    json!({"cluster": by_feature(Reach::Cluster), "namespace": by_feature(Reach::Namespace)})
}

/// A role with these rules, and what binds the account to it.
fn bound(reach: Reach, account: &str, namespace: &str, rules: Vec<Value>) -> (Value, Value) {
    let (scope, metadata) = match reach {
        Reach::Namespace => ("", json!({"name": account, "namespace": namespace})),
        Reach::Cluster | Reach::Remote => {
            ("Cluster", json!({"name": format!("{account}-{namespace}")}))
        }
    };
    let kind = format!("{scope}Role");
    let role = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata, "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": format!("{scope}RoleBinding"), "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    });
    (role, binding)
}

//! `pilothouse create-remote-secret`: how another control plane reaches a cluster, as a Secret.
//!
//! Istio: istioctl/pkg/multicluster/remote_secret.go, 1.32.

mod access;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{Cluster, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::yaml::write_yaml;
use access::Access;

/// `pilothouse create-remote-secret`.
#[derive(Args)]
pub(crate) struct RemoteSecretOptions {
    /// Kubeconfig of the cluster that is to be read. Default: $KUBECONFIG, or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; by default its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The cluster's id, under which proxies and objects name it. Default: the UID of its namespace kube-system.
    #[arg(long, value_name = "ID")]
    name: Option<String>,

    /// Namespace of the service account, and of the Secret that is printed.
    #[arg(
        long,
        short = 'n',
        alias = "istioNamespace",
        value_name = "NAMESPACE",
        default_value = "istio-system"
    )]
    namespace: String,

    /// The service account whose rights the Secret gives. Default: istio-reader-service-account with --type remote, istiod with
    /// --type config.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,

    /// Create the service account if it is missing: the namespace, the account and, with --type remote, the right to read.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    create_service_account: bool,

    /// The Secret of the service account that holds its token, where it has several.
    #[arg(long, value_name = "NAME")]
    secret_name: Option<String>,

    /// Ask for a token that expires after this time, in place of one that is good as long as its Secret. Print the Secret anew
    /// before then; a changed token disturbs nothing.
    #[arg(long, value_name = "DURATION", value_parser = server::config::duration, conflicts_with = "secret_name")]
    token_duration: Option<Duration>,

    /// What the Secret is for.
    #[arg(long = "type", value_name = "TYPE", default_value = "remote")]
    purpose: Purpose,

    /// Have the cluster's Ingresses of this class served, and their status written there. Comma-separated.
    #[arg(long, value_name = "CLASS")]
    ingress_class: Option<String>,

    /// URL of the cluster's API server as the control plane reaches it. Default: that of the kubeconfig.
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// The name in the certificate of the API server, where it is not that of the URL.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// How the control plane authenticates itself.
    #[arg(long, value_name = "TYPE", default_value = "bearer-token")]
    auth_type: AuthType,

    /// The authentication plugin, with --auth-type plugin. The control plane has to allow it.
    #[arg(long, value_name = "NAME", required_if_eq("auth_type", "plugin"))]
    auth_plugin_name: Option<String>,

    /// Settings of the plugin.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = pair)]
    auth_plugin_config: Vec<(String, String)>,
}

/// What a Secret is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Purpose {
    /// A control plane in another cluster reads this one.
    Remote,
    /// A control plane outside is configured from this cluster.
    Config,
}

/// How a control plane authenticates itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum AuthType {
    /// By the token of a service account.
    BearerToken,
    /// By a plugin.
    Plugin,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Prints the Secret, and says on `log` what the operator should know.
pub(crate) async fn run(
    options: RemoteSecretOptions,
    out: &mut impl Write,
    log: &mut impl Write,
) -> anyhow::Result<()> {
    let (client, cluster) = options.connect().await?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => cluster_uid(&client).await?,
    };
    ensure!(
        is_label(&name),
        "{name:?} is no id of a cluster: at most 63 of a-z, 0-9 and -, not - at the ends (--name)"
    );
    let server = match &options.server {
        Some(server) => server.clone(),
        None => of_kubeconfig(&cluster, log)?,
    };
    let access = access::find(&client, &options, log).await?;
    let kubeconfig = options.remote_kubeconfig(&name, &server, &cluster, &access);
    out.write_all(&options.secret(&name, &kubeconfig)?)?;
    Ok(())
}

impl RemoteSecretOptions {
    /// A client of the cluster, and what the kubeconfig says of it.
    async fn connect(&self) -> anyhow::Result<(Client, Cluster)> {
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let mut kubeconfig = kubeconfig.context("cannot read the kubeconfig (--kubeconfig)")?;
        if let Some(context) = &self.context {
            kubeconfig.current_context = Some(context.clone());
        }
        let current = kubeconfig.current_context.as_deref().unwrap_or_default();
        let context = kubeconfig.contexts.iter().find(|c| c.name == current);
        let context = context.and_then(|c| c.context.as_ref());
        let context = context
            .with_context(|| format!("the kubeconfig has no context {current:?} (--context)"))?;
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|c| c.name == context.cluster);
        let cluster = cluster.and_then(|c| c.cluster.clone());
        let cluster = cluster
            .with_context(|| format!("the kubeconfig has no cluster {:?}", context.cluster))?;
        let client = kubernetes::client::connect(kubeconfig).await?;
        Ok((client, cluster))
    }

    fn service_account(&self) -> &str {
        match (&self.service_account, self.purpose) {
            (Some(name), _) => name,
            (None, Purpose::Remote) => "istio-reader-service-account",
            (None, Purpose::Config) => "istiod",
        }
    }

    /// The kubeconfig that the Secret holds.
    fn remote_kubeconfig(
        &self,
        name: &str,
        server: &str,
        cluster: &Cluster,
        access: &Access,
    ) -> Value {
        let mut reached = json!({"server": server});
        if let Some(roots) = &access.roots {
            reached["certificate-authority-data"] = roots.as_str().into();
        }
        let tls_name = self.tls_server_name.as_ref();
        if let Some(tls_name) = tls_name.or(cluster.tls_server_name.as_ref()) {
            reached["tls-server-name"] = tls_name.as_str().into();
        }
        let user = match self.auth_type {
            AuthType::BearerToken => json!({"token": access.token}),
            AuthType::Plugin => {
                let config: BTreeMap<_, _> = self.auth_plugin_config.iter().cloned().collect();
                json!({"auth-provider": {"name": self.auth_plugin_name, "config": config}})
            }
        };
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": reached}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
            "users": [{"name": name, "user": user}],
        })
    }

    /// The Secret as YAML. The kubeconfig stands in it as text, for whoever reviews it.
    fn secret(&self, name: &str, kubeconfig: &Value) -> std::io::Result<Vec<u8>> {
        let (secret_name, key) = match self.purpose {
            Purpose::Remote => (format!("istio-remote-secret-{name}"), name),
            Purpose::Config => ("istio-kubeconfig".to_owned(), "config"),
        };
        let mut annotations = json!({"networking.istio.io/cluster": name});
        if let Some(class) = &self.ingress_class {
            annotations[server::remotes::INGRESS_CLASS] = class.as_str().into();
        }
        let head = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "annotations": annotations,
                "labels": {model::kinds::multicluster::REMOTE_SECRET_LABEL: "true"},
                "name": secret_name,
                "namespace": self.namespace,
            },
            "type": "Opaque",
        });
        let mut out = Vec::new();
        writeln!(
            out,
            "# Credentials for cluster {name}, by pilothouse create-remote-secret."
        )?;
        write_yaml(&mut out, &head, 0)?;
        writeln!(out, "stringData:\n  {}: |", Value::from(key))?;
        write_yaml(&mut out, kubeconfig, 4)?;
        writeln!(out, "---")?;
        Ok(out)
    }
}

/// The identity of a cluster that nobody has named.
async fn cluster_uid(client: &Client) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get("kube-system").await;
    let namespace = namespace.context(
        "cannot read the namespace kube-system, whose UID is the cluster's id without --name",
    )?;
    namespace
        .metadata
        .uid
        .context("the namespace kube-system has no UID; state the cluster's id with --name")
}

/// The URL of the kubeconfig, with a warning where nobody else can use it.
fn of_kubeconfig(cluster: &Cluster, log: &mut impl Write) -> anyhow::Result<String> {
    let Some(server) = &cluster.server else {
        bail!("the kubeconfig names no server; state one with --server");
    };
    let host = server.split_once("://").map_or(server.as_str(), |(_, h)| h);
    if ["127.", "localhost", "[::1]"]
        .iter()
        .any(|l| host.starts_with(l))
    {
        writeln!(
            log,
            "warning: the API server of the kubeconfig, {server}, can be reached from this machine only; state the URL that \
             the control plane reaches it by with --server"
        )?;
    }
    Ok(server.clone())
}

/// Whether a text is a DNS label, as names of clusters are.
fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests;

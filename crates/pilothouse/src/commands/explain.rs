//! `pilothouse explain`: which objects made a resource, and which resources an object takes part in.

mod print;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use explain::{Budget, Explainer, Explanation, Participation};
use mesh::view::ProxyKey;
use model::node::Identity;
use serde::de::DeserializeOwned;
use store::Snapshot;
use xds::TypeUrl;

use super::proxy::ProxyOptions;
use super::proxy_config::{debug_page, gather};

/// The name of a proxy that nobody named.
const UNNAMED: &str = "proxy-0";

/// Flags of `pilothouse explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainOptions {
    /// The type of the resource.
    #[arg(value_enum, required_unless_present = "object", requires = "name")]
    what: Option<What>,

    /// The name of the resource, as `proxy-config` prints it: 'outbound|80||carts.shop.svc.cluster.local'.
    name: Option<String>,

    /// List the resources that this object takes part in, in place of the objects that made a resource.
    #[arg(
        long,
        value_name = "KIND/NAMESPACE/NAME",
        conflicts_with_all = ["what", "name"]
    )]
    object: Option<String>,

    /// The proxy, NAME.NAMESPACE, NAME or a whole node id: a connected one, or with --config-dir one that the flags
    /// describe.
    #[arg(long, alias = "from", value_name = "PROXY", required_unless_present_any = ["config_dir", "node"])]
    proxy: Option<String>,

    #[command(flatten)]
    described: ProxyOptions,

    /// As --http-addr.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["config_dir", "http_addr"])]
    server: Option<String>,

    /// Node in JSON for --config-dir, in place of the flags that describe a proxy.
    #[arg(
        long,
        value_name = "FILE",
        requires = "config_dir",
        conflicts_with = "proxy"
    )]
    node: Option<PathBuf>,

    /// How long to try with --config-dir what happens without an object.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Output,
}

/// Types of resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    /// A cluster.
    #[value(alias = "clusters", alias = "c")]
    Cluster,
    /// A listener.
    #[value(alias = "listeners", alias = "l")]
    Listener,
    /// A route configuration.
    #[value(alias = "routes", alias = "r")]
    Route,
    /// The endpoints of a cluster.
    #[value(alias = "endpoints", alias = "ep")]
    Endpoint,
    /// A TLS secret.
    #[value(alias = "secrets", alias = "s")]
    Secret,
}

impl What {
    fn type_url(self) -> TypeUrl {
        match self {
            What::Cluster => TypeUrl::Cluster,
            What::Listener => TypeUrl::Listener,
            What::Route => TypeUrl::Route,
            What::Endpoint => TypeUrl::Endpoint,
            What::Secret => TypeUrl::Secret,
        }
    }
}

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Output {
    /// For a terminal.
    Text,
    /// JSON.
    Json,
}

/// Explains and prints.
pub(crate) async fn run(options: ExplainOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let proxy = options.proxy.as_deref().unwrap_or(UNNAMED);
    match (&options.object, options.what, &options.name) {
        (Some(object), ..) => {
            let found = options.participation(object, proxy).await?;
            match options.output {
                Output::Text => print::participation(out, proxy, &found)?,
                Output::Json => json(out, &found)?,
            }
        }
        (None, Some(what), Some(name)) => {
            let found = options.explanation(what.type_url(), name, proxy).await?;
            match options.output {
                Output::Text => print::explanation(out, proxy, &found)?,
                Output::Json => json(out, &found)?,
            }
        }
        _ => bail!("which resource? give its type and name, or --object"),
    }
    Ok(())
}

fn json(out: &mut dyn Write, value: &impl serde::Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

impl ExplainOptions {
    async fn explanation(
        &self,
        ty: TypeUrl,
        name: &str,
        proxy: &str,
    ) -> anyhow::Result<Explanation> {
        if self.is_live() {
            let ty = explain::type_name(ty);
            return self.ask(proxy, &[("type", ty), ("name", name)]).await;
        }
        let time = Duration::try_from_secs_f64(self.timeout).context("--timeout is no time")?;
        let budget = Budget {
            time,
            ..Budget::default()
        };
        Ok(self.offline(proxy)?.explain(ty, name, budget)?)
    }

    async fn participation(&self, object: &str, proxy: &str) -> anyhow::Result<Participation> {
        if self.is_live() {
            return self.ask(proxy, &[("object", object)]).await;
        }
        let mut explainer = self.offline(proxy)?;
        let key = explainer.find_object(object).map_err(anyhow::Error::msg)?;
        let found = explainer.participation(&key, &TypeUrl::ALL);
        found.with_context(|| format!("there is no {key}"))
    }

    fn is_live(&self) -> bool {
        self.described.config_dir.is_empty()
    }

    /// The answer of a server.
    async fn ask<T: DeserializeOwned>(
        &self,
        proxy: &str,
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<T> {
        let proxy = self.described.full_name(proxy);
        let mut path = format!("/debug/explain?proxyID={}", encoded(&proxy));
        for (key, value) in parameters {
            path.push_str(&format!("&{key}={}", encoded(value)));
        }
        let address = self.server.as_ref().unwrap_or(&self.described.http_addr);
        let answer = debug_page(address, &path).await?;
        serde_json::from_value(answer).context("the server answers in another form")
    }

    /// The proxy that the flags describe, and what it would get from the folders.
    fn offline(&self, proxy: &str) -> anyhow::Result<Explainer> {
        let described = |snapshot: &Snapshot| {
            let options = match &self.node {
                Some(file) => client::NodeOptions {
                    node: Some(file.clone()),
                    ..client::NodeOptions::default()
                },
                None => self.described.described(proxy, Some(snapshot))?,
            };
            Ok(options.envoy()?)
        };
        let mesh = self.described.mesh_config.as_deref();
        let (snapshot, mut node) = gather::read(&self.described.config_dir, mesh, described)?;
        // It is taken to be who it says: who has the folder may see what such a proxy gets.
        let account = node.metadata.get("SERVICE_ACCOUNT");
        node.identity = Some(Identity {
            namespace: node.namespace.clone(),
            service_account: account.and_then(|a| a.as_str()).unwrap_or("default").into(),
        });
        Ok(Explainer::new(snapshot, ProxyKey::new(Arc::new(node))))
    }
}

/// A value in a query: all but letters, digits and a few signs is escaped.
fn encoded(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

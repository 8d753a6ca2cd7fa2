//! `pilothouse root-cert`: the roots that workloads of the mesh are judged by.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver::access::Who;
use apiserver::api::Request;
use apiserver::local::Local;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use http::{Method, StatusCode};
use serde_json::Value;

use super::proxy_config::debug_page;

/// `pilothouse root-cert`.
#[derive(Args)]
pub(crate) struct RootCertOptions {
    /// Data folder of `serve --data`. If a server runs on it, the server is asked; otherwise the file is opened.
    #[arg(
        long,
        env = "PILOTHOUSE_DATA",
        value_name = "DIR",
        required_unless_present = "server"
    )]
    data: Option<PathBuf>,

    /// Ask a running server instead, through its debug pages.
    #[arg(long, alias = "http-addr", value_name = "HOST:PORT")]
    server: Option<String>,

    /// Namespace of the control plane.
    #[arg(
        long,
        short,
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "istio-system"
    )]
    namespace: String,
}

/// How long a server that was started a moment ago may take to have a CA.
const START: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(100);

/// The ConfigMap in which roots are distributed, and the key in it.
const DISTRIBUTED: (&str, &str) = ("configmaps/istio-ca-root-cert", "root-cert.pem");

/// The Secrets that a CA of a store may be kept in.
const SECRETS: [&str; 2] = ["istio-ca-secret", "cacerts"];

/// Prints the roots in PEM.
///
/// # Errors
///
/// When there are none, or nobody answers.
pub(crate) async fn run(options: &RootCertOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let deadline = Instant::now() + START;
    let roots = loop {
        match find(options).await {
            // In a script, `serve &` stands on the line before.
            Err(_) if Instant::now() < deadline => tokio::time::sleep(AGAIN).await,
            found => break found?,
        }
    };
    write!(out, "{roots}").context("cannot print")
}

async fn find(options: &RootCertOptions) -> anyhow::Result<String> {
    match (&options.server, &options.data) {
        (Some(address), _) => of_server(address).await,
        (None, Some(data)) => of_store(data, &options.namespace).await,
        (None, None) => bail!("name a data folder (--data) or a server (--server)"),
    }
}

async fn of_server(address: &str) -> anyhow::Result<String> {
    let page = debug_page(address, "/debug/ca").await?;
    let roots = page["roots"].as_array().into_iter().flatten();
    let roots: String = roots.filter_map(Value::as_str).collect();
    if roots.is_empty() {
        let why = page["fault"].as_str();
        bail!(
            "the server has no roots: {}",
            why.unwrap_or("it does not sign certificates, or has no CA yet")
        );
    }
    Ok(roots)
}

async fn of_store(data: &Path, namespace: &str) -> anyhow::Result<String> {
    let local = Local::open(data).await?;
    let (distributed, key) = DISTRIBUTED;
    if let Some(map) = get(&local, namespace, distributed).await?
        && let Some(text) = map["data"][key].as_str().filter(|t| !t.is_empty())
    {
        return Ok(text.to_owned());
    }
    for name in SECRETS {
        let Some(secret) = get(&local, namespace, &format!("secrets/{name}")).await? else {
            continue;
        };
        // Of a key, nothing is read.
        for key in ["root-cert.pem", "ca.crt", "ca-cert.pem"] {
            let text = secret["data"][key].as_str().filter(|t| !t.is_empty());
            if let Some(text) = text {
                let pem = STANDARD
                    .decode(text)
                    .with_context(|| format!("{name}: {key}"))?;
                return String::from_utf8(pem).with_context(|| format!("{name}: {key}"));
            }
        }
    }
    bail!(
        "namespace {namespace} of the store in {} has no CA: `pilothouse serve --data` makes one when it starts",
        data.display()
    )
}

/// An object of a namespace; `None` where there is none.
async fn get(local: &Local, namespace: &str, object: &str) -> anyhow::Result<Option<Value>> {
    let path = format!("/api/v1/namespaces/{namespace}/{object}");
    let request = Request::new(Method::GET, &path, Who::local());
    let (status, body) = local.ask(request, "").await?;
    if status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    anyhow::ensure!(status.is_success(), "the API answers {status} for {path}");
    serde_json::from_slice(&body).context("the answer is not JSON")
}

//! `pilothouse token`: a token of a service account of the store, with which a proxy proves who it is.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver::access::Who;
use apiserver::access::service_accounts::ISSUER;
use apiserver::api::Request;
use apiserver::local::Local;
use clap::Args;
use disk::private;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use server::config::duration;

use crate::log::say;

/// `pilothouse token`.
#[derive(Args)]
pub(crate) struct TokenOptions {
    /// The service account.
    #[arg(value_name = "ACCOUNT")]
    account: String,

    /// Data folder of the store. If a server runs on it, the server issues the token; otherwise its key is read here.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    data: PathBuf,

    /// Namespace of the service account.
    #[arg(short, long, default_value = "default")]
    namespace: String,

    /// Whom the token is for. May be given several times.
    #[arg(long, value_name = "NAME", default_value = "istio-ca")]
    audience: Vec<String>,

    /// How long the token is valid: from ten minutes to a year. The default is 90 days: a proxy whose token has expired loses the
    /// control plane, and its certificate a day later. Deleting the service account makes its tokens void.
    #[arg(long, value_name = "DURATION", default_value = "2160h", value_parser = duration)]
    ttl: Duration,

    /// Make the service account and its namespace if they are not there.
    #[arg(long)]
    create: bool,

    /// Write the token to this file, which only its owner may read, instead of printing it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The issuer that the token names, where no server runs; as with `serve`.
    #[arg(long, env = "PILOTHOUSE_SERVICE_ACCOUNT_ISSUER", value_name = "URL", default_value = ISSUER)]
    service_account_issuer: String,
}

/// Issues a token.
pub(crate) async fn run(options: TokenOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let local = Local::open(&options.data).await?;
    if let Local::File(api) = &local {
        api.set_issuer(&options.service_account_issuer);
    }
    let (namespace, account) = (&options.namespace, &options.account);
    for name in [namespace, account] {
        // They become parts of a path.
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
        if name.is_empty() || !name.bytes().all(allowed) {
            bail!("{name:?} is not the name of a namespace or a service account");
        }
    }
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    if options.create {
        create(&local, "/api/v1/namespaces", namespace).await?;
        create(&local, &accounts, account).await?;
    }
    let spec = json!({"audiences": options.audience, "expirationSeconds": options.ttl.as_secs()});
    let (status, answer) = post(
        &local,
        &format!("{accounts}/{account}/token"),
        &json!({"spec": spec}),
    )
    .await?;
    if status == StatusCode::NOT_FOUND {
        bail!("there is no service account {namespace}/{account}; --create makes it");
    }
    let token = answer["status"]["token"].as_str();
    let token = token.with_context(|| said(&answer))?;
    if let Some(expires) = answer["status"]["expirationTimestamp"].as_str() {
        say!("The token is valid until {expires}.");
    }
    match &options.output {
        Some(file) => private::replace(file, token.as_bytes(), &private::open_gate)
            .with_context(|| file.display().to_string()),
        None => Ok(writeln!(out, "{token}")?),
    }
}

/// Makes an object that is not there.
async fn create(local: &Local, path: &str, name: &str) -> anyhow::Result<()> {
    let (status, answer) = post(local, path, &json!({"metadata": {"name": name}})).await?;
    match status {
        StatusCode::CONFLICT => Ok(()),
        status if status.is_success() => Ok(()),
        _ => bail!("{}", said(&answer)),
    }
}

async fn post(local: &Local, path: &str, body: &Value) -> anyhow::Result<(StatusCode, Value)> {
    let request = Request::new(Method::POST, path, Who::local());
    let request = request.with_body("application/json", body.to_string());
    let (status, body) = local.ask(request, "").await?;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

fn said(answer: &Value) -> String {
    let said = answer["message"].as_str();
    said.unwrap_or("the server issues no token").to_owned()
}

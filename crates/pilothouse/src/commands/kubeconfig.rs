//! `pilothouse kubeconfig`: how kubectl finds the Kubernetes API.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

/// `pilothouse kubeconfig`.
#[derive(Args)]
pub(crate) struct KubeconfigOptions {
    /// Where the API listens.
    #[arg(
        long,
        env = "PILOTHOUSE_API_ADDR",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:6443"
    )]
    api_addr: String,
    /// Data folder of the server: its CA, and the token of its operator, are put in.
    #[arg(
        long,
        env = "PILOTHOUSE_DATA",
        value_name = "DIR",
        required_unless_present = "insecure_local"
    )]
    data: Option<PathBuf>,
    /// The server runs with --insecure-local.
    #[arg(long)]
    insecure_local: bool,
    /// Another user's token, in place of the operator's.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Prints a kubeconfig.
pub(crate) fn run(options: &KubeconfigOptions, out: &mut impl Write) -> anyhow::Result<()> {
    use serde_json::json;
    let mut cluster = json!({"server": format!("http://{}", options.api_addr)});
    let mut user = json!({});
    if let (false, Some(data)) = (options.insecure_local, &options.data) {
        let files = apiserver::pki::Files::of(data);
        let ca = std::fs::canonicalize(files.ca()).with_context(|| {
            format!(
                "{} is not there: the server makes it when it starts",
                files.ca().display()
            )
        })?;
        let token = options
            .token_file
            .clone()
            .unwrap_or_else(|| files.admin_token());
        let token = std::fs::read_to_string(&token).with_context(|| token.display().to_string())?;
        cluster =
            json!({"server": format!("https://{}", options.api_addr), "certificate-authority": ca});
        user = json!({"token": token.trim()});
    }
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pilothouse",
        "clusters": [{"name": "pilothouse", "cluster": cluster}],
        "users": [{"name": "pilothouse", "user": user}],
        "contexts": [{"name": "pilothouse", "context": {"cluster": "pilothouse", "user": "pilothouse", "namespace": "default"}}],
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&config)?)?;
    Ok(())
}

//! Whether hosts are proven: their tokens are asked for where they are served, or looked up among the records of DNS.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::jws::thumbprint;
use super::{Page, Problem, Setting, Shared};

/// How long a host may take.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// Begins to look whether a host is proven.
    pub(super) fn challenge(self: &Arc<Self>, number: u64, kind: &str) -> Result<Page, Problem> {
        let mut state = self.state();
        let host = state.hosts.get_mut(&number);
        let host = host.ok_or_else(|| Problem::malformed("no such challenge"))?;
        let begins = host.status == "pending";
        if begins {
            host.status = "processing";
        }
        let shown = self.shown(number, host, kind);
        let (name, token, account) = (host.name.clone(), host.token.clone(), host.account);
        let key = state.accounts.get(&account).cloned().unwrap_or_default();
        drop(state);
        if begins {
            let proof = format!("{token}.{}", thumbprint(&key));
            let (shared, setting, kind) = (self.clone(), self.setting(), kind.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep(setting.looking).await;
                let proven = match kind.as_str() {
                    "http-01" => by_http(&setting, &name, &token, &proof).await,
                    "dns-01" => by_dns(&setting, &name, &proof),
                    _ => Err("no such challenge".to_owned()),
                };
                let mut state = shared.state();
                match proven {
                    Ok(()) => state.counts.proven += 1,
                    Err(_) => state.counts.refused += 1,
                }
                if let Some(host) = state.hosts.get_mut(&number) {
                    host.status = if proven.is_ok() { "valid" } else { "invalid" };
                    host.error = proven.err();
                }
            });
        }
        Ok(self.json(StatusCode::OK, &shown, &[]))
    }
}

/// Asks a host for a token, as in RFC 8555, section 8.3. Nothing is followed.
async fn by_http(setting: &Setting, host: &str, token: &str, proof: &str) -> Result<(), String> {
    let asking = async {
        let mut stream = TcpStream::connect(setting.http).await?;
        let request = format!(
            "GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(64 << 10).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    let answer = answer.map_err(|_| format!("{host} did not answer"))?;
    let answer = answer.map_err(|error| format!("{host}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default().to_owned();
    match status.starts_with("HTTP/1.1 200") && body.trim() == proof {
        true => Ok(()),
        false => Err(format!(
            "{host} answered {status:?} with {body:?}, not {proof:?}"
        )),
    }
}

/// Looks for a record, as in RFC 8555, section 8.4.
fn by_dns(setting: &Setting, host: &str, proof: &str) -> Result<(), String> {
    let value = URL_SAFE_NO_PAD.encode(digest(&SHA256, proof.as_bytes()));
    let wanted = format!("_acme-challenge.{host} {value}");
    let file = setting.dns.as_ref().ok_or("there is no DNS")?;
    let records = std::fs::read_to_string(file).unwrap_or_default();
    match records.lines().any(|line| line == wanted) {
        true => Ok(()),
        false => Err(format!("there is no record {wanted:?}")),
    }
}

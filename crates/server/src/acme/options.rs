//! Flags of ACME.

use std::path::PathBuf;
use std::sync::Arc;

use acme::{ExternalAccount, FolderPlace};
use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use model::ObjectName;
use model::certificate::PrivateKey;
use writeback::Place;

/// The largest file of a key.
const LARGEST_KEY: u64 = 4096;

/// Flags of certificates by ACME.
#[derive(Args, Clone, Debug)]
pub struct AcmeOptions {
    /// Directory that certificates are ordered from: those that the ConfigMap higress-https and --acme-host want. To order from
    /// it is to agree to its terms of service.
    #[arg(long, env = "PILOTHOUSE_ACME_DIRECTORY", value_name = "URL", default_value = acme::LETS_ENCRYPT, value_parser = directory)]
    pub acme_directory: String,

    /// Address of mail that the directory gets, in place of that of the ConfigMap.
    #[arg(long, env = "PILOTHOUSE_ACME_EMAIL", value_name = "ADDRESS")]
    pub acme_email: Option<String>,

    /// PEM file with the roots that the directory's own certificate leads to, in place of the system's.
    #[arg(long, env = "PILOTHOUSE_ACME_CA_FILE", value_name = "FILE")]
    pub acme_ca_file: Option<PathBuf>,

    /// A host whose certificate is ordered, and the Secret that it is kept in. Hosts of one Secret share a certificate. May be
    /// given several times.
    #[arg(long, env = "PILOTHOUSE_ACME_HOSTS", value_name = "HOST=NAMESPACE/SECRET", value_delimiter = ',', value_parser = host)]
    pub acme_host: Vec<HostOption>,

    /// Private folder for certificates and the account, where there is neither a cluster nor a store (--data). It is read as
    /// configuration.
    #[arg(long, env = "PILOTHOUSE_ACME_DIR", value_name = "DIR")]
    pub acme_dir: Option<PathBuf>,

    /// Program that makes records of DNS, which certificates with wildcards need. It is called with `present` or `cleanup`, the
    /// host, the name of a TXT record and its value.
    #[arg(long, env = "PILOTHOUSE_ACME_DNS_HOOK", value_name = "FILE")]
    pub acme_dns_hook: Option<PathBuf>,

    /// Name of the key of an account elsewhere that the directory wants accounts to be bound to.
    #[arg(
        long,
        env = "PILOTHOUSE_ACME_EAB_KEY_ID",
        value_name = "ID",
        requires = "acme_eab_key_file"
    )]
    pub acme_eab_key_id: Option<String>,

    /// File with that key, in base64url as directories give it.
    #[arg(
        long,
        env = "PILOTHOUSE_ACME_EAB_KEY_FILE",
        value_name = "FILE",
        requires = "acme_eab_key_id"
    )]
    pub acme_eab_key_file: Option<PathBuf>,
}

/// A host and its Secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostOption {
    pub(super) host: String,
    pub(super) secret: ObjectName,
}

impl AcmeOptions {
    /// The folder of certificates, taken for this process.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub(crate) fn folder(&self) -> anyhow::Result<Option<Arc<dyn Place>>> {
        let Some(path) = &self.acme_dir else {
            return Ok(None);
        };
        let folder = FolderPlace::take(path).context("no certificates can be kept (--acme-dir)")?;
        Ok(Some(Arc::new(folder)))
    }

    /// The account elsewhere, read from its file.
    pub(super) fn external(&self) -> anyhow::Result<Option<ExternalAccount>> {
        let (Some(id), Some(path)) = (&self.acme_eab_key_id, &self.acme_eab_key_file) else {
            return Ok(None);
        };
        let shown = || format!("{} (--acme-eab-key-file)", path.display());
        let read = disk::open::read(path, LARGEST_KEY).with_context(shown)?;
        let text = std::str::from_utf8(&read.bytes).with_context(shown)?;
        let text = text.trim().trim_end_matches('=');
        let key = URL_SAFE_NO_PAD.decode(text).ok();
        // What was written there is nobody's business.
        let key = key.filter(|key| !key.is_empty());
        let key = key.with_context(|| format!("{} is no base64url", shown()))?;
        Ok(Some(ExternalAccount {
            id: id.clone(),
            key: PrivateKey::from_pem(key),
        }))
    }
}

fn directory(text: &str) -> Result<String, String> {
    match acme::is_directory(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is not an https URL, or http of this machine"
        )),
    }
}

fn host(text: &str) -> Result<HostOption, String> {
    let wrong = || format!("{text:?} is not HOST=NAMESPACE/SECRET");
    let (host, secret) = text.split_once('=').ok_or_else(wrong)?;
    let (namespace, name) = secret.split_once('/').ok_or_else(wrong)?;
    let is_name = |text: &str| {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        !text.is_empty() && text.bytes().all(known)
    };
    let host = host.to_ascii_lowercase();
    let labels = host.strip_prefix("*.").unwrap_or(&host);
    if !is_name(labels) || !labels.contains('.') || !is_name(namespace) || !is_name(name) {
        return Err(wrong());
    }
    Ok(HostOption {
        host,
        secret: ObjectName::new(namespace, name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_secret() {
        let read = host("Shop.example=edge/shop-tls").unwrap();
        assert_eq!(read.host, "shop.example");
        assert_eq!(read.secret, ObjectName::new("edge", "shop-tls"));
        assert!(host("*.shop.example=edge/all").is_ok());
        for text in [
            "shop.example",
            "shop.example=tls",
            "=edge/a",
            "a b.c=edge/a",
            "*=edge/a",
        ] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_directory_is_asked_over_tls() {
        assert!(directory(acme::LETS_ENCRYPT).is_ok());
        assert!(directory("http://acme.example/directory").is_err());
    }
}

//! Flags of OpenID Connect, under the names that kube-apiserver has for them.

use std::path::PathBuf;

use apiserver::access::oidc::Settings;
use clap::Args;

/// Whose tokens the Kubernetes API takes.
#[derive(Args, Clone, Debug)]
pub struct OidcOptions {
    /// Issuer whose bearer tokens the Kubernetes API takes, https only.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_ISSUER_URL",
        value_name = "URL",
        requires = "oidc_client_id"
    )]
    pub oidc_issuer_url: Option<String>,

    /// The audience that tokens of the issuer must be for.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_CLIENT_ID",
        value_name = "ID",
        requires = "oidc_issuer_url"
    )]
    pub oidc_client_id: Option<String>,

    /// The claim that names the user.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_USERNAME_CLAIM",
        value_name = "CLAIM",
        default_value = "sub"
    )]
    pub oidc_username_claim: String,

    /// What stands before users' names; `-` for nothing. Without it the issuer and `#`, but for the claim `email`.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_USERNAME_PREFIX",
        value_name = "TEXT",
        allow_hyphen_values = true
    )]
    pub oidc_username_prefix: Option<String>,

    /// The claim that lists the user's groups.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_GROUPS_CLAIM",
        value_name = "CLAIM",
        requires = "oidc_issuer_url"
    )]
    pub oidc_groups_claim: Option<String>,

    /// What stands before groups' names.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_GROUPS_PREFIX",
        value_name = "TEXT",
        default_value = ""
    )]
    pub oidc_groups_prefix: String,

    /// A claim that tokens must have, with its value.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_REQUIRED_CLAIM",
        value_name = "CLAIM=VALUE",
        value_delimiter = ','
    )]
    pub oidc_required_claim: Vec<String>,

    /// Algorithms of signatures that count.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_SIGNING_ALGS",
        value_name = "ALG",
        value_delimiter = ',',
        default_value = "RS256"
    )]
    pub oidc_signing_algs: Vec<String>,

    /// File of roots from which the issuer may have its certificate, besides the system's.
    #[arg(
        long,
        env = "PILOTHOUSE_OIDC_CA_FILE",
        value_name = "FILE",
        requires = "oidc_issuer_url"
    )]
    pub oidc_ca_file: Option<PathBuf>,
}

impl OidcOptions {
    /// What they say, if they name an issuer.
    pub(super) fn settings(&self) -> anyhow::Result<Option<Settings>> {
        let (Some(issuer), Some(client)) = (&self.oidc_issuer_url, &self.oidc_client_id) else {
            return Ok(None);
        };
        let mut settings = Settings::new(issuer, client);
        settings
            .username_claim
            .clone_from(&self.oidc_username_claim);
        settings
            .username_prefix
            .clone_from(&self.oidc_username_prefix);
        settings.groups_claim.clone_from(&self.oidc_groups_claim);
        settings.groups_prefix.clone_from(&self.oidc_groups_prefix);
        settings.algorithms.clone_from(&self.oidc_signing_algs);
        settings.ca_file.clone_from(&self.oidc_ca_file);
        for claim in &self.oidc_required_claim {
            let (name, value) = claim.split_once('=').ok_or_else(|| {
                anyhow::anyhow!("--oidc-required-claim must be CLAIM=VALUE, and is {claim:?}")
            })?;
            settings
                .required_claims
                .insert(name.to_owned(), value.to_owned());
        }
        Ok(Some(settings))
    }
}

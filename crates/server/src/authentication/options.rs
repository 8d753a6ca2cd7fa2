//! Flags of who is believed.

use clap::Args;
use identity::TrustedNetworks;

/// Flags of who is believed.
#[derive(Args, Clone, Debug)]
pub struct AuthenticationOptions {
    /// Audiences of tokens that prove who a client is. A token must be for one of them. Comma-separated.
    #[arg(
        long,
        env = "TOKEN_AUDIENCES",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "istio-ca"
    )]
    pub token_audiences: Vec<String>,

    /// Take tokens of this issuer as well: a JWTRule of Istio in JSON, with `issuer`, `audiences`, and `jwks_uri` or `jwks` where
    /// the issuer has no OpenID configuration. Tokens are of `system:serviceaccount:NAMESPACE:NAME`.
    #[arg(long, env = "JWT_RULE", value_name = "JSON")]
    pub jwt_rule: Option<String>,

    /// Networks of gateways that are believed when they tell of a client's certificate in `x-forwarded-client-cert`, besides
    /// this machine. Without any the header means nothing. Comma-separated.
    #[arg(
        long,
        env = "TRUSTED_GATEWAY_CIDR",
        value_name = "RANGES",
        default_value = ""
    )]
    pub trusted_gateway_cidr: TrustedNetworks,

    /// Other names by which proxies call clusters: `alias=cluster`. Comma-separated.
    #[arg(
        long,
        alias = "clusterAliases",
        env = "PILOTHOUSE_CLUSTER_ALIASES",
        value_name = "ALIASES",
        value_delimiter = ',',
        value_parser = alias
    )]
    pub cluster_aliases: Vec<(String, String)>,
}

fn alias(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((alias, cluster)) if !alias.is_empty() && !cluster.is_empty() => {
            Ok((alias.to_owned(), cluster.to_owned()))
        }
        _ => Err(format!("{text:?} is not alias=cluster")),
    }
}

//! Tokens of an issuer that the operator names (`JWT_RULE`), which speak of service accounts.
//!
//! Istio: security/pkg/server/ca/authenticate/oidc.go, 1.32.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fetch::jwks::Fetcher;
use futures::future::BoxFuture;
use model::jwks::KeySource;
use serde::Deserialize;

use crate::authenticators::Authenticator;
use crate::caller::{Caller, Source};
use crate::domains::Domains;
use crate::evidence::Evidence;
use crate::jwt::{IssuerKeys, Jwt, Keys, TokenError, is_known};
use crate::kubernetes::service_account;
use crate::refusal::Refusal;

/// How long an issuer is not asked again for its keys.
const REFETCH: Duration = Duration::from_secs(10);

/// Which tokens count: a JWTRule of Istio, of which the rest has no meaning here.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Rule {
    /// The issuer, as `iss` names it.
    #[serde(default)]
    pub issuer: String,
    /// Whom tokens are for; one of these.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// Where the keys of the issuer are; by default its OpenID configuration says so.
    #[serde(default, alias = "jwksUri")]
    pub jwks_uri: Option<String>,
    /// The keys themselves.
    #[serde(default)]
    pub jwks: Option<String>,
}

/// Why a rule cannot be followed. The operator's to fix.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// Not the JSON of a rule.
    #[error("the rule is not a JWTRule in JSON")]
    Malformed(#[source] serde_json::Error),
    /// A rule for nobody's tokens.
    #[error("the rule has no issuer")]
    NoIssuer,
    /// A rule that lets nobody in.
    #[error("the rule has no audiences, so no token would be accepted")]
    NoAudiences,
    /// Keys that prove nothing.
    #[error("jwks: it {0}")]
    BadKeys(#[source] model::jwks::BadKeys),
}

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let rule: Self = serde_json::from_str(text).map_err(RuleError::Malformed)?;
        if rule.issuer.is_empty() {
            return Err(RuleError::NoIssuer);
        }
        if rule.audiences.is_empty() {
            return Err(RuleError::NoAudiences);
        }
        if let Some(keys) = rule.inline() {
            model::jwks::check(keys).map_err(RuleError::BadKeys)?;
        }
        Ok(rule)
    }
}

impl Rule {
    fn inline(&self) -> Option<&str> {
        self.jwks.as_deref().filter(|keys| !keys.is_empty())
    }

    /// Where the keys are fetched; `None` where the rule has them.
    pub fn source(&self) -> Option<KeySource> {
        let uri = self.jwks_uri.as_deref().filter(|uri| !uri.is_empty());
        match (self.inline(), uri) {
            (Some(_), _) => None,
            (None, Some(uri)) => Some(KeySource::Uri(uri.into())),
            (None, None) => Some(KeySource::Issuer(self.issuer.as_str().into())),
        }
    }
}

/// The keys of the rule.
enum Known {
    Stated(Keys),
    Fetched(Box<IssuerKeys>),
}

/// Takes tokens by a rule.
pub struct IdTokens {
    rule: Rule,
    keys: Known,
    domains: Domains,
}

impl IdTokens {
    /// Takes tokens by this rule. Keys are fetched when the first token comes.
    pub fn new(rule: Rule, fetcher: Fetcher, domains: Domains) -> Self {
        let keys = match rule.source() {
            Some(source) => Known::Fetched(Box::new(IssuerKeys::new(source, fetcher, REFETCH))),
            None => Known::Stated(Keys::read(rule.inline().unwrap_or_default())),
        };
        Self {
            rule,
            keys,
            domains,
        }
    }

    async fn judge(&self, evidence: &Evidence<'_>) -> Result<Option<Caller>, Refusal> {
        let Some(text) = evidence.bearer()? else {
            return Ok(None);
        };
        let token = Jwt::parse(text).ok_or(TokenError::Malformed)?;
        if token.claims["iss"] != *self.rule.issuer {
            return Err(TokenError::OtherIssuer.into());
        }
        if !is_known(&token.algorithm) {
            return Err(TokenError::Algorithm(token.algorithm).into());
        }
        if !token.is_for(&self.rule.audiences) {
            return Err(TokenError::OtherAudience.into());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        token.check_time(now.map_or(0, |d| d.as_secs()))?;
        match &self.keys {
            Known::Stated(keys) if token.is_signed_by(keys) => {}
            Known::Stated(_) => return Err(TokenError::Signature.into()),
            Known::Fetched(keys) => keys.verify(&token).await?,
        }
        let subject = token.claims["sub"].as_str().unwrap_or_default();
        let (namespace, account) = service_account(subject)?;
        Ok(Some(Caller {
            source: Source::IdToken,
            ids: vec![self.domains.identity(namespace, account)],
            pod: None,
            until: token.expires(),
        }))
    }
}

impl Authenticator for IdTokens {
    fn name(&self) -> &'static str {
        "IDTokenAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: &'a Evidence<'a>,
    ) -> BoxFuture<'a, Result<Option<Caller>, Refusal>> {
        Box::pin(self.judge(evidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_in_both_spellings() {
        let rule: Rule = r#"{"issuer": "a", "jwks_uri": "b", "audiences": ["c"]}"#
            .parse()
            .unwrap();
        let other: Rule =
            r#"{"issuer": "a", "jwksUri": "b", "audiences": ["c"], "fromHeaders": []}"#
                .parse()
                .unwrap();
        assert_eq!(rule, other);
        assert_eq!(rule.source(), Some(KeySource::Uri("b".into())));
        let rule: Rule = r#"{"issuer": "a", "audiences": ["c"]}"#.parse().unwrap();
        assert_eq!(rule.source(), Some(KeySource::Issuer("a".into())));
        let keys = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        let rule = serde_json::json!({"issuer": "a", "audiences": ["c"], "jwks": keys});
        let rule: Rule = rule.to_string().parse().unwrap();
        assert_eq!(rule.source(), None);
    }

    #[test]
    fn a_rule_that_lets_nobody_in_is_an_error() {
        for text in [
            "",
            "[]",
            r#"{"audiences": ["c"]}"#,
            r#"{"issuer": "a"}"#,
            r#"{"issuer": "a", "audiences": ["c"], "jwks": "x"}"#,
            r#"{"issuer": "a", "audiences": ["c"], "jwks": "{\"keys\": []}"}"#,
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}

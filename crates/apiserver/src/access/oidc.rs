//! Bearer tokens of an OpenID Connect issuer, under the rules and names of kube-apiserver's `--oidc-` flags.
//!
//! The issuer's keys are found by discovery, and fetched anew not more often than [`Settings::refetch`].
//!
//! Kubernetes: staging/src/k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go, 1.36.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fetch::jwks::Fetcher;
use fetch::web::RootsError;
use identity::jwt::{IssuerKeys, Jwt, Keys, is_known};
use model::jwks::KeySource;
use serde_json::Value;

use super::Who;
pub use identity::jwt::TokenError;

/// Whose tokens count, and what they say of a user.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The issuer, as `iss` names it; `https`.
    pub issuer: String,
    /// Which audience tokens are for.
    pub client_id: String,
    /// The claim that names the user.
    pub username_claim: String,
    /// What stands before the name; `None` is the issuer and `#`, but for e-mail addresses.
    pub username_prefix: Option<String>,
    /// The claim that lists groups.
    pub groups_claim: Option<String>,
    /// What stands before each group.
    pub groups_prefix: String,
    /// Claims that tokens must have, with their values.
    pub required_claims: BTreeMap<String, String>,
    /// Signatures that count: `RS256`, `ES256`, ...
    pub algorithms: Vec<String>,
    /// Further roots that the issuer may have its certificate from.
    pub ca_file: Option<PathBuf>,
    /// How long the issuer is not asked again.
    pub refetch: Duration,
}

impl Settings {
    /// The defaults of kube-apiserver.
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            client_id: client_id.into(),
            username_claim: "sub".to_owned(),
            username_prefix: None,
            groups_claim: None,
            groups_prefix: String::new(),
            required_claims: BTreeMap::new(),
            algorithms: vec!["RS256".to_owned()],
            ca_file: None,
            refetch: Duration::from_secs(10),
        }
    }

    fn prefix(&self) -> String {
        match self.username_prefix.as_deref() {
            Some("-") => String::new(),
            Some(prefix) => prefix.to_owned(),
            None if self.username_claim == "email" => String::new(),
            None => format!("{}#", self.issuer),
        }
    }
}

/// Why tokens cannot be judged at all. The operator's to fix.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// Keys that anybody on the way could replace prove nothing.
    #[error("--oidc-issuer-url must be https, and is {0:?}")]
    Issuer(String),
    /// An algorithm that is not known.
    #[error("--oidc-signing-algs: unknown algorithm {0:?}")]
    Algorithm(String),
    /// The file of roots cannot be used.
    #[error("--oidc-ca-file: {0}")]
    Roots(String),
}

/// Judges tokens of one issuer.
pub struct Oidc {
    settings: Settings,
    keys: IssuerKeys,
}

impl std::fmt::Debug for Oidc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Oidc");
        shown
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Reads all that comes from outside for a token, as [`Oidc::user_of`] does, and says what it makes of it. It asks nobody, and
/// proves nothing: for fuzzing.
///
/// # Errors
///
/// When the token has no meaning, was not signed by one of the keys, or its claims are not as they must be.
#[doc(hidden)]
pub fn read_only(text: &str, jwks: &str, settings: &Settings, now: u64) -> Result<(), TokenError> {
    let token = Jwt::parse(text).ok_or(TokenError::Malformed)?;
    let claims = settings.judge(&token, now);
    if !token.is_signed_by(&Keys::read(jwks)) {
        return claims.and(Err(TokenError::Signature));
    }
    claims.map(|_| ())
}

impl Oidc {
    /// A judge of tokens. The issuer is asked when the first token comes.
    ///
    /// # Errors
    ///
    /// When the settings cannot be followed.
    pub fn new(settings: Settings) -> Result<Self, OidcError> {
        if !settings.issuer.starts_with("https://") {
            return Err(OidcError::Issuer(settings.issuer));
        }
        if let Some(other) = settings.algorithms.iter().find(|a| !is_known(a)) {
            return Err(OidcError::Algorithm(other.clone()));
        }
        if let Some(file) = settings.ca_file.as_ref().filter(|f| !f.exists()) {
            let reason = format!("{} is not there", file.display());
            return Err(OidcError::Roots(reason));
        }
        let fetcher = Fetcher::trusting(settings.ca_file.as_deref());
        let fetcher = fetcher.map_err(|e: RootsError| OidcError::Roots(e.to_string()))?;
        let source = KeySource::Issuer(settings.issuer.as_str().into());
        let keys = IssuerKeys::new(source, fetcher, settings.refetch);
        Ok(Self { settings, keys })
    }

    /// The user of a token.
    ///
    /// # Errors
    ///
    /// When the token proves nothing.
    pub async fn user_of(&self, text: &str) -> Result<Who, TokenError> {
        let token = Jwt::parse(text).ok_or(TokenError::Malformed)?;
        if token.claims["iss"] != *self.settings.issuer {
            return Err(TokenError::OtherIssuer);
        }
        if !self.settings.algorithms.contains(&token.algorithm) {
            return Err(TokenError::Algorithm(token.algorithm));
        }
        self.keys.verify(&token).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.settings.judge(&token, now.map_or(0, |d| d.as_secs()))
    }
}

impl Settings {
    /// The user that the claims of a token name.
    fn judge(&self, token: &Jwt<'_>, now: u64) -> Result<Who, TokenError> {
        let (settings, claims) = (self, &token.claims);
        if !token.is_for(std::slice::from_ref(&settings.client_id)) {
            return Err(TokenError::OtherAudience);
        }
        token.check_time(now)?;
        for (claim, wanted) in &settings.required_claims {
            if claims[claim] != **wanted {
                return Err(TokenError::Claim(claim.clone()));
            }
        }
        let wrong = || TokenError::Claim(settings.username_claim.clone());
        let name = claims[&settings.username_claim].as_str();
        let name = name.filter(|n| !n.is_empty()).ok_or_else(wrong)?;
        if settings.username_claim == "email"
            && claims.get("email_verified").is_some_and(|v| *v != true)
        {
            return Err(TokenError::Claim("email_verified".to_owned()));
        }
        let name = settings.prefix() + name;
        // Names of the system are not for others to give.
        if name.starts_with("system:") {
            return Err(wrong());
        }
        let groups = self.groups(claims)?;
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        Ok(Who::new(&name, &groups))
    }

    fn groups(&self, claims: &Value) -> Result<Vec<String>, TokenError> {
        let Some(claim) = &self.groups_claim else {
            return Ok(Vec::new());
        };
        let listed = match &claims[claim] {
            Value::Null => Vec::new(),
            Value::String(one) => vec![one.as_str()],
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            _ => return Err(TokenError::Claim(claim.clone())),
        };
        let prefixed = listed
            .into_iter()
            .map(|g| format!("{}{g}", self.groups_prefix));
        Ok(prefixed.filter(|g| !g.starts_with("system:")).collect())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn judged(change: impl FnOnce(&mut Settings), claims: Value) -> Result<Who, TokenError> {
        let mut settings = Settings::new("https://issuer.test", "mesh");
        settings.groups_claim = Some("groups".to_owned());
        change(&mut settings);
        let mut all = json!({"iss": "https://issuer.test", "aud": ["mesh", "other"], "exp": 1000, "sub": "ann"});
        for (key, value) in claims.as_object().unwrap() {
            all[key] = value.clone();
        }
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let token = format!("{}.{}.AA", part(&json!({"alg": "RS256"})), part(&all));
        settings.judge(&Jwt::parse(&token).unwrap(), 1000)
    }

    #[test]
    fn claims_say_who_asks() {
        let who = judged(|_| {}, json!({"groups": ["ops", "system:masters"]})).unwrap();
        assert_eq!(who, Who::new("https://issuer.test#ann", &["ops"]));
        let who = judged(
            |s| {
                s.username_claim = "email".to_owned();
                s.groups_prefix = "oidc:".to_owned();
            },
            json!({"email": "ann@example.com", "email_verified": true, "groups": "ops", "aud": "mesh"}),
        );
        assert_eq!(who.unwrap(), Who::new("ann@example.com", &["oidc:ops"]));
        let who = judged(|s| s.username_prefix = Some("-".to_owned()), json!({}));
        assert_eq!(&*who.unwrap().name, "ann");
    }

    #[test]
    fn what_a_token_must_say_is_asked_of_it() {
        let claim = |name: &str| TokenError::Claim(name.to_owned());
        for (claims, wanted) in [
            (json!({"aud": "other"}), TokenError::OtherAudience),
            (json!({"exp": 940}), TokenError::Expired),
            (json!({"exp": null}), claim("exp")),
            (json!({"nbf": 1061}), TokenError::Early),
            (json!({"iat": 2000}), TokenError::Early),
            (json!({"sub": ""}), claim("sub")),
            (json!({"sub": 5}), claim("sub")),
            (json!({"groups": {"a": 1}}), claim("groups")),
        ] {
            assert_eq!(judged(|_| {}, claims.clone()), Err(wanted), "{claims}");
        }
        assert!(
            judged(|_| {}, json!({"exp": 941, "nbf": 1060})).is_ok(),
            "clocks differ"
        );
        let asks = |s: &mut Settings| {
            s.required_claims.insert("hd".to_owned(), "x".to_owned());
        };
        assert_eq!(judged(asks, json!({"hd": "y"})), Err(claim("hd")));
        assert!(judged(asks, json!({"hd": "x"})).is_ok());
        let email = |s: &mut Settings| s.username_claim = "email".to_owned();
        let unproven = json!({"email": "a@b", "email_verified": false});
        assert_eq!(judged(email, unproven), Err(claim("email_verified")));
        let bare = |s: &mut Settings| s.username_prefix = Some("-".to_owned());
        assert_eq!(
            judged(bare, json!({"sub": "system:admin"})),
            Err(claim("sub"))
        );
    }

    #[test]
    fn what_would_prove_nothing_is_no_setting() {
        assert!(Oidc::new(Settings::new("http://issuer.test", "mesh")).is_err());
        let mut settings = Settings::new("https://issuer.test", "mesh");
        settings.algorithms = vec!["none".to_owned()];
        assert!(Oidc::new(settings).is_err());
    }

    #[test]
    fn what_is_only_read_proves_nothing() {
        let settings = Settings::new("https://issuer.test", "mesh");
        let part = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let claims = json!({"aud": "mesh", "exp": 1000, "sub": "ann"});
        let token =
            |claims: Value| format!("{}.{}.AA", part(json!({"alg": "RS256"})), part(claims));
        let read = |text: &str| read_only(text, "{}", &settings, 1000);
        assert_eq!(read(&token(claims)), Err(TokenError::Signature));
        assert_eq!(read(&token(json!({}))), Err(TokenError::OtherAudience));
        assert_eq!(read("a.b"), Err(TokenError::Malformed));
    }
}

//! Signed tokens (JWT, RFC 7519): read, and judged by the keys of an issuer.
//!
//! Only asymmetric signatures count: `none` proves nothing, and with `HS256` whoever can check a token can make one.

mod issuer;
mod keys;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

pub use issuer::IssuerKeys;
pub use keys::{Keys, is_known};

/// The longest token that is looked at.
pub const LONGEST: usize = 16 << 10;

/// How far clocks may be apart, in seconds.
const SKEW: u64 = 60;

/// Why a token is refused. The client's to settle, but for the last.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    /// Nobody's that is known.
    #[error("the token belongs to no user")]
    Unknown,
    /// Nothing at all.
    #[error("the bearer token is empty")]
    Empty,
    /// No token of this form.
    #[error("the token is not a JWT")]
    Malformed,
    /// Somebody else's.
    #[error("the token is from another issuer")]
    OtherIssuer,
    /// For somebody else.
    #[error("the token is for another audience")]
    OtherAudience,
    /// An algorithm that does not count.
    #[error("the token is signed with {0:?}, which is not accepted")]
    Algorithm(String),
    /// Not signed by the issuer.
    #[error("no key of the issuer signed the token")]
    Signature,
    /// Too old.
    #[error("the token has expired")]
    Expired,
    /// Too young.
    #[error("the token is not valid yet")]
    Early,
    /// A claim that is missing, or is not what it must be.
    #[error("the claim {0:?} does not have the required value")]
    Claim(String),
    /// What the token is bound to is no more, or is another by now.
    #[error("the token is bound to {0}")]
    Unbound(String),
    /// The issuer's keys are not known. The operator's to settle, or time's.
    #[error("the keys of the issuer are not known: {0}")]
    NoKeys(Arc<str>),
}

/// A token whose signature is not looked at yet.
pub struct Jwt<'t> {
    signed: &'t str,
    signature: Vec<u8>,
    /// How it is signed, by its own word.
    pub algorithm: String,
    key: Option<String>,
    /// What it says: an object.
    pub claims: Value,
}

impl<'t> Jwt<'t> {
    /// Reads a token; `None` for what is none.
    pub fn parse(text: &'t str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (head, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let head: Value = serde_json::from_slice(&decode(head)?).ok()?;
        let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
        // What must be understood and is not makes the token void (RFC 7515, 4.1.11).
        if head.get("crit").is_some() || !claims.is_object() {
            return None;
        }
        Some(Self {
            signed,
            signature: decode(signature)?,
            algorithm: head["alg"].as_str()?.to_owned(),
            key: head["kid"].as_str().map(str::to_owned),
            claims,
        })
    }

    /// Whether one of the keys signed it.
    pub fn is_signed_by(&self, keys: &Keys) -> bool {
        let kid = self.key.as_deref();
        let message = self.signed.as_bytes();
        keys.verify(&self.algorithm, kid, message, &self.signature)
    }

    /// Whether it is for one of these audiences.
    pub fn is_for(&self, audiences: &[impl AsRef<str>]) -> bool {
        self.audiences()
            .iter()
            .any(|stated| audiences.iter().any(|a| a.as_ref() == *stated))
    }

    /// Whom it is for.
    pub fn audiences(&self) -> Vec<&str> {
        match &self.claims["aud"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        }
    }

    /// When it ends, by its own word.
    pub fn expires(&self) -> Option<SystemTime> {
        let seconds = self.claims["exp"].as_f64()?;
        let end = Duration::try_from_secs_f64(seconds.trunc()).ok()?;
        UNIX_EPOCH.checked_add(end)
    }

    /// Whether it is in force at a time in seconds. One without an end never is.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn check_time(&self, now: u64) -> Result<(), TokenError> {
        // Whole seconds are enough, and some issuers write fractions.
        let time = |claim: &str| self.claims[claim].as_f64().map(|t| t as u64);
        let expires = time("exp").ok_or_else(|| TokenError::Claim("exp".to_owned()))?;
        if expires.saturating_add(SKEW) <= now {
            return Err(TokenError::Expired);
        }
        for claim in ["nbf", "iat"] {
            if time(claim).is_some_and(|at| at > now + SKEW) {
                return Err(TokenError::Early);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_refused_before_anything_is_asked() {
        for text in [
            "",
            "a.b",
            "a.b.c",
            "....",
            "e30.e30.e30",
            &"a".repeat(20_000),
        ] {
            assert!(Jwt::parse(text).is_none(), "{text}");
        }
    }
}

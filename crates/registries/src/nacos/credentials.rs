//! What proves to Nacos who asks: a token that a login gets, or signatures with an access key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderName;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::message::{self, Granted};
use crate::http::{Ask, ask_once};
use model::redacted::Redacted;

/// Where to log in: Nacos 1 and 2, then Nacos 3.
const LOGINS: [&str; 2] = ["/nacos/v1/auth/users/login", "/nacos/v3/auth/user/login"];
/// The largest answer to a login.
const LARGEST: usize = 64 << 10;
/// The shortest and the longest time that a token is taken to hold.
const HOLDS: (u64, u64) = (2, 7 * 24 * 3600);

/// How a registry is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Credentials {
    /// User and password.
    pub user: Option<(Arc<str>, Redacted)>,
    /// Access key and secret key.
    pub key: Option<(Arc<str>, Redacted)>,
}

/// A token of a login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    text: Redacted,
    /// When to get the next one.
    pub(super) renew: Duration,
}

impl Token {
    /// How long to wait where the next one did not come.
    pub(super) fn again(&self) -> Duration {
        (self.renew / 16).max(Duration::from_secs(1))
    }
}

/// Headers of one request.
#[derive(Clone, Default)]
pub(super) struct Proof {
    pub(super) headers: BTreeMap<String, String>,
}

impl Proof {
    /// Nothing to prove.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// A token alone.
    pub(super) fn of(token: Option<&Token>) -> Self {
        let header = |token: &Token| ("accessToken".to_owned(), token.text.reveal().to_owned());
        Self {
            headers: token.map(header).into_iter().collect(),
        }
    }

    /// The headers as a query, each behind `&`, for requests over HTTP.
    pub(super) fn query(&self) -> String {
        let pairs = self.headers.iter();
        pairs.map(|(k, v)| format!("&{k}={}", escaped(v))).collect()
    }
}

/// A text within a query.
pub(crate) fn escaped(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

impl Credentials {
    /// Logs in, where there is a user.
    pub(super) async fn login(&self, authority: &str) -> Result<Option<Token>, String> {
        let Some((user, password)) = &self.user else {
            return Ok(None);
        };
        let form = format!(
            "username={}&password={}",
            escaped(user),
            escaped(password.reveal())
        );
        let mut last = String::new();
        for target in LOGINS {
            let ask = Ask {
                target,
                form: Some(form.clone()),
                headers: &[],
            };
            let (status, body) = ask_once(authority, ask, LARGEST)
                .await
                .map_err(|error| format!("cannot log in: {error}"))?;
            if status.is_success() {
                return token(&body).map(Some);
            }
            last = format!("the login at {authority} is answered {}", status.as_u16());
            if !matches!(status.as_u16(), 404 | 410 | 501) {
                break;
            }
        }
        Err(last)
    }

    /// What proves a request about a service, or about all of them.
    pub(super) fn prove(&self, token: Option<&Token>, service: Option<&str>) -> Proof {
        let mut proof = Proof::of(token);
        if let Some((access, secret)) = &self.key {
            proof.headers.extend(signed(access, secret, now(), service));
        }
        proof
    }

    /// Headers that prove a request about the configuration of a group with an access key.
    pub(super) fn sign(&self, tenant: &str, group: &str) -> Vec<(HeaderName, String)> {
        let key = self.key.as_ref();
        key.map(|(access, secret)| signed_for(access, secret, now(), tenant, group))
            .unwrap_or_default()
    }
}

fn now() -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_millis()
}

/// A token as a server grants it: renewed when four fifths of its time are over.
fn token(body: &[u8]) -> Result<Token, String> {
    let granted: Granted = message::read(body).map_err(|e| format!("the login got {e}"))?;
    if granted.access_token.is_empty() {
        return Err("the login got no token".to_owned());
    }
    let seconds = granted.token_ttl.clamp(HOLDS.0, HOLDS.1);
    Ok(Token {
        text: Redacted::new(granted.access_token),
        renew: Duration::from_secs(seconds) * 4 / 5,
    })
}

/// Headers with a signature. Nacos: client/.../auth/ram/injector/NamingResourceInjector.java, 2.3.
fn signed(
    access: &str,
    secret: &Redacted,
    now: u128,
    service: Option<&str>,
) -> [(String, String); 3] {
    let data = match service {
        Some(service) => format!("{now}@@{service}"),
        None => now.to_string(),
    };
    let signature = signature(secret, &data);
    [
        ("ak".to_owned(), access.to_owned()),
        ("data".to_owned(), data),
        ("signature".to_owned(), signature),
    ]
}

/// Headers with a signature. Nacos: client/.../auth/ram/injector/ConfigResourceInjector.java, SpasAdapter.java, 2.3.
fn signed_for(
    access: &str,
    secret: &Redacted,
    now: u128,
    tenant: &str,
    group: &str,
) -> Vec<(HeaderName, String)> {
    let now = now.to_string();
    let signed = [tenant, group, &now];
    let signed: Vec<&str> = signed.into_iter().filter(|part| !part.is_empty()).collect();
    let signature = signature(secret, &signed.join("+"));
    vec![
        (HeaderName::from_static("spas-accesskey"), access.to_owned()),
        (HeaderName::from_static("timestamp"), now),
        (HeaderName::from_static("spas-signature"), signature),
    ]
}

fn signature(secret: &Redacted, text: &str) -> String {
    let key = hmac::Key::new(
        hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        secret.reveal().as_bytes(),
    );
    BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_before_they_end() {
        for (ttl, renew) in [(18_000, 14_400), (5, 4), (0, 1), (u64::MAX, 483_840)] {
            let body = format!(r#"{{"accessToken":"abc","tokenTtl":{ttl},"globalAdmin":true}}"#);
            assert_eq!(token(body.as_bytes()).unwrap().renew.as_secs(), renew);
        }
        for body in ["{}", "[", r#"{"accessToken":7}"#] {
            token(body.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn a_signature_is_over_time_and_service() {
        // openssl: printf %s '1700000000000@@g@@svc' | openssl dgst -sha1 -hmac secret -binary | base64
        let headers = signed(
            "me",
            &Redacted::new("secret"),
            1_700_000_000_000,
            Some("g@@svc"),
        );
        let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(headers[0], ("ak", "me"));
        assert_eq!(headers[1], ("data", "1700000000000@@g@@svc"));
        assert_eq!(headers[2], ("signature", "LlGm7DXmebS+M5jv/8kgUrLZfvQ="));
        let all = signed("me", &Redacted::new("secret"), 7, None);
        assert_eq!(all[1].1, "7");
    }

    #[test]
    fn a_signature_of_configuration_is_over_tenant_group_and_time() {
        // openssl: printf %s 'team+mcp-server+1700000000000' | openssl dgst -sha1 -hmac secret -binary | base64
        for (tenant, signature) in [
            ("team", "OFNlaq49gsaqGXyAkq/OkcdUIek="),
            ("", "GVBI70mHhgvlkXdwZrsEk22QsLo="),
        ] {
            let secret = Redacted::new("secret");
            let headers = signed_for("me", &secret, 1_700_000_000_000, tenant, "mcp-server");
            let headers: Vec<_> = headers.iter().map(|(k, v)| (k.as_str(), &**v)).collect();
            let wanted = [
                ("spas-accesskey", "me"),
                ("timestamp", "1700000000000"),
                ("spas-signature", signature),
            ];
            assert_eq!(headers, wanted);
        }
        assert!(Credentials::default().sign("team", "mcp-server").is_empty());
    }

    #[test]
    fn no_secret_shows() {
        let credentials = Credentials {
            user: Some(("me".into(), Redacted::new("hunter2"))),
            key: Some(("ak".into(), Redacted::new("hunter3"))),
        };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("me") && !shown.contains("hunter"), "{shown}");
    }
}

//! Names and passwords for registries, as Secrets hold them, and how registries say that they want some.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use serde_json::Value;

/// The value of an `authorization` header for a registry, from a text in the form of `.dockerconfigjson`; `None` where it says
/// nothing of the registry.
pub fn basic(config: &str, registry: &str) -> Option<HeaderValue> {
    let config: Value = serde_json::from_str(config).ok()?;
    let auths = config.get("auths")?.as_object()?;
    let is_docker = matches!(registry, "docker.io" | "index.docker.io");
    let found = auths.iter().find(|(key, _)| {
        let key = key.split_once("://").map_or(key.as_str(), |(_, rest)| rest);
        let host = key.split('/').next().unwrap_or_default();
        host.eq_ignore_ascii_case(registry)
            || (is_docker && matches!(host, "docker.io" | "index.docker.io"))
    });
    let entry = found?.1;
    let text = |key: &str| entry[key].as_str().filter(|text| !text.is_empty());
    let encoded = match (text("auth"), text("username")) {
        (Some(auth), _) => auth.to_owned(),
        (None, Some(user)) => {
            let password = text("password").unwrap_or_default();
            STANDARD.encode(format!("{user}:{password}"))
        }
        (None, None) => return None,
    };
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// What a registry asks for.
#[derive(PartialEq, Eq, Debug)]
pub enum Challenge {
    /// A name and a password.
    Basic,
    /// A token, which is had elsewhere.
    Bearer {
        /// Where.
        realm: String,
        /// For whom.
        service: Option<String>,
    },
}

impl Challenge {
    /// Reads the value of a `www-authenticate` header; `None` for what is not known here.
    pub fn parse(value: &str) -> Option<Self> {
        let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        let mut rest = rest;
        while let Some((key, after)) = rest.split_once('=') {
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once(',').unwrap_or((after, "")),
            };
            match key.trim_matches([' ', ',']).to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer {
            realm: realm?,
            service,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_gets_its_own_credentials_alone() {
        let config = r#"{"auths": {
            "https://r.example/v1/": {"auth": "bWU6aXQ="},
            "s.example:50": {"username": "you", "password": "that"},
            "https://index.docker.io/v1/": {"auth": "ZG9ja2Vy"},
            "odd.example": {"auth": "a\nb"}, "empty.example": {}}}"#;
        let of = |registry: &str| basic(config, registry).map(|v| v.to_str().unwrap().to_owned());
        assert_eq!(of("r.example").as_deref(), Some("Basic bWU6aXQ="));
        assert_eq!(of("s.example:50").as_deref(), Some("Basic eW91OnRoYXQ="));
        assert_eq!(of("docker.io").as_deref(), Some("Basic ZG9ja2Vy"));
        for other in [
            "s.example",
            "ar.example",
            "odd.example",
            "empty.example",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(basic("no", "r.example"), None);
        assert_eq!(basic("{}", "r.example"), None);
    }

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        for (text, expected) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                "Bearer realm=\"https://a/t\",service=\"r\",scope=\"repository:a:pull,push\"",
                bearer("https://a/t", Some("r")),
            ),
            ("bearer Realm=https://a/t, x=1", bearer("https://a/t", None)),
            ("Bearer service=\"r\"", None),
            ("Bearer realm=\"https://a", None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
    }
}

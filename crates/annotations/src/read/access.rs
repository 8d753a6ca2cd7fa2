//! Who may send requests: addresses, passwords, and a service that decides.

use std::sync::Arc;

use super::external;
use crate::reader::{Fault, Reader};
use crate::values::{ranges, reference, text};
use crate::{Access, BasicAuth, SecretForm};

/// What clients are told that they log in to, where it is not stated.
const REALM: &str = "Authentication Required";

/// Reads who may send requests.
pub(crate) fn read(r: &mut Reader<'_>) -> Access {
    let by_option = r.option("whitelist-source-range", ranges);
    let white = r.get("whitelist-source-range", ranges);
    let allowed = r
        .get("allowlist-source-range", ranges)
        .or(white)
        .or(by_option);
    let mut denied = r
        .get_or_option("denylist-source-range", ranges)
        .unwrap_or_default();
    denied.extend(r.option("block-cidrs", ranges).unwrap_or_default());
    Access {
        allowed: allowed.unwrap_or_default(),
        denied,
        basic: basic(r),
        external: external::read(r),
        any_is_enough: r.get("satisfy", satisfy).unwrap_or_default(),
    }
}

fn satisfy(text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "any" => Ok(true),
        "all" => Ok(false),
        _ => Err("is neither any nor all".into()),
    }
}

fn basic(r: &mut Reader<'_>) -> Option<BasicAuth> {
    let asked = r.get("auth-type", |text| {
        match text.to_ascii_lowercase().as_str() {
            "basic" => Ok(()),
            "digest" => Err("is digest, which Envoy does not have".into()),
            _ => Err("is not basic".into()),
        }
    });
    let secret = r.get("auth-secret", reference);
    let form = r.get("auth-secret-type", |text| match text {
        "auth-file" => Ok(SecretForm::File),
        "auth-map" => Ok(SecretForm::Map),
        _ => Err("is neither auth-file nor auth-map".into()),
    });
    let realm = r.get("auth-realm", realm);
    if asked.is_some() && !r.has("auth-secret") {
        r.close("auth-type", "has no auth-secret beside it");
    }
    if !r.has("auth-type") && secret.is_some() {
        r.warn("auth-secret", "protects nothing without auth-type");
    }
    asked?;
    Some(BasicAuth {
        secret: secret?,
        form: form.unwrap_or_default(),
        realm: realm.unwrap_or_else(|| REALM.into()),
    })
}

fn realm(value: &str) -> Result<Arc<str>, Fault> {
    let valid = value.is_ascii() && value.len() <= 200 && !value.contains(['"', '\\']);
    match valid {
        true => text(value),
        false => Err("has characters that no realm has, or too many".into()),
    }
}

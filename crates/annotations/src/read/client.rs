//! How clients connect: certificates, versions and ciphers.

use std::sync::Arc;

use super::redirect;
use crate::reader::{Fault, Reader};
use crate::values::{boolean, reference};
use crate::{ClientCertificates, HostTls, Version};

/// Reads what holds for whole hosts.
pub(crate) fn read(r: &mut Reader<'_>) -> HostTls {
    let by_option = r.option("ssl-protocols", protocols);
    let mut min = r.get("tls-min-protocol-version", version);
    let mut max = r.get("tls-max-protocol-version", version);
    if let (Some((oldest, newest)), None, None) = (by_option, min, max) {
        (min, max) = (Some(oldest), Some(newest));
    }
    if min.is_some() && max.is_some() && min > max {
        r.warn(
            "tls-max-protocol-version",
            "is older than the oldest, so it is left out",
        );
        max = None;
    }
    let stated = r.get("ssl-cipher", ciphers);
    let stated = stated.or_else(|| r.get_or_option("ssl-ciphers", ciphers));
    HostTls {
        client: client(r),
        ciphers: stated.unwrap_or_default(),
        min,
        max,
        aliases: redirect::aliases(r),
        passthrough: passthrough(r),
    }
}

/// Annotations that say who may send requests, which nothing checks where connections pass as they are.
const CHECKS: [&str; 6] = [
    "allowlist-source-range",
    "auth-tls-secret",
    "auth-type",
    "auth-url",
    "denylist-source-range",
    "whitelist-source-range",
];

fn passthrough(r: &mut Reader<'_>) -> bool {
    let passes = r.get("ssl-passthrough", boolean).unwrap_or_default();
    if passes && let Some(check) = CHECKS.iter().find(|check| r.has(check)) {
        let why = format!("lets connections pass as they are, which leaves {check} unchecked");
        r.close("ssl-passthrough", &why);
    }
    passes
}

fn client(r: &mut Reader<'_>) -> Option<ClientCertificates> {
    if r.has("auth-tls-match-cn") {
        r.close(
            "auth-tls-match-cn",
            "asks for a certificate of one name, which is not supported",
        );
    }
    let secret = r.get("auth-tls-secret", reference);
    let required = r.get("auth-tls-verify-client", |text| match text {
        "on" => Ok(Some(true)),
        "optional" => Ok(Some(false)),
        "off" => Ok(None),
        "optional_no_ca" => Err("is optional_no_ca, but only valid certificates pass".into()),
        _ => Err("is none of on, off and optional".into()),
    });
    if matches!(required, Some(Some(_))) && !r.has("auth-tls-secret") {
        r.close(
            "auth-tls-verify-client",
            "asks clients for certificates, but no auth-tls-secret says which authority signs them",
        );
    }
    let pass = r.get("auth-tls-pass-certificate-to-upstream", boolean);
    Some(ClientCertificates {
        secret: secret?,
        required: required.unwrap_or(Some(true))?,
        pass: pass.unwrap_or_default(),
    })
}

fn version(text: &str) -> Result<Version, Fault> {
    match text {
        "TLSv1" | "TLSv1.0" => Ok(Version::V1_0),
        "TLSv1.1" => Ok(Version::V1_1),
        "TLSv1.2" => Ok(Version::V1_2),
        "TLSv1.3" => Ok(Version::V1_3),
        _ => Err("is none of TLSv1.0, TLSv1.1, TLSv1.2 and TLSv1.3".into()),
    }
}

/// The oldest and the newest version of a list.
fn protocols(text: &str) -> Result<(Version, Version), Fault> {
    let versions = text.split_whitespace().map(version);
    let versions: Vec<Version> = versions.collect::<Result<_, _>>()?;
    let ends = versions
        .iter()
        .min()
        .copied()
        .zip(versions.iter().max().copied());
    ends.ok_or_else(|| "names no version".into())
}

/// Ciphers by OpenSSL's names; those that Envoy does not have do not count.
fn ciphers(text: &str) -> Result<Vec<Arc<str>>, Fault> {
    let names = text.split([':', ' ', ',']);
    let mut ciphers: Vec<Arc<str>> = Vec::new();
    for name in names.filter(|name| model::cipher::SUITES.contains(name)) {
        if !ciphers.iter().any(|other| **other == *name) {
            ciphers.push(name.into());
        }
    }
    match ciphers.is_empty() {
        true => Err("names no cipher that Envoy has".into()),
        false => Ok(ciphers),
    }
}

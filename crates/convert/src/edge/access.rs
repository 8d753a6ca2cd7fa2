//! Who may send requests: users of a Secret, and services that are asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annotations::{BasicAuth, SecretForm};
use model::edge::{ExternalAuth, Users};
use model::kinds::kube::Secret;
use model::template::{Asker, Gateways};
use model::{Kind, ObjectKey};

use super::policy::Making;
use super::rules::BackendPort;
use super::{format, limits, refer};
use crate::refer::Named;

/// Which hashes of passwords are known.
const FORMS: &str =
    "hashes are read as `htpasswd -m` and `htpasswd -s` make them, not those of bcrypt or crypt";

/// How long a service that is asked may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The users of a Secret; where they cannot be used, the routes are closed.
pub(super) fn users(making: &mut Making<'_, '_, '_>, basic: &BasicAuth) -> Option<Users> {
    const NAME: &str = "auth-secret";
    let ingress = making.ingress;
    let others = &mut making.policy.others;
    let name = match refer::resolve(making.read, ingress, Kind::Secret, &basic.secret, others) {
        Ok(name) => name,
        Err(why) => {
            making.close(NAME, "auth-secret is not allowed", why.sentence());
            return None;
        }
    };
    let Some(secret) = making.read.get::<Secret>(&name) else {
        let why = format!("there is no Secret {name}, so no request is served");
        making.close(NAME, "auth-secret is not there", why);
        return None;
    };
    making.policy.others.push(ObjectKey {
        kind: Kind::Secret,
        name: name.clone(),
    });
    let (lines, refused) = lines_of(&secret.spec, basic.form);
    if lines.is_empty() || lines.len() > limits::USER_BYTES {
        let why = match lines.is_empty() {
            true => format!(
                "the Secret {name} has no user that can be checked, so no request is served: {FORMS}"
            ),
            false => format!("the Secret {name} has too many users, so no request is served"),
        };
        making.close(NAME, "auth-secret has no usable user", why);
        return None;
    }
    if refused > 0 {
        let why = format!("{refused} users of the Secret {name} cannot log in: {FORMS}");
        making.warn(NAME, why);
    }
    let is_stated = making.annotated.annotations.keys.contains_key("auth-realm");
    Some(Users {
        realm: match is_stated {
            true => basic.realm.clone(),
            false => "".into(),
        },
        lines: lines.into(),
        asker: Asker {
            kind: Kind::Ingress,
            name: making.ingress.clone(),
            path: making.annotated.path(NAME).into(),
            gateways: Gateways::Edge,
        },
    })
}

/// The users that can be checked, each as `NAME:HASH` on a line, and how many others there are.
fn lines_of(secret: &Secret, form: SecretForm) -> (String, usize) {
    let text = |name: &str| {
        let value = secret.data.get(name)?;
        std::str::from_utf8(&value.0).ok()
    };
    let mut pairs: BTreeMap<String, String> = BTreeMap::new();
    let mut refused = 0;
    let mut take = |user: &str, hash: &str| {
        if is_user(user) && is_hash(hash) && pairs.len() < limits::USERS {
            pairs
                .entry(user.to_owned())
                .or_insert_with(|| hash.to_owned());
        } else {
            refused += 1;
        }
    };
    match form {
        SecretForm::File => {
            for line in text("auth").unwrap_or_default().lines().map(str::trim) {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (user, hash) = line.split_once(':').unwrap_or((line, ""));
                take(user, hash);
            }
        }
        SecretForm::Map => {
            for name in secret.data.keys() {
                take(name, text(name).unwrap_or_default().trim());
            }
        }
    }
    let lines = pairs.iter().map(|(user, hash)| format!("{user}:{hash}"));
    (lines.collect::<Vec<_>>().join("\n"), refused)
}

fn is_user(user: &str) -> bool {
    !user.is_empty() && user.len() <= 256 && !user.contains(|c: char| c == ':' || c.is_control())
}

/// Whether a hash is one that can be checked: SHA-1 in base64, or the MD5 that `htpasswd` makes by default.
fn is_hash(hash: &str) -> bool {
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    if let Some(digest) = hash.strip_prefix("{SHA}") {
        return digest.len() == 28 && digest.ends_with('=') && digest[..27].bytes().all(base64);
    }
    let salted = hash.strip_prefix(Users::APR1);
    let parts = salted.and_then(|rest| rest.split_once('$'));
    parts.is_some_and(|(salt, digest)| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/');
        let salt_fits = (1..=8).contains(&salt.len()) && salt.bytes().all(plain);
        salt_fits && digest.len() == 22 && digest.bytes().all(plain)
    })
}

/// The service that is asked; where it cannot be, the routes are closed.
pub(super) fn external(
    making: &mut Making<'_, '_, '_>,
    stated: &annotations::ExternalAuth,
) -> Option<ExternalAuth> {
    const NAME: &str = "auth-url";
    if stated.tls {
        let why = "is asked over https, which proxies do not speak to it, so no request is served; within the \
                   cluster http does";
        making.close(NAME, "auth-url cannot be asked over https", why);
        return None;
    }
    let ingress = making.ingress;
    let others = &mut making.policy.others;
    let found = refer::target(making.read, ingress, Named::Host(&stated.host), others);
    let found = found.map_err(String::from).and_then(|target| {
        match target.object() {
            Some(service) => {
                let port = BackendPort::Number(stated.port);
                refer::port(making.read, &service.name, Some(&port))?;
            }
            None if target.is_there() => {}
            None => {
                let host = &stated.host;
                return Err(format!("no Service or ServiceEntry has the host {host:?}"));
            }
        }
        Ok(target.host().clone())
    });
    let host = match found {
        Ok(host) => host,
        Err(why) => {
            let why = format!("{why}, so no request is served");
            making.close(NAME, "auth-url cannot be asked", why);
            return None;
        }
    };
    let mut headers: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    if let Some(map) = &stated.headers {
        const NAME: &str = "auth-proxy-set-headers";
        headers = match making.config_map(NAME, map) {
            Ok(headers) => {
                let literal = |(name, value): (_, Arc<str>)| (name, format::literal(&value).into());
                headers.into_iter().map(literal).collect()
            }
            Err(why) => {
                let why = format!("{why}, so no request is served");
                making.close(NAME, "auth-proxy-set-headers cannot be read", why);
                return None;
            }
        };
    }
    if let Some(redirect) = &stated.request_redirect {
        let redirect = format::literal(redirect).into();
        headers.insert("x-auth-request-redirect".into(), redirect);
    }
    let authority = match stated.port == 80 {
        true => stated.host.clone(),
        false => format!("{}:{}", stated.host, stated.port).into(),
    };
    Some(ExternalAuth {
        host,
        port: stated.port,
        authority,
        path: stated.path.clone(),
        method: stated.method.clone(),
        tls: stated.tls,
        to_backend: stated.response_headers.clone(),
        signin: stated.signin.as_ref().map(|signin| signin.url.clone()),
        always_set_cookie: stated.always_set_cookie,
        headers,
        timeout: TIMEOUT,
    })
}

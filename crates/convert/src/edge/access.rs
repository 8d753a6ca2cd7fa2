//! Who may send requests: users of a Secret, and services that are asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annotations::{BasicAuth, SecretForm};
use model::edge::{ExternalAuth, Users};
use model::kinds::kube::Secret;
use model::{Kind, ObjectKey, ObjectName};

use super::policy::Making;
use super::rules::BackendPort;
use super::{format, limits, refer};

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
            making.close(NAME, "auth-secret is not allowed", why);
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
    let text = |name: &str| {
        let value = secret.spec.data.get(name)?;
        std::str::from_utf8(&value.0).ok()
    };
    let mut pairs: BTreeMap<String, String> = BTreeMap::new();
    let mut refused = 0;
    let mut take = |user: &str, hash: &str| {
        let usable = is_user(user) && is_hash(hash) && pairs.len() < limits::USERS;
        if usable {
            pairs
                .entry(user.to_owned())
                .or_insert_with(|| hash.to_owned());
        } else {
            refused += 1;
        }
    };
    match basic.form {
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
            for name in secret.spec.data.keys() {
                take(name, text(name).unwrap_or_default().trim());
            }
        }
    }
    let lines: Vec<String> = pairs
        .iter()
        .map(|(user, hash)| format!("{user}:{hash}"))
        .collect();
    let lines = lines.join("\n");
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
    })
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
    let host = match refer::service_named(making.read, ingress, &stated.host) {
        None if refer::is_declared(making.read, &stated.host) => stated.host.clone(),
        None => {
            let why = format!(
                "no Service or ServiceEntry has the host {:?}, so no request is served",
                stated.host
            );
            making.close(NAME, "auth-url has an unknown host", why);
            return None;
        }
        Some(service) => {
            let others = &mut making.policy.others;
            let found = refer::resolve(making.read, ingress, Kind::Service, &service, others);
            let found = found.and_then(|name: ObjectName| {
                let port = BackendPort::Number(stated.port);
                refer::port(making.read, &name, Some(&port))?;
                Ok(refer::host_of(making.read, &name))
            });
            match found {
                Ok(host) => host.into(),
                Err(why) => {
                    let why = format!("{why}; no request is served");
                    making.close(NAME, "auth-url cannot be asked", why);
                    return None;
                }
            }
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

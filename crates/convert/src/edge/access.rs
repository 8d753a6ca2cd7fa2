//! Who may send requests: users of a Secret, and services that are asked.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use annotations::{AuthHost, BasicAuth, SecretForm};
use model::edge::{ExternalAuth, Users};
use model::kinds::kube::{Ingress, Secret};
use model::own_port::is_answered;
use model::special::is_special_host;
use model::template::{Asker, Gateways};
use model::{Kind, ObjectKey, ObjectName};
use store::index::ObjectIndex;

use super::auth::{Asked, UNKNOWN_SERVICE};
use super::policy::Making;
use super::rules::BackendPort;
use super::{format, limits, refer};
use crate::reader::Reader;
use crate::refer::{Named, Target};
use crate::strata::Routes;

/// Which hashes of passwords are known.
const FORMS: &str =
    "hashes are read as `htpasswd -m` and `htpasswd -s` make them, not those of bcrypt or crypt";

/// The key of a Secret with users that has them all, as lines of a file.
const FILE: &str = "auth";

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
        let why = format!("there is no Secret {name}, so requests get 503");
        making.close(NAME, "auth-secret is not there", why);
        return None;
    };
    making.policy.others.push(ObjectKey {
        kind: Kind::Secret,
        name: name.clone(),
    });
    if basic.form == SecretForm::File && !secret.spec.data.contains_key(FILE) {
        let why = format!("the Secret {name} has no key `{FILE}`, so requests get 503");
        making.close(NAME, "auth-secret has no key auth", why);
        return None;
    }
    let (lines, refused) = lines_of(&secret.spec, basic.form);
    if lines.is_empty() || lines.len() > limits::USER_BYTES {
        let why = match lines.is_empty() {
            true => format!(
                "the Secret {name} has no user that can be checked, so requests get 503: {FORMS}"
            ),
            false => format!("the Secret {name} has too many users, so requests get 503"),
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
            for line in text(FILE).unwrap_or_default().lines().map(str::trim) {
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

/// Says which service is asked; where none can be, the routes are closed.
pub(super) fn external(making: &mut Making<'_, '_, '_>, stated: &annotations::ExternalAuth) {
    const NAME: &str = "auth-url";
    let Some(headers) = headers(making, stated) else {
        return;
    };
    let usual = if stated.tls { 443 } else { 80 };
    let port = stated.port.unwrap_or(usual);
    let mut asked = ExternalAuth {
        host: Arc::default(),
        port,
        authority: "%HOST%".into(),
        path: stated.path.clone(),
        method: stated.method.clone(),
        tls: false,
        to_backend: stated.response_headers.clone(),
        signin: stated.signin.as_ref().map(|signin| signin.url.clone()),
        always_set_cookie: stated.always_set_cookie,
        headers,
        timeout: TIMEOUT,
    };
    let place = match &stated.host {
        AuthHost::OfRequest => Ok(Place::Rules(None)),
        AuthHost::Named(host) => {
            asked.authority = match port == usual {
                true => host.clone(),
                false => format!("{host}:{port}").into(),
            };
            place(making, stated.tls, host, port)
        }
    };
    match place {
        Ok(Place::Mesh(host)) => {
            making.policy.edge.external = Some(ExternalAuth { host, ..asked });
        }
        Ok(Place::Outside(host)) => {
            making.policy.edge.external = Some(ExternalAuth {
                host,
                tls: true,
                ..asked
            });
        }
        Ok(Place::Rules(host)) => {
            making.policy.asked = Some(Asked {
                ingress: making.ingress.clone(),
                at: making.annotated.path(NAME),
                is_secure: stated.tls,
                port: stated.port,
                host,
                service: asked,
            });
        }
        Err(why) => {
            let why = format!("{why}, so requests get 503");
            making.close(NAME, UNKNOWN_SERVICE, why);
        }
    }
}

/// Where a service is.
enum Place {
    /// In the mesh, with this host.
    Mesh(Arc<str>),
    /// Outside of it, with this host.
    Outside(Arc<str>),
    /// Where the rules of a host say; of the rule's own host where none is stated.
    Rules(Option<Arc<str>>),
}

/// Where a service is that a URL names by its host.
///
/// Where Ingresses of the namespace that asks serve the host, their rules say it, unless the namespace has a Service or ServiceEntry
/// of that name: nobody else's object decides whom the service is asked about.
fn place(
    making: &mut Making<'_, '_, '_>,
    is_secure: bool,
    host: &Arc<str>,
    port: u16,
) -> Result<Place, String> {
    let (read, ingress) = (making.read, making.ingress);
    let serving = read.names_by::<Ingress>(ObjectIndex::Host, host);
    let is_served = serving
        .iter()
        .any(|name| name.namespace == ingress.namespace);
    let target = refer::target(read, ingress, Named::Host(host), &mut making.policy.others);
    if is_served && !target.as_ref().is_ok_and(Target::is_own) {
        return Ok(Place::Rules(Some(host.clone())));
    }
    let target = target?;
    if let Some(service) = target.object() {
        let name = &service.name;
        if is_secure {
            return Err(format!(
                "the URL asks the Service {name} over https, which is not supported (http is)"
            ));
        }
        refer::port(read, name, Some(&BackendPort::Number(port)))?;
        return Ok(Place::Mesh(target.host().clone()));
    }
    if target.is_there() {
        return Ok(match is_secure {
            true => Place::Outside(outside(read, ingress, host, port)?),
            false => Place::Mesh(target.host().clone()),
        });
    }
    if !serving.is_empty() {
        return Ok(Place::Rules(Some(host.clone())));
    }
    match is_secure {
        true => outside(read, ingress, host, port).map(Place::Outside),
        false => Err(format!("no Service or ServiceEntry has the host {host:?}")),
    }
}

/// A host outside of the mesh that certificates may be for, or why it is none. It does not lead to the machine of the gateway, unless
/// the namespace of the Ingress may have such endpoints.
pub(super) fn outside(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    host: &Arc<str>,
    port: u16,
) -> Result<Arc<str>, String> {
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    if is_address || !host.contains('.') {
        return Err(format!(
            "the URL names {host:?} with https, which is not a host name of the DNS"
        ));
    }
    let is_local = is_special_host(host) || is_answered(port);
    let local = &read.settings().features.local_endpoints;
    match is_local && !local.allows(&ingress.namespace) {
        true => Err(format!(
            "{host}:{port} may be on the machine of the gateway; PILOTHOUSE_LOCAL_ENDPOINTS can allow that for the namespace"
        )),
        false => Ok(host.clone()),
    }
}

/// The headers that requests to the service have beside their own; where they cannot be read, the routes are closed.
fn headers(
    making: &mut Making<'_, '_, '_>,
    stated: &annotations::ExternalAuth,
) -> Option<BTreeMap<Arc<str>, Arc<str>>> {
    const NAME: &str = "auth-proxy-set-headers";
    let mut headers: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    if let Some(map) = &stated.headers {
        headers = match making.config_map(NAME, map) {
            Ok(headers) => {
                let literal = |(name, value): (_, Arc<str>)| (name, format::literal(&value).into());
                headers.into_iter().map(literal).collect()
            }
            Err(why) => {
                let why = format!("{why}, so requests get 503");
                making.close(NAME, "auth-proxy-set-headers cannot be read", why);
                return None;
            }
        };
    }
    if let Some(redirect) = &stated.request_redirect {
        let redirect = format::literal(redirect).into();
        headers.insert("x-auth-request-redirect".into(), redirect);
    }
    Some(headers)
}

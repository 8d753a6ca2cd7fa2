//! Who gets in: by address, by name and password, or because a service says so; all of them, or any.

use std::collections::BTreeSet;

use model::edge::{EdgeRoute, ExternalAuth, Users};
use model::redacted::Redacted;
use model::template::Mark;
use prost_types::Struct;
use prost_types::value::Kind;
use proto_envoy::envoy::extensions::filters::http::basic_auth::v3::BasicAuthPerRoute;
use xds::any;

use super::text::{line, token, word};
use super::{ACCESS, ADDRESSES, RouteParts, USERS, addresses, inline, object, string};

/// Asks services, and decides where any of several is enough; what a route asks for is in its metadata.
pub(super) const SCRIPT: &str = include_str!("access.lua");
/// A user as nobody can be: the hash is none.
pub(super) const NOBODY: &str = "-:{SHA}----------------------------";
/// What names of what is written down of allowed clients start with; the script reads them.
const NOTED_PREFIX: &str = "pilothouse_addresses_";
/// What the hashes begin with that Envoy takes, and how long they are.
const SHA: (&str, usize) = ("{SHA}", 28);
/// How long what follows the mark may be of hashes that the script takes: a salt, a sign and the hash.
const APR1_CHARS: std::ops::RangeInclusive<usize> = 24..=31;

/// Adds what routes say about access.
pub(super) fn add(
    asked: &EdgeRoute,
    cluster: impl Fn(&str, u16) -> String,
    parts: &mut RouteParts,
) {
    let several = [
        asked.addresses.is_some(),
        asked.users.is_some(),
        asked.external.is_some(),
    ];
    let any_is_enough = asked.any_is_enough && several.into_iter().filter(|s| *s).count() > 1;
    let mut script = Vec::new();
    if let Some(rules) = &asked.addresses {
        let config = match any_is_enough {
            true => addresses::noted(rules, NOTED_PREFIX),
            false => addresses::enforced(rules),
        };
        parts.configs.insert(ADDRESSES.to_owned(), any(&config));
        if any_is_enough {
            script.push(("addresses", Kind::BoolValue(true)));
        }
    }
    if let Some(users) = &asked.users {
        // Envoy's filter tells clients no realm but the URL.
        if any_is_enough || users.need_script() || !users.realm.is_empty() {
            script.push(("users", string(&hidden(users, all(users)))));
            script.push(("owner", string(&users.asker.name.namespace)));
            script.push((
                "realm",
                string(&line(&users.realm).replace(['"', '\\'], "'")),
            ));
        } else {
            let config = BasicAuthPerRoute {
                users: Some(inline(&hidden(users, lines(users)))),
            };
            parts.configs.insert(USERS.to_owned(), any(&config));
        }
    }
    if let Some(external) = &asked.external {
        let external = question(external, cluster);
        script.push(("external", Kind::StructValue(external)));
    }
    if !script.is_empty() {
        script.push(("any", Kind::BoolValue(any_is_enough)));
        let script = object([("access", Kind::StructValue(object(script)))]);
        parts.metadata.insert(ACCESS.to_owned(), script);
    }
}

/// Names with their hashes, of those lines that somebody can check, each name once.
fn known(users: &Users) -> Vec<(&str, &str)> {
    let mut names = BTreeSet::new();
    let lines = users.lines.lines().filter_map(|line| {
        let (name, hash) = line.trim().split_once(':')?;
        let by_envoy = hash.strip_prefix(SHA.0).map(|hash| hash.len() == SHA.1);
        let by_script = || Some(APR1_CHARS.contains(&hash.strip_prefix(Users::APR1)?.len()));
        let fits = by_envoy.or_else(by_script)?;
        let fits = fits && !name.is_empty() && !name.starts_with('#');
        (fits && names.insert(name)).then_some((name, hash))
    });
    lines.collect()
}

/// Those whose hashes Envoy takes, as its filter reads them.
fn lines(users: &Users) -> String {
    let lines = known(users).into_iter();
    let lines = lines.filter(|(_, hash)| hash.starts_with(SHA.0));
    let lines: Vec<String> = lines.map(|(name, hash)| format!("{name}:{hash}")).collect();
    if lines.is_empty() {
        // Nobody gets in.
        return NOBODY.to_owned();
    }
    lines.join("\n")
}

/// Those that the script checks, as in a file of users.
fn all(users: &Users) -> String {
    let lines = known(users).into_iter();
    let lines = lines.map(|(name, hash)| format!("{name}:{hash}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What stands in the place of lines until they are put in for the proxies that may have them.
fn hidden(users: &Users, lines: String) -> String {
    let mark = Mark::hidden(&users.asker, Redacted::new(lines));
    mark.sealed().unwrap_or_else(|| NOBODY.to_owned())
}

/// A URL with the path of the request escaped where that is a part of its query.
fn escaping(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let query = query.replace("%REQ(:path)%", "%ESCAPED_REQ(:path)%");
    format!("{place}?{query}")
}

fn question(external: &ExternalAuth, cluster: impl Fn(&str, u16) -> String) -> Struct {
    let list = external.to_backend.iter().filter_map(|name| token(name));
    let list = list.map(|name| prost_types::Value {
        kind: Some(string(&name.to_ascii_lowercase())),
    });
    let to_backend = prost_types::ListValue {
        values: list.collect(),
    };
    let named: Vec<(String, Kind)> = external
        .headers
        .iter()
        .filter_map(|(name, value)| Some((token(name)?.to_ascii_lowercase(), string(&line(value)))))
        .collect();
    let headers = named.iter().map(|(name, value)| (&**name, value.clone()));
    let path = match word(&external.path) {
        path if path.starts_with('/') => path,
        path => format!("/{path}"),
    };
    let authority = match word(&external.authority) {
        none if none.is_empty() => external.host.to_string(),
        authority => authority,
    };
    let asked_at = match external.outside() {
        Some(outside) => outside.cluster(),
        None => cluster(&external.host, external.port),
    };
    // What is not finite stands for nothing in numbers of metadata; times are far from that.
    let timeout = external.timeout.as_millis().clamp(1, 3_600_000);
    let timeout = f64::from(u32::try_from(timeout).unwrap_or(u32::MAX));
    let mut fields = vec![
        ("cluster", string(&asked_at)),
        ("authority", string(&authority)),
        ("path", string(&path)),
        (
            "scheme",
            string(if external.tls { "https" } else { "http" }),
        ),
        ("timeout_ms", Kind::NumberValue(timeout)),
        ("to_backend", Kind::ListValue(to_backend)),
        ("headers", Kind::StructValue(object(headers))),
        (
            "always_set_cookie",
            Kind::BoolValue(external.always_set_cookie),
        ),
    ];
    fields.extend(
        external
            .method
            .as_deref()
            .and_then(token)
            .map(|m| ("method", string(m))),
    );
    fields.extend(
        external
            .signin
            .as_deref()
            .map(|url| ("signin", string(&escaping(&line(url))))),
    );
    object(fields)
}

//! What a route does with requests, as the Gateway API says it.

use model::{Namespace, ObjectName};
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::http_redirect::RedirectPort;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{
    CorsPolicy, Destination, HttpMirrorPolicy, HttpRedirect, HttpRetry, HttpRoute, StringMatch,
};
use proto_istio::wkt;
use serde_json::{Map, Value, json};

use super::rule::{Does, is_plain, is_value};
use super::services::Services;
use super::{is_host, lost, path_of_service};
use crate::World;
use crate::manifests::lost::Lost;

/// Statuses with which the API redirects.
const REDIRECTS: [u32; 5] = [301, 302, 303, 307, 308];

/// How many headers of a kind a filter changes at most, and how many backends a rule has.
const MOST: usize = 16;

/// The beginning of an expression of hosts below one, as it is derived from `*.`.
const BELOW: &str = "[A-Za-z0-9.-]+\\.";

/// Reads what routes do.
pub(super) struct Doing<'a> {
    pub(super) world: &'a World,
    pub(super) services: &'a Services,
    /// The namespace in which the rule is.
    pub(super) home: &'a Namespace,
}

impl Doing<'_> {
    /// What a route does, without a rewrite of its path; nothing where it is to be closed. What is lost is told.
    pub(super) fn of(&self, http: &HttpRoute, lost: &mut Vec<Lost>) -> Does {
        let mut does = Does::default();
        if let Some(redirect) = &http.redirect {
            match redirected(redirect) {
                Some(filter) => does.filters.push(filter),
                None => lost.push(lost::REDIRECT),
            }
            self.headers(http, &mut does, lost);
            return does;
        }
        if http.route.is_empty() {
            let status = http.direct_response.as_ref().map(|answer| answer.status);
            if status.is_some_and(|status| status != 503) {
                lost.push(lost::ANSWER);
            }
            return does;
        }
        self.headers(http, &mut does, lost);
        for mirror in &http.mirrors {
            match self.mirror(mirror) {
                Some(filter) => does.filters.push(filter),
                None => lost.push(lost::MIRROR),
            }
        }
        if let Some(policy) = &http.cors_policy {
            match cors(policy) {
                Some(filter) => does.filters.push(filter),
                None => lost.push(lost::CORS),
            }
        }
        self.times(http, &mut does, lost);
        self.backends(http, &mut does, lost);
        does
    }

    fn headers(&self, http: &HttpRoute, does: &mut Does, lost: &mut Vec<Lost>) {
        let Some(headers) = &http.headers else { return };
        let parts = [
            (
                "RequestHeaderModifier",
                "requestHeaderModifier",
                &headers.request,
            ),
            (
                "ResponseHeaderModifier",
                "responseHeaderModifier",
                &headers.response,
            ),
        ];
        for (kind, field, operations) in parts {
            let Some(operations) = operations else {
                continue;
            };
            let changed = changed(operations, lost);
            if changed.as_object().is_some_and(|map| !map.is_empty()) {
                does.filters.push(json!({ "type": kind, field: changed }));
            }
        }
    }

    /// The Service of a destination as a reference.
    fn reference(&self, to: Option<&Destination>) -> Option<Map<String, Value>> {
        let to = to?;
        let service: ObjectName = path_of_service(self.world, &to.host)?;
        let port = to.port.as_ref().map(|port| port.number)?;
        let mut reference = Map::new();
        reference.insert("name".to_owned(), (&*service.name).into());
        if service.namespace != *self.home {
            reference.insert("namespace".to_owned(), (&*service.namespace).into());
        }
        reference.insert("port".to_owned(), port.into());
        to.subset.is_empty().then_some(reference)
    }

    fn mirror(&self, mirror: &HttpMirrorPolicy) -> Option<Value> {
        let reference = self.reference(mirror.destination.as_ref())?;
        let mut request = json!({ "backendRef": reference });
        let percent = mirror.percentage.as_ref().map_or(100.0, |p| p.value);
        if percent < 100.0 {
            // A share is a whole number of hundredths.
            request["percent"] = format!("{percent:.0}").parse::<u32>().ok()?.into();
        }
        Some(json!({ "type": "RequestMirror", "requestMirror": request }))
    }

    fn backends(&self, http: &HttpRoute, does: &mut Does, lost: &mut Vec<Lost>) {
        for to in &http.route {
            let destination = to.destination.as_ref();
            let Some(mut reference) = self.reference(destination) else {
                lost.push(lost::BACKEND);
                return;
            };
            if http.route.len() > 1 {
                reference.insert("weight".to_owned(), to.weight.max(0).into());
            }
            does.backends.push(reference.into());
            let said = destination.and_then(|to| self.services.get(&to.host));
            if let Some(said) = said {
                lost.extend(said.lost.iter().copied());
                does.session = does.session.take().or_else(|| said.session.clone());
            }
        }
        if does.backends.len() > MOST {
            lost.push(lost::BACKEND);
        }
    }

    fn times(&self, http: &HttpRoute, does: &mut Does, lost: &mut Vec<Lost>) {
        let whole = http.timeout.as_ref().map(nanoseconds).filter(|t| *t > 0);
        let retries = http.retries.as_ref();
        let each = retries.and_then(|retries| retries.per_try_timeout.as_ref());
        let each = each.map(nanoseconds).filter(|time| *time > 0);
        let each = each.map(|each| each.min(whole.unwrap_or(each)));
        let mut timeouts = Map::new();
        for (name, time) in [("request", whole), ("backendRequest", each)] {
            if let Some(time) = time {
                timeouts.insert(name.to_owned(), of_nanoseconds(time).into());
            }
        }
        does.timeouts = (!timeouts.is_empty()).then(|| timeouts.into());
        does.retry = retries.and_then(|retries| retried(retries, lost));
    }
}

fn nanoseconds(time: &wkt::Duration) -> i64 {
    time.0.seconds.saturating_mul(1_000_000_000) + i64::from(time.0.nanos)
}

fn of_nanoseconds(time: i64) -> String {
    self::time(time / 1_000_000_000, time / 1_000_000 % 1000)
}

/// A time as the API writes it: numbers have five digits at most.
pub(super) fn time(seconds: i64, milliseconds: i64) -> String {
    let hours = (seconds / 3600).min(99_999);
    let mut text = String::new();
    for (number, unit) in [
        (hours, "h"),
        (seconds % 3600 / 60, "m"),
        (seconds % 60, "s"),
        (milliseconds, "ms"),
    ] {
        if number > 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    match text.is_empty() {
        // The shortest that there is.
        true => "1ms".to_owned(),
        false => text,
    }
}

fn retried(retries: &HttpRetry, lost: &mut Vec<Lost>) -> Option<Value> {
    if retries.attempts <= 0 {
        lost.push(lost::NEVER);
        return None;
    }
    let words = retries.retry_on.split(',');
    let codes: Vec<u16> = words.clone().filter_map(|word| word.parse().ok()).collect();
    // Connections that are not made are tried again anyway.
    if words.into_iter().any(|word| word == "reset") {
        lost.push(lost::RETRIES);
    }
    let mut retry = json!({ "attempts": retries.attempts });
    if !codes.is_empty() {
        retry["codes"] = codes.into();
    }
    Some(retry)
}

/// A redirect, if the API can say it.
fn redirected(redirect: &HttpRedirect) -> Option<Value> {
    let status = match redirect.redirect_code {
        0 => 301,
        status => status,
    };
    let mut to = json!({ "statusCode": status });
    let is_scheme = matches!(&*redirect.scheme, "" | "http" | "https");
    if !REDIRECTS.contains(&status) || !is_scheme || !redirect.prefix_rewrite.is_empty() {
        return None;
    }
    if !redirect.scheme.is_empty() {
        to["scheme"] = (&*redirect.scheme).into();
    }
    let (host, port) = match redirect.authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
        None => (&*redirect.authority, None),
    };
    if !host.is_empty() {
        if !is_host(host) || host.starts_with('*') {
            return None;
        }
        to["hostname"] = host.into();
    }
    let stated = match redirect.redirect_port {
        Some(RedirectPort::Port(port)) => u16::try_from(port).ok(),
        _ => None,
    };
    if let Some(port) = stated.or(port) {
        to["port"] = port.into();
    }
    if !redirect.uri.is_empty() {
        if !is_plain(&redirect.uri) {
            return None;
        }
        to["path"] = json!({ "type": "ReplaceFullPath", "replaceFullPath": redirect.uri });
    }
    Some(json!({ "type": "RequestRedirect", "requestRedirect": to }))
}

/// Changes of headers. Values that begin with a percent sign or have one are formats of Envoy, which others write as they are.
fn changed(operations: &HeaderOperations, lost: &mut Vec<Lost>) -> Value {
    let mut changes = Map::new();
    for (field, pairs) in [("set", &operations.set), ("add", &operations.add)] {
        let mut written: Vec<Value> = Vec::new();
        for (name, value) in pairs {
            if value.contains('%') {
                lost.push(lost::VARIABLES);
            } else if !is_value(value) || written.len() == MOST {
                lost.push(lost::HEADERS);
            } else {
                written.push(json!({ "name": name, "value": value }));
            }
        }
        if !written.is_empty() {
            changes.insert(field.to_owned(), written.into());
        }
    }
    let mut remove = operations.remove.clone();
    remove.sort();
    remove.dedup();
    if remove.len() > MOST {
        lost.push(lost::HEADERS);
        remove.truncate(MOST);
    }
    if !remove.is_empty() {
        changes.insert("remove".to_owned(), remove.into());
    }
    changes.into()
}

fn cors(policy: &CorsPolicy) -> Option<Value> {
    let origins = policy.allow_origins.iter().map(origin);
    let origins: Vec<String> = origins.collect::<Option<_>>()?;
    if origins.is_empty() {
        return None;
    }
    let mut cors = json!({ "allowOrigins": origins });
    if policy.allow_credentials == Some(true) {
        cors["allowCredentials"] = true.into();
    }
    for (field, texts, most) in [
        ("allowMethods", &policy.allow_methods, 9),
        ("allowHeaders", &policy.allow_headers, 64),
        ("exposeHeaders", &policy.expose_headers, 64),
    ] {
        if texts.len() > most {
            return None;
        }
        if !texts.is_empty() {
            cors[field] = texts.clone().into();
        }
    }
    let seconds = policy.max_age.as_ref().map_or(0, |age| age.0.seconds);
    if let Some(seconds) = i32::try_from(seconds).ok().filter(|age| *age > 0) {
        cors["maxAge"] = seconds.into();
    }
    Some(json!({ "type": "CORS", "cors": cors }))
}

/// An origin with a `*`, as the API writes it.
fn origin(stated: &StringMatch) -> Option<String> {
    match stated.match_type.as_ref()? {
        MatchType::Exact(text) => is_origin(text).then(|| text.clone()),
        MatchType::Regex(any) if any == ".*" => Some("*".to_owned()),
        MatchType::Regex(pattern) => {
            let (scheme, below) = pattern.split_once("://")?;
            let host = below.strip_prefix(BELOW)?.replace("\\.", ".");
            let text = format!("{}://*.{host}", scheme.replace('\\', ""));
            is_origin(&text).then_some(text)
        }
        MatchType::Prefix(_) => None,
    }
}

/// Whether the API takes an origin.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let (host, port) = authority.split_once(':').unwrap_or((authority, "1"));
    matches!(scheme, "http" | "https") && is_host(host) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_api_does() {
        for (seconds, milliseconds, wanted) in [
            (0, 0, "1ms"),
            (90, 0, "1m30s"),
            (3600, 5, "1h5ms"),
            (172_800, 0, "48h"),
        ] {
            assert_eq!(time(seconds, milliseconds), wanted);
        }
    }

    #[test]
    fn origins_below_a_host_have_a_star() {
        let regex = |text: &str| StringMatch {
            match_type: Some(MatchType::Regex(text.to_owned())),
        };
        let below = regex(r"https://[A-Za-z0-9.-]+\.example\.com:8443");
        assert_eq!(
            origin(&below).as_deref(),
            Some("https://*.example.com:8443")
        );
        assert_eq!(origin(&regex("a.*")), None);
    }
}

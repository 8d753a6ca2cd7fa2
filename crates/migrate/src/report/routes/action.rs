//! What a route does with requests, in a few words each.

use std::collections::BTreeSet;

use model::edge::{EdgeRoute, RateLimit, Rpc, Transport};
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::http_redirect::RedirectPort;
use proto_istio::networking::{CorsPolicy, HttpRedirect, HttpRoute};
use proto_istio::wkt;

use super::service_of;

/// What a route does.
pub(super) fn of(http: &HttpRoute, edge: Option<&EdgeRoute>, domain: &str) -> Vec<String> {
    let mut does = Vec::new();
    if let Some(edge) = edge {
        of_edge(edge, domain, &mut does);
    }
    if let Some(redirect) = &http.redirect {
        does.push(redirected(redirect));
    }
    if let Some(response) = &http.direct_response {
        does.push(format!("answer {}", response.status));
    }
    if let Some(rewrite) = &http.rewrite {
        if !rewrite.uri.is_empty() {
            does.push(format!("rewrite to {}", rewrite.uri));
        }
        if let Some(regex) = &rewrite.uri_regex_rewrite {
            does.push(format!("rewrite {} to {}", regex.r#match, regex.rewrite));
        }
        if !rewrite.authority.is_empty() {
            does.push(format!("as host {}", rewrite.authority));
        }
    }
    if let Some(headers) = &http.headers {
        let request = headers.request.as_ref();
        does.extend(request.and_then(|h| changed("request", h)));
        let response = headers.response.as_ref();
        does.extend(response.and_then(|h| changed("response", h)));
    }
    does.extend(http.cors_policy.as_ref().map(cors));
    if let Some(timeout) = &http.timeout {
        does.push(format!("timeout {}", seconds(timeout)));
    }
    if let Some(retries) = &http.retries {
        does.push(match retries.attempts {
            0 => "no retries".to_owned(),
            attempts => format!("{attempts} retries on {}", retries.retry_on),
        });
    }
    let mirrors = http.mirrors.iter().filter_map(|m| m.destination.as_ref());
    for mirror in mirrors.chain(&http.mirror) {
        does.push(format!("mirror to {}", service_of(&mirror.host, domain)));
    }
    does
}

/// How many ranges of addresses there are.
fn ranges<T>(of: &BTreeSet<T>) -> String {
    match of.len() {
        1 => "1 range of addresses".to_owned(),
        many => format!("{many} ranges of addresses"),
    }
}

fn of_edge(edge: &EdgeRoute, domain: &str, does: &mut Vec<String>) {
    if let Some(addresses) = &edge.addresses {
        if !addresses.allowed.is_empty() {
            does.push(format!("only from {}", ranges(&addresses.allowed)));
        }
        if !addresses.denied.is_empty() {
            does.push(format!("not from {}", ranges(&addresses.denied)));
        }
    }
    if edge.users.is_some() {
        does.push("basic auth".to_owned());
    }
    if let Some(external) = &edge.external {
        let to = service_of(&external.host, domain);
        does.push(format!("ask {to}:{}{}", external.port, external.path));
    }
    if edge.any_is_enough {
        does.push("passing one of these is enough".to_owned());
    }
    does.extend(edge.limits.iter().map(limited));
    if let Some(most) = edge.max_body {
        does.push(format!("body of {most} bytes at most"));
    }
    if let Some(mcp) = &edge.mcp {
        does.push(match mcp.transport {
            Transport::Streamable => "sessions of MCP by header".to_owned(),
            Transport::Events { .. } => "sessions of MCP by events".to_owned(),
            Transport::Rest => "answer MCP with Higress's library".to_owned(),
        });
    }
    match &edge.rpc {
        Some(Rpc::Dubbo(service)) => does.push(format!("call {} by Dubbo", service.service)),
        Some(Rpc::Unknown) => does.push("fail: no call is known".to_owned()),
        None => {}
    }
    if let Some(fallback) = &edge.fallback {
        let to = service_of(&fallback.host, domain);
        does.push(match fallback.statuses.is_empty() {
            true => format!("else {to}:{}", fallback.port),
            false => {
                let statuses: Vec<String> =
                    fallback.statuses.iter().map(ToString::to_string).collect();
                format!("{to}:{} answers for {}", fallback.port, statuses.join(" "))
            }
        });
    }
}

fn limited(limit: &RateLimit) -> String {
    let by = match limit.per_client {
        true => " from an address",
        false => "",
    };
    format!(
        "{} requests{by} in {} s, {} at once, else {}",
        limit.fill,
        limit.every.as_secs(),
        limit.burst,
        limit.status
    )
}

fn redirected(redirect: &HttpRedirect) -> String {
    let mut to = String::new();
    if !redirect.scheme.is_empty() {
        to.push_str(&redirect.scheme);
        to.push_str("://");
    }
    to.push_str(&redirect.authority);
    if let Some(RedirectPort::Port(port)) = &redirect.redirect_port {
        to.push_str(&format!(":{port}"));
    }
    to.push_str(&redirect.uri);
    to.push_str(&redirect.prefix_rewrite);
    let code = match redirect.redirect_code {
        0 => 301,
        code => code,
    };
    format!("redirect {code} to {to}")
}

/// The names of headers that are changed; their values may be secret.
fn changed(of: &str, headers: &HeaderOperations) -> Option<String> {
    let set = headers.set.keys().map(|name| format!("set {name}"));
    let add = headers.add.keys().map(|name| format!("add {name}"));
    let remove = headers.remove.iter().map(|name| format!("remove {name}"));
    let all: Vec<String> = set.chain(add).chain(remove).collect();
    (!all.is_empty()).then(|| format!("{of} headers: {}", all.join(", ")))
}

fn cors(policy: &CorsPolicy) -> String {
    let origins = policy.allow_origins.len() + policy.allow_origin.len();
    match origins {
        1 => "CORS for 1 origin".to_owned(),
        many => format!("CORS for {many} origins"),
    }
}

fn seconds(time: &wkt::Duration) -> String {
    let milliseconds = time.0.seconds * 1000 + i64::from(time.0.nanos / 1_000_000);
    match milliseconds % 1000 {
        0 => format!("{} s", milliseconds / 1000),
        _ => format!("{milliseconds} ms"),
    }
}

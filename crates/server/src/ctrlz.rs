//! What istiod's ControlZ does for `istioctl admin log`: levels of the log by name (`--ctrlz_port`).
//!
//! Only programs of this machine are answered, as by the debug pages; istioctl comes by a forwarded port.
//!
//! Istio: pkg/ctrlz/topics/scopes.go, 1.32.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::this_machine;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::http::clients::Clients;
use crate::http::{HEAD, Page, collapsed, converse, text, typed};
use crate::levels::{self, PARTS};

/// The scope of all that has no level of its own, as istiod calls it.
const DEFAULT: &str = "default";
/// The largest body of a request.
const LARGEST_BODY: usize = 64 << 10;
/// How long it may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until `stop`.
pub(crate) async fn serve(listener: TcpListener, stop: CancellationToken) {
    let clients = Clients::new();
    while let Some((stream, peer, slot)) = clients.accept(&listener, &stop).await {
        let answer = move |request| answer(request, peer);
        tokio::spawn(converse(stream, Arc::new(slot), HEAD, answer));
    }
}

async fn answer(request: Request<Incoming>, peer: IpAddr) -> Result<Page, Infallible> {
    if let Err(refused) = this_machine::check(peer, request.uri(), request.headers()) {
        return Ok(text(StatusCode::FORBIDDEN, format!("{refused}\n")));
    }
    let path = collapsed(request.uri().path());
    let Some(name) = path.strip_prefix("/scopej") else {
        let words = "not found; levels of the log are at /scopej\n";
        return Ok(text(StatusCode::NOT_FOUND, words));
    };
    let name = name.trim_matches('/').to_owned();
    let method = request.method().clone();
    Ok(match method {
        Method::GET if name.is_empty() => json_page(&all()),
        Method::GET => match scope(&name) {
            Some(scope) => json_page(&scope),
            None => unknown(&name),
        },
        Method::PUT if !name.is_empty() => change(&name, request.into_body()).await,
        _ => text(
            StatusCode::METHOD_NOT_ALLOWED,
            "scopes are read with GET, and one is changed with PUT\n",
        ),
    })
}

/// Takes in what a scope is to be: of that, its level.
async fn change(name: &str, body: Incoming) -> Page {
    let Some(part) = part_of(name) else {
        return unknown(name);
    };
    let reading = Limited::new(body, LARGEST_BODY).collect();
    let wanted = match tokio::time::timeout(PATIENCE, reading).await {
        Ok(Ok(body)) => serde_json::from_slice::<Value>(&body.to_bytes()).ok(),
        _ => None,
    };
    let level = wanted.as_ref().and_then(|w| w["output_level"].as_str());
    let Some(level) = level.and_then(ours) else {
        let words = "output_level is none, error, warn, info or debug\n";
        return text(StatusCode::BAD_REQUEST, words);
    };
    match levels::set_part(part, level) {
        Ok(()) => text(StatusCode::ACCEPTED, ""),
        Err(why) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

fn json_page(value: &Value) -> Page {
    typed(StatusCode::OK, "application/json", value.to_string())
}

fn unknown(name: &str) -> Page {
    let words = format!("unknown scope {name:?}\n");
    text(StatusCode::NOT_FOUND, words)
}

/// The name of the part that a scope is.
fn part_of(scope: &str) -> Option<&'static str> {
    if scope == DEFAULT {
        return Some("");
    }
    let mut parts = PARTS.iter().map(|(part, _)| *part);
    parts.find(|part| *part == scope)
}

fn all() -> Value {
    let parts = PARTS.iter().map(|(part, _)| *part);
    [DEFAULT]
        .into_iter()
        .chain(parts)
        .filter_map(scope)
        .collect()
}

fn scope(name: &str) -> Option<Value> {
    let part = part_of(name)?;
    let about = PARTS.iter().find(|(known, _)| *known == part);
    let about = about.map_or("all that has no level of its own", |(_, about)| about);
    Some(json!({
        "name": name,
        "description": about,
        "output_level": theirs(levels::level_of(&levels::current(), part)),
        "stack_trace_level": "none",
        "log_callers": false,
    }))
}

/// Istio's name of a level.
fn theirs(level: &'static str) -> &'static str {
    match level {
        "off" => "none",
        "trace" => "debug",
        level => level,
    }
}

/// Our name of a level of Istio's.
fn ours(level: &str) -> Option<&'static str> {
    Some(match level {
        "none" => "off",
        "fatal" | "error" => "error",
        "warn" => "warn",
        "info" => "info",
        "debug" => "debug",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_the_parts_of_the_program_and_all_the_rest() {
        let all = all();
        let names: Vec<&str> = all
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|scope| scope["name"].as_str())
            .collect();
        assert_eq!(names.len(), PARTS.len() + 1);
        assert_eq!(names[0], DEFAULT);
        assert_eq!(
            scope("xlate").map(|s| s["output_level"].clone()),
            Some("info".into())
        );
        assert_eq!(scope("elsewhere"), None);
    }

    #[test]
    fn levels_of_istio_are_levels_of_ours() {
        for level in ["none", "error", "warn", "info", "debug"] {
            assert_eq!(ours(level).map(theirs), Some(level));
        }
        assert_eq!(ours("verbose"), None);
    }
}

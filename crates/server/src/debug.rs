//! The pages under `/debug`, in the shapes that istioctl and existing tools read.

mod certificates;
mod dumps;
mod explain;
mod heap;
mod memory;
mod registry;
mod warm;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use mesh::services::{InNamespace, ServiceNamespaces};
use model::civil::timestamp;
use model::service::Service;
use serde_json::{Map, Value, json};
use xds::TypeUrl;

use crate::derive::{Closed, ProxyRow, Revisions, State};
use crate::http::{Pages, text, typed};
use crate::remotes;
use crate::streams::{Connection, TypeState};
use crate::supervisor::SourceStatus;

/// The pages, with what each shows.
const INDEX: &[(&str, &str)] = &[
    ("adsz", "connected proxies and what they watch"),
    ("analysis", "what is wrong between objects"),
    (
        "ca",
        "which CA signs, and the roots that peers are judged by",
    ),
    (
        "certs",
        "certificates that are ordered by ACME: until when each is valid, when it is renewed, and why one failed",
    ),
    (
        "certz",
        "certificates made for workloads, and the roots; with proxyID=, those that a proxy gets",
    ),
    (
        "clusterz",
        "the configured cluster and the remote ones: which Secret names each, and whether it was read",
    ),
    (
        "config_dump?proxyID=",
        "everything one proxy should have, as Envoy's admin page prints it",
    ),
    (
        "configz",
        "objects in force, and what is wrong with objects",
    ),
    ("endpointShardz", "endpoints by service and source"),
    (
        "engine",
        "figures of the engine: derived values, evaluations, by query",
    ),
    (
        "explain?proxyID=",
        "with type= and name=, the objects that made resources of a proxy; with object=, the resources that an object takes part in",
    ),
    (
        "heap",
        "where memory in use was allocated, for pprof; needs a build with the feature heap-profile",
    ),
    (
        "memory",
        "who holds memory: resources by type, view and service, memos by query, proxies",
    ),
    (
        "registries",
        "registries outside of Kubernetes: whether each answers, what is held of it, and why it was lost last",
    ),
    ("registryz", "services"),
    (
        "revisions?after=",
        "the latest revisions: responses they led to, and how long after the change the last was written",
    ),
    ("status", "objects with the status that they get"),
    (
        "sources",
        "the sources of configuration: how far each is, and why one failed",
    ),
    (
        "syncz",
        "what was sent to each proxy and what it acknowledged",
    ),
    (
        "writing",
        "what is written into the API, by whom, and how that goes",
    ),
    (
        "warm",
        "what is kept on disk for the next start, and who is served from it",
    ),
];

/// A page that cannot be shown.
#[derive(Debug)]
pub struct PageError {
    /// Whose fault it is.
    pub status: StatusCode,
    /// For the person who asked.
    pub message: String,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

impl From<Closed> for PageError {
    fn from(closed: Closed) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, closed.to_string())
    }
}

/// What a page holds.
pub enum Page {
    /// JSON.
    Json(Value),
    /// HTML.
    Html(String),
    /// A profile, as `pprof` reads it.
    Profile(Vec<u8>),
}

impl Page {
    /// As a response.
    pub fn into_response(self) -> Response<Full<Bytes>> {
        match self {
            Page::Json(value) => match serde_json::to_vec_pretty(&value) {
                Ok(body) => typed(StatusCode::OK, "application/json", body),
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            },
            Page::Profile(body) => typed(StatusCode::OK, "application/octet-stream", body),
            Page::Html(body) => typed(StatusCode::OK, "text/html; charset=utf-8", body),
        }
    }
}

/// The page of that name; the empty name is the index.
///
/// # Errors
///
/// When there is no such page, or it needs something in the query that is not there.
pub async fn page(name: &str, query: &str, pages: &Arc<Pages>) -> Result<Page, PageError> {
    Ok(match name {
        "" => Page::Html(index()),
        "list" => Page::Json(
            INDEX
                .iter()
                .map(|(name, _)| name.split_once('?').map_or(*name, |(page, _)| page))
                .collect(),
        ),
        "syncz" => Page::Json(pages.connections.all().iter().map(sync_status).collect()),
        "adsz" | "connections" => Page::Json(adsz(&pages.connections.all())),
        "registryz" => Page::Json(pages.derive.ask(registry::services).await?),
        "endpointShardz" | "endpointz" => Page::Json(pages.derive.ask(registry::endpoints).await?),
        "certs" => Page::Json(pages.acme.get().map_or(Value::Null, |acme| acme.page())),
        "certz" => Page::Json(match parameter(query, "proxyID") {
            Some(proxy) => {
                let found = connected(pages, proxy, |_, found| found).await?;
                certificates::of_proxy(&found)
            }
            None => pages.derive.ask(certificates::all).await?,
        }),
        "ca" => Page::Json(crate::authority::page(pages.authority.get())),
        "clusterz" => Page::Json(remotes::clusterz(
            &pages.cluster,
            &pages.supervisor.sources(),
            &pages.remotes.borrow().holders,
        )),
        "configz" if parameter(query, "findings").is_some() => {
            let read = pages.findings.all();
            let generated = pages.derive.ask(State::findings).await?;
            Page::Json(registry::findings(&read, &generated))
        }
        "configz" => {
            let kind = parameter(query, "kind").map(str::to_owned);
            let objects = move |state: &State| registry::objects(state, kind.as_deref());
            Page::Json(pages.derive.ask(objects).await?.into())
        }
        "registries" => Page::Json(crate::registries::page(&pages.registries.borrow())),
        "config_dump" => {
            let which = "which proxy? add ?proxyID=NAME.NAMESPACE (see /debug/syncz)";
            let proxy = parameter(query, "proxyID");
            let proxy = proxy.ok_or_else(|| PageError::new(StatusCode::BAD_REQUEST, which))?;
            let found = connected(pages, proxy, |_, found| found).await?;
            Page::Json(dumps::config_dump(&found))
        }
        "status" => {
            let snapshot = pages.derive.ask(|state| state.store().snapshot()).await?;
            let derived = pages.statuses.all();
            let evaluated = move || registry::statuses(&snapshot, derived);
            let statuses = tokio::task::spawn_blocking(evaluated).await;
            Page::Json(statuses.map_err(|_| Closed)?)
        }
        "writing" => Page::Json(pages.writing.get().map_or(Value::Null, |w| w.page())),
        "analysis" => Page::Json(registry::analysis(&pages.analyst)),
        "engine" => Page::Json(pages.derive.ask(engine).await?),
        "explain" => Page::Json(explain::page(query, pages).await?),
        "heap" => heap::page().await?,
        "memory" => {
            let derived = pages.derive.ask(memory::derived).await?;
            Page::Json(memory::page(derived, &pages.connections.all()))
        }
        "sources" => {
            let sources = pages.supervisor.sources();
            Page::Json(sources.iter().map(SourceStatus::json).collect())
        }
        "warm" => {
            let proxies = pages.derive.ask(warm::from_disk).await?;
            Page::Json(warm::page(&pages.warm, &proxies))
        }
        "revisions" => {
            let after = parameter(query, "after").and_then(|n| n.parse().ok());
            Page::Json(revisions(pages.derive.revisions(), after.unwrap_or(0)))
        }
        _ => {
            let what = "no such page; /debug lists what there is";
            return Err(PageError::new(StatusCode::NOT_FOUND, what));
        }
    })
}

/// The value of a query parameter. Names of proxies need no unescaping.
pub(crate) fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|p| p.split_once('=').or(Some((p, ""))))
        .find(|(k, _)| *k == name)
        .map(|(_, v)| v)
}

/// What there is to say of a connected proxy; of several with its name, of the one that came last.
async fn connected<T: Send + 'static>(
    pages: &Arc<Pages>,
    proxy: &str,
    about: impl FnOnce(&State, ProxyRow) -> T + Send + 'static,
) -> Result<T, PageError> {
    let wanted = proxy.to_owned();
    let found = pages.derive.ask(move |state| {
        let named = |p: &ProxyRow| *p.node.id == *wanted || proxy_name(&p.node) == wanted;
        let found = state.proxies().filter(named).last();
        found.map(|proxy| about(state, proxy))
    });
    found.await?.ok_or_else(|| {
        PageError::new(
            StatusCode::NOT_FOUND,
            format!("no proxy {proxy} is connected (see /debug/syncz)"),
        )
    })
}

/// `name.namespace`, as proxies are called on command lines.
fn proxy_name(node: &model::node::Node) -> String {
    format!("{}.{}", node.name, node.namespace)
}

/// Every service, in the order of namespaces.
pub fn services(state: &State) -> Vec<Arc<Service>> {
    let namespaces = state.get(&ServiceNamespaces);
    namespaces
        .iter()
        .flat_map(|n| {
            state
                .get(&InNamespace(n.clone()))
                .iter()
                .cloned()
                .collect::<Vec<_>>()
        })
        .collect()
}

fn index() -> String {
    let mut rows = String::new();
    for (name, about) in INDEX {
        rows.push_str(&format!(
            "<tr><td><a href=\"/debug/{name}\">{name}</a></td><td>{about}</td></tr>\n"
        ));
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Pilothouse</title><style>\
         body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:50rem;padding:0 1rem;color:#1d2733;background:#fff}}\
         td{{padding:.3rem 1.5rem .3rem 0;vertical-align:top}}a{{color:#0b5cad}}\
         @media(prefers-color-scheme:dark){{body{{color:#dde4ec;background:#161b22}}a{{color:#7ab8ff}}}}\
         </style></head><body><h1>Pilothouse {}</h1><p>Debug pages, shown to clients on this machine only.</p>\
         <table>{rows}</table><p><a href=\"/metrics\">metrics</a> · <a href=\"/ready\">ready</a></p></body></html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Those with a larger number than `after`.
fn revisions(revisions: &Revisions, after: u64) -> Value {
    let newer = revisions.all().into_iter().filter(|r| r.number > after);
    newer
        .map(|r| {
            json!({
                "revision": r.number,
                "responses": r.responses(),
                "lastWriteMs": r.last_write().as_secs_f64() * 1e3,
            })
        })
        .collect()
}

fn engine(state: &State) -> Value {
    let stats = state.engine().stats();
    json!({
        "revision": state.store().snapshot().revision,
        "views": state.views(),
        "memos": stats.memos,
        "inputs": stats.inputs,
        "edges": stats.edges,
        "roots": stats.roots,
        "evaluations": stats.runs,
        "unchanged": stats.unchanged,
        "bookkeepingBytes": stats.bookkeeping_bytes,
        "queries": stats.queries.iter().map(|q| json!({
            "name": q.name, "memos": q.memos, "evaluations": q.runs, "unchanged": q.unchanged,
        })).collect::<Vec<_>>(),
    })
}

/// RFC 3339, to the second.
pub(crate) fn time(at: SystemTime) -> String {
    let seconds = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// RFC 3339, to the microsecond: what measures propagation reads it.
fn precise_time(at: SystemTime) -> String {
    let micros = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.subsec_micros());
    time(at).replace('Z', &format!(".{micros:06}Z"))
}

/// How a version is written: hash of the content.
fn version(t: &TypeState) -> String {
    format!("{:016x}", t.version)
}

fn sync_status(c: &Connection) -> Value {
    let mut row = json!({
        "cluster_id": &*c.node.cluster,
        "proxy": proxy_name(&c.node),
        "proxy_type": c.node.role.as_str(),
        "istio_version": c.node.metadata.get("ISTIO_VERSION").cloned().unwrap_or(Value::Null),
    });
    let mut resources = Map::new();
    for ty in TypeUrl::ALL {
        let Some(t) = c.types[ty].as_ref().filter(|t| t.sent > 0) else {
            continue;
        };
        let sent = version(t);
        let acked = if t.acked == Some(t.sent) {
            sent.clone()
        } else {
            String::new()
        };
        let short = match ty {
            TypeUrl::Cluster => "cluster",
            TypeUrl::Listener => "listener",
            TypeUrl::Route => "route",
            TypeUrl::Endpoint => "endpoint",
            TypeUrl::Extension => "extensionconfig",
            TypeUrl::Secret | TypeUrl::NameTable | TypeUrl::ProxyConfig => "",
        };
        if !short.is_empty() {
            row[format!("{short}_sent")] = sent.clone().into();
            row[format!("{short}_acked")] = acked.clone().into();
        }
        let mut entry = json!({ "sent": sent, "acked": acked, "sentTime": precise_time(t.sent_at), "revision": t.revision });
        if let Some(at) = t.acked_at {
            entry["ackedTime"] = precise_time(at).into();
        }
        if let Some(reason) = &t.refused {
            entry["refused"] = (&**reason).into();
        }
        resources.insert(ty.as_str().into(), entry);
    }
    row["resources"] = resources.into();
    row
}

fn adsz(connections: &[Connection]) -> Value {
    let clients: Vec<Value> = connections
        .iter()
        .map(|c| {
            let watches: Map<String, Value> = TypeUrl::ALL
                .into_iter()
                .filter_map(|ty| {
                    let selection = c.types[ty].as_ref()?.selection.as_ref()?;
                    let names: Vec<&str> = selection.names.iter().map(|n| &**n).collect();
                    Some((ty.as_str().to_owned(), json!(names)))
                })
                .collect();
            let labels: Map<String, Value> = c
                .node
                .labels
                .iter()
                .map(|(k, v)| (k.to_string(), (&**v).into()))
                .collect();
            json!({
                "connectionId": format!("{}-{}", proxy_name(&c.node), c.number),
                "connectedAt": time(c.since),
                "address": c.peer.to_string(),
                "labels": labels,
                "metadata": &*c.node.metadata,
                "locality": {
                    "region": &*c.node.locality.region,
                    "zone": &*c.node.locality.zone,
                    "subZone": &*c.node.locality.subzone,
                },
                "watches": watches,
            })
        })
        .collect();
    json!({ "totalClients": clients.len(), "clients": clients })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {}

    #[test]
    fn precise_times_have_six_digits_of_a_second() {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(1_002_003);
        assert_eq!(precise_time(at), "1970-01-01T00:00:01.002003Z");
    }

    #[test]
    fn parameters_are_found_by_name() {
        assert_eq!(parameter("a=1&proxyID=x.y", "proxyID"), Some("x.y"));
        assert_eq!(parameter("findings", "findings"), Some(""));
        assert_eq!(parameter("", "findings"), None);
    }
}

//! The pages under `/debug`, in the shapes that istioctl and existing tools read.

mod certificates;
mod dumps;
mod explain;
mod heap;
mod index;
mod memory;
mod mesh_config;
mod names;
mod objects;
pub(crate) mod over_xds;
mod proxies;
mod registry;
mod sync;
mod warm;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use convert::status::Status;
use http::{Response, StatusCode};
use http_body_util::Full;
use mesh::services::{InNamespace, ServiceNamespaces};
use model::node::Node;
use model::parse::nearest;
use model::service::Service;
use serde_json::{Value, json};
use store::Snapshot;
use xds::TypeUrl;

use crate::derive::{Closed, ProxyRow, Revisions, State};
use crate::http::{Pages, text, typed};
use crate::remotes;
use crate::supervisor::SourceStatus;
use crate::writing::wanted;
pub(crate) use mesh_config::page as mesh_page;
use over_xds::Rights;
pub(crate) use sync::time;

/// What is said where there is no such page.
const NO_PAGE: &str = "no such page; /debug lists what there is";

/// The most proxies that are named where another was asked for.
const NAMED: usize = 5;

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

    /// As the body of a response.
    pub(crate) fn into_body(self) -> Vec<u8> {
        let mut body = self.message.into_bytes();
        body.push(b'\n');
        body
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
        let content_type = match &self {
            Page::Json(_) => "application/json",
            Page::Profile(_) => "application/octet-stream",
            Page::Html(_) => "text/html; charset=utf-8",
        };
        match self.into_body() {
            Ok(body) => typed(StatusCode::OK, content_type, body),
            Err(error) => text(error.status, error.into_body()),
        }
    }

    /// As the body of a response.
    pub(crate) fn into_body(self) -> Result<Vec<u8>, PageError> {
        let failed = |error: serde_json::Error| {
            PageError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        };
        match self {
            Page::Json(value) => serde_json::to_vec_pretty(&value).map_err(failed),
            Page::Profile(body) => Ok(body),
            Page::Html(body) => Ok(body.into_bytes()),
        }
    }
}

/// The page of that name; the empty name is the index. Of connected proxies, those that the rights cover are found and named:
/// which other pages who asks may have is for the caller.
///
/// # Errors
///
/// When there is no such page, or it needs something in the query that is not there.
pub(crate) async fn page(
    name: &str,
    query: &str,
    pages: &Arc<Pages>,
    rights: &Rights,
) -> Result<Page, PageError> {
    if let Some(why) = names::absent(name, query) {
        return Err(PageError::new(StatusCode::NOT_IMPLEMENTED, why));
    }
    if let Some(shown) = of_proxies(name, query, pages, rights).await? {
        return Ok(Page::Json(shown));
    }
    if let Some(shown) = of_mesh(name, query, pages).await? {
        return Ok(Page::Json(shown));
    }
    Ok(match name {
        "" => Page::Html(index::page(&pages.connections.all())),
        "list" => Page::Json(names::list().collect()),
        "certs" => Page::Json(pages.acme.get().map_or(Value::Null, |acme| acme.page())),
        "certz" => Page::Json(match parameter(query, "proxyID") {
            Some(proxy) => {
                let found = connected(pages, proxy, rights, |_, found| found).await?;
                certificates::of_proxy(&found)
            }
            None => pages.derive.ask(certificates::all).await?,
        }),
        "ca" => Page::Json(crate::authority::page(pages.authority.get())),
        "registries" => Page::Json(crate::registries::page(&pages.registries.borrow())),
        "status" => Page::Json(statuses(pages).await?),
        "writing" => Page::Json(pages.writing.get().map_or(Value::Null, |w| w.page())),
        "analysis" => Page::Json(registry::analysis(&pages.analyst)),
        "engine" => Page::Json(pages.derive.ask(engine).await?),
        "explain" => Page::Json(explain::page(query, pages, rights).await?),
        "heap" => heap::page().await?,
        "log" => Page::Json(crate::levels::page()),
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
        _ => return Err(PageError::new(StatusCode::NOT_FOUND, NO_PAGE)),
    })
}

/// Pages of istiod about proxies; `None` for another name.
async fn of_proxies(
    name: &str,
    query: &str,
    pages: &Arc<Pages>,
    rights: &Rights,
) -> Result<Option<Value>, PageError> {
    let asked_for = || asked_for(query, pages, rights);
    let all = || pages.connections.all();
    Ok(Some(match name {
        "syncz" => {
            let namespace = parameter(query, "namespace").filter(|n| !n.is_empty());
            sync::statuses(&all(), namespace)
        }
        "adsz" => sync::clients(&all()),
        "connections" => sync::connections(&all()),
        "config_dump" => dumps::config_dump(&asked_for().await?, query)?,
        "edsz" => dumps::all_of(&asked_for().await?, TypeUrl::Endpoint),
        "ecdsz" => dumps::all_of(&asked_for().await?, TypeUrl::Extension),
        "ndsz" => dumps::name_table(&asked_for().await?),
        "sidecarz" => {
            let about = |state: &State, found: &ProxyRow| proxies::sight(state, &found.node);
            let sight = about_one(query, pages, rights, about).await?;
            let shown = tokio::task::spawn_blocking(move || proxies::sidecar(&sight)).await;
            shown.map_err(|_| Closed)?
        }
        "telemetryz" => {
            let about = |state: &State, found: &ProxyRow| proxies::telemetry(state, &found.node);
            about_one(query, pages, rights, about).await?
        }
        "instancesz" => instances(query, pages, rights).await?,
        _ => return Ok(None),
    }))
}

/// Pages of istiod about the mesh; `None` for another name.
async fn of_mesh(name: &str, query: &str, pages: &Arc<Pages>) -> Result<Option<Value>, PageError> {
    Ok(Some(match name {
        "registryz" => pages.derive.ask(registry::services).await?,
        "endpointShardz" | "endpointz" => pages.derive.ask(registry::endpoints).await?,
        "clusterz" => remotes::clusterz(
            &pages.cluster,
            &pages.supervisor.sources(),
            &pages.remotes.borrow().holders,
        ),
        "configz" if parameter(query, "findings").is_some() => {
            let read = pages.findings.all();
            let generated = pages.derive.ask(State::findings).await?;
            registry::findings(&read, &generated)
        }
        "configz" => {
            let kind = parameter(query, "kind").map(str::to_owned);
            of_snapshot(pages, move |snapshot, derived| {
                let statuses = wanted::documents(snapshot, derived);
                objects::objects(snapshot, kind.as_deref(), statuses)
            })
            .await?
        }
        "mesh" => {
            let snapshot = snapshot(pages).await?;
            mesh_config::page(&snapshot.settings.mesh)
        }
        "networkz" => pages.derive.ask(registry::networks).await?,
        "resourcesz" => objects::kinds(),
        "mcsz" => objects::shared_services(&*snapshot(pages).await?),
        "authorizationz" => {
            let policies = objects::policies(&*snapshot(pages).await?);
            json!({ "authorization_policies": policies })
        }
        "pushcontext" => {
            let gateways = pages.derive.ask(registry::gateways_by_network).await?;
            let policies = objects::policies(&*snapshot(pages).await?);
            json!({ "AuthorizationPolicies": policies, "NetworkGateways": gateways })
        }
        "inject" => {
            let injection = pages.injection.configuration().injection;
            let templates = injection.iter().flat_map(|injection| &injection.templates);
            templates
                .map(|(name, template)| (name.clone(), template.text()))
                .collect()
        }
        _ => return Ok(None),
    }))
}

/// The value of a query parameter. Names of proxies need no unescaping.
pub(crate) fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|p| p.split_once('=').or(Some((p, ""))))
        .find(|(k, _)| *k == name)
        .map(|(_, v)| v)
}

/// Objects with the status that they get.
async fn statuses(pages: &Arc<Pages>) -> Result<Value, PageError> {
    of_snapshot(pages, registry::statuses).await
}

async fn snapshot(pages: &Pages) -> Result<Arc<Snapshot>, Closed> {
    pages.derive.ask(|state| state.store().snapshot()).await
}

/// What is made of the objects and of the statuses that were derived, on another thread than that which derives.
async fn of_snapshot(
    pages: &Pages,
    made: impl FnOnce(&Snapshot, Vec<Status>) -> Value + Send + 'static,
) -> Result<Value, PageError> {
    let snapshot = snapshot(pages).await?;
    let derived = pages.statuses.all();
    let made = tokio::task::spawn_blocking(move || made(&snapshot, derived)).await;
    Ok(made.map_err(|_| Closed)?)
}

/// What the connected proxies serve, or the one that the query names. The derive thread is asked after few at a time, since
/// every change waits for it.
async fn instances(query: &str, pages: &Arc<Pages>, rights: &Rights) -> Result<Value, PageError> {
    const AT_A_TIME: usize = 64;
    let nodes: Vec<Arc<Node>> = match parameter(query, "proxyID") {
        Some(_) => vec![asked_for(query, pages, rights).await?.node],
        None => {
            let rights = rights.clone();
            let derived = pages.derive.ask(move |state| {
                let derived = state
                    .proxies()
                    .filter(|p| p.view.is_some() && rights.cover(&p.node.namespace));
                derived.map(|p| p.node).collect::<Vec<_>>()
            });
            derived.await?
        }
    };
    let mut shown = serde_json::Map::new();
    for some in nodes.chunks(AT_A_TIME) {
        let some = some.to_vec();
        let asked = pages
            .derive
            .ask(move |state| proxies::instances(state, &some));
        shown.extend(asked.await?);
    }
    Ok(shown.into())
}

/// The connected proxy that a query names.
async fn asked_for(
    query: &str,
    pages: &Arc<Pages>,
    rights: &Rights,
) -> Result<ProxyRow, PageError> {
    connected(pages, named(query)?, rights, |_, found| found).await
}

/// What there is to say of the connected proxy that a query names, of which something was derived.
async fn about_one<T: Send + 'static>(
    query: &str,
    pages: &Arc<Pages>,
    rights: &Rights,
    about: impl FnOnce(&State, &ProxyRow) -> T + Send + 'static,
) -> Result<T, PageError> {
    let known = |state: &State, found: ProxyRow| match found.view.is_some() {
        true => Some(about(state, &found)),
        false => None,
    };
    let known = connected(pages, named(query)?, rights, known).await?;
    known.ok_or_else(|| {
        let why = "nothing was derived for this proxy yet";
        PageError::new(StatusCode::SERVICE_UNAVAILABLE, why)
    })
}

/// The proxy that a query names.
fn named(query: &str) -> Result<&str, PageError> {
    let which = "which proxy? add ?proxyID=NAME.NAMESPACE; `pilothouse proxy-status` lists them";
    let proxy = parameter(query, "proxyID");
    proxy.ok_or_else(|| PageError::new(StatusCode::BAD_REQUEST, which))
}

/// What there is to say of a connected proxy that the rights cover; of several with its name, of the one that came last.
async fn connected<T: Send + 'static>(
    pages: &Arc<Pages>,
    proxy: &str,
    rights: &Rights,
    about: impl FnOnce(&State, ProxyRow) -> T + Send + 'static,
) -> Result<T, PageError> {
    let wanted = proxy.to_owned();
    let covering = rights.clone();
    let found = pages.derive.ask(move |state| {
        let named = |p: &ProxyRow| {
            let is_called_so = *p.node.id == *wanted || proxy_name(&p.node) == wanted;
            is_called_so && covering.cover(&p.node.namespace)
        };
        match state.proxies().filter(named).last() {
            Some(proxy) => Ok(about(state, proxy)),
            None => Err(covered(state.proxies().map(|p| p.node), &covering)),
        }
    });
    found.await?.map_err(|names| {
        let why = not_connected(proxy, &names, rights);
        PageError::new(StatusCode::NOT_FOUND, why)
    })
}

/// What proxies are called, of those that the rights cover.
fn covered(nodes: impl Iterator<Item = Arc<Node>>, rights: &Rights) -> BTreeSet<String> {
    nodes
        .filter(|node| rights.cover(&node.namespace))
        .map(|node| proxy_name(&node))
        .collect()
}

/// What to say of a proxy that is not connected: who is, of those that who asks may see.
fn not_connected(proxy: &str, connected: &BTreeSet<String>, rights: &Rights) -> String {
    let names = || connected.iter().map(String::as_str);
    if let Some(near) = nearest(proxy, names()) {
        return format!("no proxy {proxy} is connected: did you mean {near}?");
    }
    match connected.len() {
        0 if *rights == Rights::All => format!("no proxy {proxy} is connected, nor any other"),
        0 => format!("no proxy {proxy} is connected, nor any other of its namespace"),
        1..=NAMED => {
            let names: Vec<&str> = names().collect();
            let names = names.join(", ");
            format!("no proxy {proxy} is connected; connected: {names}")
        }
        _ => {
            format!("no proxy {proxy} is connected: `pilothouse proxy-status` lists those that are")
        }
    }
}

/// `name.namespace`, as proxies are called on command lines.
fn proxy_name(node: &Node) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_proxy_that_is_not_connected_reads_which_are() {
        let said = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            not_connected("front-v1.shop", &names.collect(), &Rights::All)
        };
        assert_eq!(
            said(&[]),
            "no proxy front-v1.shop is connected, nor any other"
        );
        assert!(said(&["fornt-v1.shop", "x.y"]).ends_with("did you mean fornt-v1.shop?"));
        assert!(said(&["db.data", "gateway.edge"]).ends_with("connected: db.data, gateway.edge"));
        let many = ["a.a", "b.b", "c.c", "d.d", "e.e", "f.f"];
        assert!(said(&many).contains("pilothouse proxy-status"));
    }

    #[test]
    fn who_may_see_one_namespace_reads_no_name_of_another() {
        let node = |name: &str, namespace: &str| {
            let id = format!("sidecar~10.0.0.1~{name}.{namespace}~{namespace}.svc.cluster.local");
            testkit::node(&json!({ "id": id }))
        };
        let said = |proxy: &str, nodes: &[Arc<Node>], rights: &Rights| {
            not_connected(proxy, &covered(nodes.iter().cloned(), rights), rights)
        };
        let nodes = [
            node("db-0", "payments"),
            node("web", "evil"),
            node("front", "shop"),
        ];
        let evil = Rights::Of(["evil".into()].into());
        assert_eq!(
            said("no.evil", &nodes, &evil),
            "no proxy no.evil is connected; connected: web.evil"
        );
        assert_eq!(
            said("db-1.payments", &nodes[..1], &evil),
            "no proxy db-1.payments is connected, nor any other of its namespace"
        );
        let all = said("db-1.payments", &nodes[..1], &Rights::All);
        assert!(all.ends_with("did you mean db-0.payments?"), "{all}");
    }

    #[test]
    fn parameters_are_found_by_name() {
        assert_eq!(parameter("a=1&proxyID=x.y", "proxyID"), Some("x.y"));
        assert_eq!(parameter("findings", "findings"), Some(""));
        assert_eq!(parameter("", "findings"), None);
    }
}

//! `/ready`, `/live`, `/metrics`, `/version` and `/debug` over plain HTTP.
//!
//! Debug pages show configuration, so they answer only to clients on this machine ([`this_machine`]), whatever address is listened
//! on. A client that holds connections, sends slowly or does not read keeps nobody else from being answered.

pub(crate) mod clients;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use apiserver::this_machine;
use bytes::Bytes;
use ca::Authority;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use xds::TypeUrl;

use crate::acme::{self, Acme};
use crate::analysis::Analyst;
use crate::debug;
use crate::debug::over_xds::Rights;
use crate::derive::Derive;
use crate::findings::Findings;
use crate::levels;
use crate::metrics::Metrics;
use crate::remotes;
use crate::settings::Settled;
use crate::statuses::Book;
use crate::streams::Connections;
use crate::supervisor::Supervisor;
use crate::warm::Warm;
use crate::webhooks::InjectorSource;
use crate::writing::Writing;
use clients::{Clients, Connection};

/// What the pages show.
pub struct Pages {
    /// Whether what was there at start is served.
    pub ready: AtomicBool,
    /// Why the store of the Kubernetes API cannot be written, if there is one and it cannot.
    pub fault: OnceLock<watch::Receiver<Option<Arc<str>>>>,
    /// The derive thread.
    pub derive: Derive,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Connected streams.
    pub connections: Arc<Connections>,
    /// What was found wrong with objects.
    pub findings: Arc<Findings>,
    /// What is found between objects.
    pub analyst: Analyst,
    /// The statuses of objects.
    pub statuses: Arc<Book>,
    /// What injection does.
    pub injection: Arc<InjectorSource>,
    /// What is kept on disk.
    pub warm: Arc<Warm>,
    /// The sources of configuration.
    pub supervisor: Supervisor,
    /// The id of the configured cluster.
    pub cluster: String,
    /// How far the manager of remote clusters is.
    pub remotes: watch::Receiver<remotes::Settled>,
    /// The registries outside of Kubernetes.
    pub registries: watch::Receiver<crate::registries::Registries>,
    /// How far the settings are.
    pub settled: watch::Receiver<Settled>,
    /// What is written into an API, if there is one.
    pub writing: OnceLock<Arc<Writing>>,
    /// Certificates that are ordered, once it is known where they are kept.
    pub acme: OnceLock<Acme>,
    /// The CA, once it is known which; none where none is wanted.
    pub authority: OnceLock<Authority>,
}

impl Pages {
    /// Why proxies are not served although configuration was read; `None` where nothing is known to hinder it.
    fn hindrance(&self) -> Option<String> {
        let fault = self.fault.get().and_then(|fault| fault.borrow().clone());
        match fault {
            Some(why) => Some(format!("the API store cannot write: {why}")),
            None => Some(self.supervisor.stuck()?.to_string()),
        }
    }

    /// Whether proxies are served, as `/ready` says it.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && self.hindrance().is_none()
    }
}

/// An answer.
pub(crate) type Page = Response<Full<Bytes>>;

/// How long the head of a request may take, and a connection be idle between requests.
pub(crate) const HEAD: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 16 << 10;
/// How long a client may take to read an answer.
const READING: Duration = Duration::from_secs(60);

/// How long the feed of changes and the derive thread may take to answer `/live`; the whole of a large mesh can keep the latter
/// for seconds.
const WORKING: Duration = Duration::from_secs(8);

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, pages: Arc<Pages>, stop: CancellationToken) {
    let clients = Clients::new();
    while let Some((stream, peer, connection_slot)) = clients.accept(&listener, &stop).await {
        tokio::spawn(connection(
            stream,
            peer,
            Arc::new(connection_slot),
            pages.clone(),
        ));
    }
}

async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    connection_slot: Arc<Connection>,
    pages: Arc<Pages>,
) {
    let answer = move |request| answer(request, peer, pages.clone());
    converse(stream, connection_slot, HEAD, answer).await;
}

/// Answers what a client asks until it has no more to ask, takes longer than `patience` for the head of a request, or does not
/// read what it is answered.
pub(crate) async fn converse<S, A, F>(
    stream: S,
    connection_slot: Arc<Connection>,
    patience: Duration,
    answer: A,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Page, Infallible>>,
{
    let serving = connection_slot.clone();
    let service = hyper::service::service_fn(move |request| {
        let (connection_slot, page) = (serving.clone(), answer(request));
        async move {
            connection_slot.set_busy(true);
            let page = page.await;
            connection_slot.set_busy(false);
            page
        }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // One that is idle for longer than a head may take has an answer that its client does not read.
    let unread = async {
        while connection_slot.idle_for() < READING.max(patience) {
            tokio::time::sleep(HEAD).await;
        }
    };
    tokio::select! {
        // A client that breaks off is its own business.
        _ = serving => {}
        () = unread => {}
        () = connection_slot.ended() => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: IpAddr,
    pages: Arc<Pages>,
) -> Result<Page, Infallible> {
    let path = collapsed(request.uri().path());
    if request.method() == Method::POST
        && let Some(what) = path.strip_prefix("/debug/certs/")
    {
        return Ok(ask_for(what, &request, peer, &pages).await);
    }
    if matches!(*request.method(), Method::POST | Method::PUT) && path == "/debug/log" {
        return Ok(change_log(&request, peer));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered\n",
        ));
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    let page = match path.as_str() {
        "/ready" => ready(&pages),
        "/" => {
            let mut page = text(StatusCode::FOUND, "see /debug\n");
            let to = header::HeaderValue::from_static("/debug");
            page.headers_mut().insert(header::LOCATION, to);
            page
        }
        "/live" => live(&pages).await,
        "/metrics" => metrics(&pages).await,
        "/version" => text(StatusCode::OK, concat!(env!("CARGO_PKG_VERSION"), "\n")),
        _ if path == "/debug" || path.starts_with("/debug/") => {
            if let Err(refused) = this_machine::check(peer, request.uri(), request.headers()) {
                let said = format!("debug pages: {refused}\n");
                return Ok(text(StatusCode::FORBIDDEN, said));
            }
            match debug::page(
                path.trim_start_matches("/debug").trim_matches('/'),
                &query,
                &pages,
                &Rights::All,
            )
            .await
            {
                Ok(page) => page.into_response(),
                Err(error) => text(error.status, format!("{}\n", error.message)),
            }
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "not found; /debug lists what there is\n",
        ),
    };
    Ok(page)
}

/// A path with one slash where several follow each other: istioctl asks for `//version`, which servers of Go take for `/version`.
pub(crate) fn collapsed(path: &str) -> String {
    let mut collapsed = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !collapsed.ends_with('/') {
            collapsed.push(c);
        }
    }
    collapsed
}

/// Changes what is logged to what the query says.
fn change_log(request: &Request<Incoming>, peer: IpAddr) -> Page {
    if let Err(refused) = this_machine::check(peer, request.uri(), request.headers()) {
        return text(StatusCode::FORBIDDEN, format!("debug pages: {refused}\n"));
    }
    let query = request.uri().query().unwrap_or_default();
    let Some(level) = debug::parameter(query, "level") else {
        return text(
            StatusCode::BAD_REQUEST,
            "what is to be logged? add ?level=, as --log takes it\n",
        );
    };
    match levels::set(level) {
        Ok(()) => debug::Page::Json(levels::page()).into_response(),
        Err(why) => text(StatusCode::BAD_REQUEST, format!("level={level:?}: {why}\n")),
    }
}

/// Has something done about the certificate of the host that the query names.
async fn ask_for(what: &str, request: &Request<Incoming>, peer: IpAddr, pages: &Pages) -> Page {
    if let Err(refused) = this_machine::check(peer, request.uri(), request.headers()) {
        return text(StatusCode::FORBIDDEN, format!("debug pages: {refused}\n"));
    }
    let query = request.uri().query().unwrap_or_default();
    let Some(host) = debug::parameter(query, "host") else {
        return text(StatusCode::BAD_REQUEST, "which host? add ?host=NAME\n");
    };
    match acme::command(what, host, pages).await {
        Ok(value) => debug::Page::Json(value).into_response(),
        Err(error) => text(error.status, format!("{}\n", error.message)),
    }
}

/// Whether proxies are served, and if not, why.
fn ready(pages: &Pages) -> Page {
    if let Some(why) = pages.hindrance() {
        return text(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {why}\n"),
        );
    }
    if pages.is_ready() {
        let words = match pages.warm.is_serving() {
            true => "ready: proxies get what they had; configuration is still being read\n",
            false => "ready\n",
        };
        return text(StatusCode::OK, words);
    }
    let mut words = "starting: configuration is still being read\n".to_owned();
    let sources = pages.supervisor.sources();
    for source in sources.iter().filter(|s| !s.was_in_sync) {
        words.push_str(&format!("{}: {}\n", source.owner, source.words()));
    }
    if let Some(refused) = &pages.settled.borrow().refused {
        words.push_str(&format!("settings: {refused}; see the log\n"));
    }
    text(StatusCode::SERVICE_UNAVAILABLE, words)
}

/// Whether the process does its work: what sources report comes through to the derive thread, on which everything waits.
async fn live(pages: &Pages) -> Page {
    match pages.supervisor.check(WORKING).await {
        Ok(()) => text(StatusCode::OK, "alive\n"),
        Err(stuck) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{stuck}\n")),
    }
}

async fn metrics(pages: &Pages) -> Page {
    let figures = pages
        .derive
        .ask(|state| {
            let tables = &state.store().snapshot().tables;
            (
                state.from_disk(),
                state.views(),
                state.engine().stats().memos,
                tables.virtual_services.len(),
                debug::services(state).len(),
                state.store().snapshot(),
            )
        })
        .await;
    if let Ok((from_disk, views, memos, virtual_services, services, snapshot)) = figures {
        let set = |gauge: &prometheus::IntGauge, n: usize| {
            gauge.set(i64::try_from(n).unwrap_or(i64::MAX))
        };
        set(&pages.metrics.warm_proxies, from_disk);
        set(&pages.metrics.views, views);
        set(&pages.metrics.memos, memos);
        set(&pages.metrics.virtual_services, virtual_services);
        set(&pages.metrics.services, services);
        let counted = pages.metrics.clone();
        // What a panic there leaves out is what was counted before.
        let _ = tokio::task::spawn_blocking(move || counted.slices.see(&snapshot)).await;
    }
    let behind = pages.connections.behind(SystemTime::now());
    for ty in TypeUrl::ALL {
        pages.metrics.of_type(ty).set_behind(behind[ty]);
    }
    pages
        .metrics
        .remotes
        .set_states(&pages.supervisor.sources());
    pages.metrics.registries.set(&pages.registries.borrow());
    if let Some(acme) = pages.acme.get() {
        pages.metrics.acme.set(&acme.rows());
    }
    if let Some(authority) = pages.authority.get() {
        let state = authority.state();
        pages.metrics.authority.set_state(&state, SystemTime::now());
    }
    let (analyzed, _) = pages.analyst.latest();
    let found = analyzed.current().map(|f| &f.diagnostic);
    pages.metrics.analysed(found);
    pages.metrics.note_dropped_lines(crate::dropped::total());
    match pages.metrics.text() {
        Ok(body) => typed(StatusCode::OK, "text/plain; version=0.0.4", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// A page of plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Page {
    typed(status, "text/plain; charset=utf-8", body)
}

/// A page of any type.
pub fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Page {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::collapsed;

    #[test]
    fn slashes_that_follow_each_other_are_one() {
        for (path, expected) in [
            ("//version", "/version"),
            ("///debug//syncz/", "/debug/syncz/"),
            ("/ready", "/ready"),
            ("", ""),
        ] {
            assert_eq!(collapsed(path), expected);
        }
    }
}

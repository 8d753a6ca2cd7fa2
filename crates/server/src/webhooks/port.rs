//! The port: TLS, connections, and requests whole.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Service};
use crate::http::clients::{Clients, Connection};
use crate::http::{Page, converse, text, typed};

/// The key and certificate that are shown; those of a connection stay its own.
pub type Keys = watch::Receiver<Option<Arc<CertifiedKey>>>;

/// The largest body that is read: twice what API servers store, for an object and what it was before.
// Istio: pkg/kube/util.go MaxRequestBodyBytes, 1.32.
const LARGEST_BODY: usize = 6 << 20;
/// Kilobytes of all bodies at once.
const ALL_BODIES_KB: usize = 64 << 10;
/// How long a body may take.
const BODY: Duration = Duration::from_secs(30);
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at once.
const HANDSHAKES: usize = 16;
/// How long a connection may be idle, as istiod's.
const IDLE: Duration = Duration::from_secs(90);

/// What all connections share.
struct Port {
    service: Arc<Service>,
    keys: Keys,
    handshakes: Semaphore,
    bodies_kb: Semaphore,
}

/// Serves until `stop`.
pub async fn serve(
    listener: TcpListener,
    keys: Keys,
    service: Arc<Service>,
    stop: CancellationToken,
) {
    // Clients queue until there is something to show them.
    let mut known = keys.clone();
    tokio::select! {
        known = known.wait_for(Option::is_some) => if known.is_err() {
            return;
        },
        () = stop.cancelled() => return,
    }
    let clients = Clients::new();
    let port = Arc::new(Port {
        service,
        keys,
        handshakes: Semaphore::new(HANDSHAKES),
        bodies_kb: Semaphore::new(ALL_BODIES_KB),
    });
    while let Some((stream, _, slot)) = clients.accept(&listener, &stop).await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream, Arc::new(slot), port.clone()));
    }
}

async fn connection(stream: TcpStream, slot: Arc<Connection>, port: Arc<Port>) {
    let Some(key) = port.keys.borrow().clone() else {
        return;
    };
    let Some(acceptor) = acceptor(key) else {
        return;
    };
    let shake = async {
        let _turn = port.handshakes.acquire().await.ok()?;
        acceptor.accept(stream).await.ok()
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, shake) => shaken,
        () = slot.ended() => return,
    };
    let Ok(Some(stream)) = shaken else {
        return;
    };
    let answer = move |request| answer(request, port.clone());
    converse(stream, slot, IDLE, answer).await;
}

fn acceptor(key: Arc<CertifiedKey>) -> Option<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Some(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(request: Request<Incoming>, port: Arc<Port>) -> Result<Page, Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let under = |root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let asks = parts.method == Method::POST;
    Ok(match path {
        "/ready" if port.service.is_ready() => text(StatusCode::OK, ""),
        "/ready" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        _ if !under("/inject") && !under("/validate") => {
            text(StatusCode::NOT_FOUND, "404 page not found\n")
        }
        _ if !asks => text(
            StatusCode::METHOD_NOT_ALLOWED,
            "an AdmissionReview is posted\n",
        ),
        path => {
            let kind = parts.headers.get(header::CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            // Before there is room for the body: who waits takes none from others.
            port.service.settle(path).await;
            let answer = match whole(body, &port).await {
                Ok((body, _room)) => port.service.answer(path, kind, body).await,
                Err((status, why)) => port.service.no_body(path, status, &why),
            };
            page(answer)
        }
    })
}

fn page(answer: Answer) -> Page {
    match answer.status {
        StatusCode::OK => typed(StatusCode::OK, "application/json", answer.body),
        status => text(status, answer.body),
    }
}

/// All of a body, and the room that it takes.
async fn whole<'p>(
    body: Incoming,
    port: &'p Port,
) -> Result<(Bytes, tokio::sync::SemaphorePermit<'p>), (StatusCode, String)> {
    let too_large = || {
        let why = format!("Request entity too large: limit is {LARGEST_BODY}");
        (StatusCode::BAD_REQUEST, why)
    };
    let stated = body.size_hint().exact();
    let size = stated.map_or(LARGEST_BODY, |n| usize::try_from(n).unwrap_or(usize::MAX));
    if size > LARGEST_BODY {
        return Err(too_large());
    }
    let kb = u32::try_from(size.div_ceil(1024).max(1)).unwrap_or(u32::MAX);
    let reading = async {
        let room = port.bodies_kb.acquire_many(kb).await;
        let room = room.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, "stopping".to_owned()))?;
        match Limited::new(body, LARGEST_BODY).collect().await {
            Ok(body) => Ok((body.to_bytes(), room)),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err((StatusCode::BAD_REQUEST, error.to_string())),
        }
    };
    match tokio::time::timeout(BODY, reading).await {
        Ok(read) => read,
        Err(_) => Err((
            StatusCode::REQUEST_TIMEOUT,
            "the body did not come".to_owned(),
        )),
    }
}

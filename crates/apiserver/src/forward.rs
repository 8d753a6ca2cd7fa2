//! `pods/portforward` of one pod: that of the control plane itself, whose ports are addresses of this process.
//!
//! Clients speak SPDY/3.1, on the connection itself or inside of a WebSocket. Nothing else can be reached: the ports and where they lead
//! are stated by the program.
//!
//! Kubernetes: staging/src/k8s.io/client-go/tools/portforward, staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward, 1.36.

pub mod headers;
mod session;
pub mod spdy;
pub mod websocket;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderName, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;

use crate::api::Body;

/// Forwarding connections at one time.
pub(crate) const SESSIONS: usize = 32;

/// How long the connection may take to become one of another protocol.
const PATIENCE: Duration = Duration::from_secs(10);
/// SPDY by itself.
const SPDY: &str = "SPDY/3.1";
/// What is spoken on it.
const PORTFORWARD: &str = "portforward.k8s.io";
/// Both in a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const WEBSOCKET_KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const WEBSOCKET_PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const WEBSOCKET_ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");

/// The control plane as a pod, for clients that look for one and reach it by its ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its ports, and where each leads.
    pub ports: Vec<(u16, SocketAddr)>,
}

/// How a client asks for the connection to go on in another protocol.
#[derive(Debug)]
pub struct Upgrade {
    /// `Sec-WebSocket-Key`, where it is to be a WebSocket.
    key: Option<HeaderValue>,
    connection: OnUpgrade,
}

impl Upgrade {
    /// What a request asks for, if it asks for port forwarding in a way that is served.
    pub(crate) fn asked<B>(request: &mut http::Request<B>) -> Option<Self> {
        let headers = request.headers();
        let wanted = headers.get(UPGRADE)?.to_str().ok()?;
        let is_get = request.method() == Method::GET;
        let key = match wanted.to_ascii_lowercase().as_str() {
            "websocket" if is_get && offers(headers, &WEBSOCKET_PROTOCOL, TUNNEL) => {
                Some(headers.get(WEBSOCKET_KEY)?.clone())
            }
            "spdy/3.1" if offers(headers, &PROTOCOL, PORTFORWARD) => None,
            _ => return None,
        };
        let connection = hyper::upgrade::on(request);
        Some(Self { key, connection })
    }

    /// The answer that begins it, and what goes on behind it until either side ends it.
    pub(crate) fn begin(self, pod: &OwnPod, place: OwnedSemaphorePermit) -> Response<Body> {
        let mut response = Response::new(Body::Whole(None));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        let tunnelled = self.key.is_some();
        if let Some(key) = &self.key {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(WEBSOCKET_PROTOCOL, HeaderValue::from_static(TUNNEL));
            if let Ok(accept) = HeaderValue::from_str(&websocket::accept(key.as_bytes())) {
                headers.insert(WEBSOCKET_ACCEPT, accept);
            }
        } else {
            headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
            headers.insert(PROTOCOL, HeaderValue::from_static(PORTFORWARD));
        }
        let ports: Arc<[(u16, SocketAddr)]> = pod.ports.clone().into();
        tokio::spawn(async move {
            let _place = place;
            let Ok(Ok(connection)) = tokio::time::timeout(PATIENCE, self.connection).await else {
                return;
            };
            let connection = TokioIo::new(connection);
            if tunnelled {
                session::run(websocket::inside(connection), ports).await;
            } else {
                session::run(connection, ports).await;
            }
        });
        response
    }
}

/// Whether a header offers a protocol.
fn offers(headers: &HeaderMap, name: &HeaderName, protocol: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut offered = values
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    offered.any(|offered| offered.trim() == protocol)
}

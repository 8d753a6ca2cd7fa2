//! The calls of a connection: which service answers which.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, Response};
use http2::{Input, Part, Service};
use tokio::time::Instant;

use super::Server;
use super::discovery::{Discovery, Opening};
use super::link::Link;
use super::mounted::Mounted;
use super::response::{end, grpc};
use super::subscriber::{Incident, Token};
use super::workers::Thread;
use crate::status::{Code, Status};
use crate::stream::Protocol;

const SERVICE: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// Begins the calls of one connection.
pub(super) struct Calls {
    server: Arc<Server>,
    peer: SocketAddr,
    link: Arc<Link>,
    thread: Thread,
}

/// One call.
pub(super) enum Call {
    Discovery(Discovery),
    Mounted(Mounted),
    /// Refused.
    Status(Status),
}

impl Calls {
    pub(super) fn new(
        server: Arc<Server>,
        peer: SocketAddr,
        link: Arc<Link>,
        thread: Thread,
    ) -> Self {
        Self {
            server,
            peer,
            link,
            thread,
        }
    }

    fn discovery(&self, protocol: Protocol, headers: &HeaderMap) -> Result<Call, Status> {
        let wait = self
            .server
            .admission
            .reserve(self.peer.ip(), Instant::now());
        let wait = wait.ok_or_else(|| {
            let status = Status::new(Code::ResourceExhausted, "too many new streams per second");
            let refused = Incident::Refused(status.clone());
            self.server.subscriber.on_incident(refused);
            status
        })?;
        let authorization = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        let opening = Opening {
            server: Arc::clone(&self.server),
            protocol,
            peer: self.peer,
            token: authorization.and_then(Token::from_header),
            link: Arc::clone(&self.link),
            thread: self.thread.clone(),
            wait,
        };
        Ok(Call::Discovery(Discovery::new(opening)))
    }
}

impl Service for Calls {
    type Call = Call;

    fn call(&mut self, request: Request<()>) -> Call {
        let refused = |code, message: String| Call::Status(Status::new(code, message));
        let path = request.uri().path();
        let Some((service, method)) = path.strip_prefix('/').and_then(|p| p.rsplit_once('/'))
        else {
            return refused(Code::Unimplemented, "not a gRPC path".to_owned());
        };
        if request.method() != Method::POST {
            let message = "gRPC calls are POST requests".to_owned();
            return refused(Code::Unimplemented, message);
        }
        let protocol = match (service, method) {
            (SERVICE, "DeltaAggregatedResources") => Protocol::Delta,
            (SERVICE, "StreamAggregatedResources") => Protocol::Sotw,
            _ => {
                return match self.server.mounts.get(service) {
                    Some(mount) => Call::Mounted(Mounted::new(&**mount, request, self.peer)),
                    None => refused(Code::Unimplemented, format!("unknown method {path}")),
                };
            }
        };
        self.discovery(protocol, request.headers())
            .unwrap_or_else(Call::Status)
    }
}

impl http2::Call for Call {
    fn poll(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Part> {
        match self {
            Call::Discovery(call) => call.poll(input, cx),
            Call::Mounted(call) => call.poll(input, cx),
            Call::Status(status) => Poll::Ready(status_only(status)),
        }
    }
}

/// A response that is nothing but a status.
pub(super) fn status_only(status: &Status) -> Part {
    let mut response: Response<()> = grpc(());
    response.headers_mut().extend(end(status));
    Part::Only(response)
}

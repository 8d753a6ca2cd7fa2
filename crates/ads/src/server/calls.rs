//! The calls of a connection: which service answers which.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use http2::{Input, Part, Service};
use tokio::time::Instant;

use super::client::Client;
use super::discovery::{Discovery, Opening};
use super::link::Link;
use super::mounted::Mounted;
use super::response::{end, grpc};
use super::subscriber::Incident;
use super::workers::Thread;
use super::{Mount, Server};
use crate::status::{Code, Status};
use crate::stream::Protocol;

/// The full name of the aggregated discovery service.
pub const SERVICE: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// Begins the calls of one connection.
pub(super) struct Calls {
    server: Arc<Server>,
    client: Client,
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
        client: Client,
        link: Arc<Link>,
        thread: Thread,
    ) -> Self {
        Self {
            server,
            client,
            link,
            thread,
        }
    }

    /// How long a call has to wait for its place among those that begin.
    fn reserve(&self) -> Result<Duration, Status> {
        let address = self.client.peer.ip();
        let wait = self.server.admission.reserve(address, Instant::now());
        wait.ok_or_else(|| {
            let status = Status::new(Code::ResourceExhausted, "too many new streams per second");
            let refused = Incident::Refused(status.clone());
            self.server.subscriber.on_incident(refused);
            status
        })
    }

    fn discovery(&self, protocol: Protocol, request: &Request<()>) -> Result<Call, Status> {
        let opening = Opening {
            wait: self.reserve()?,
            server: Arc::clone(&self.server),
            protocol,
            peer: self.client.peer,
            proving: self.server.subscriber.authenticate(&self.client, request),
            link: Arc::clone(&self.link),
            thread: self.thread.clone(),
        };
        Ok(Call::Discovery(Discovery::new(opening)))
    }

    fn mounted(&self, mount: &dyn Mount, request: Request<()>) -> Result<Call, Status> {
        let wait = self.reserve()?;
        let call = Mounted::new(mount, request, &self.client, wait);
        Ok(Call::Mounted(call))
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
                    Some(mount) => self.mounted(&**mount, request).unwrap_or_else(Call::Status),
                    None => refused(Code::Unimplemented, format!("unknown method {path}")),
                };
            }
        };
        self.discovery(protocol, &request)
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

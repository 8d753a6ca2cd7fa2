//! One connection: which call goes where, and how it ends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use http::Method;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::Server;
use super::body::{AdsBody, Opening, Reply};
use super::joint::{Begun, Joint};
use super::link::{Link, Order};
use super::response::{grpc, trailers_only};
use super::subscriber::{Incident, Token};
use super::timer::Lenient;
use super::workers::Thread;
use crate::status::{Code, Status};
use crate::stream::Protocol;

const SERVICE: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// Counts a stream while it lives.
pub(super) struct Place(Arc<Server>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

fn place(server: &Arc<Server>) -> Option<Place> {
    let streams: &AtomicUsize = &server.streams;
    let free = |n: usize| (n < server.options.max_streams).then_some(n + 1);
    streams
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
        .ok()?;
    Some(Place(Arc::clone(server)))
}

impl Server {
    /// Serves one connection, encrypted or not, until it ends or the server drains.
    pub(super) async fn connection<I>(self: Arc<Self>, io: I, peer: SocketAddr, thread: Thread)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.subscriber.on_incident(Incident::ConnectionOpened);
        let entry = self.links.enter();
        let link = &entry.link;
        let service = {
            let (server, at) = (Arc::clone(&self), (Arc::clone(link), thread));
            service_fn(move |request| {
                let (server, at) = (Arc::clone(&server), at.clone());
                async move { Ok::<_, Infallible>(server.call(request, peer, at).await) }
            })
        };
        let begun = Begun::default();
        let connection = http2::Builder::new(begun.clone())
            .timer(Lenient)
            .keep_alive_interval(self.options.keepalive_interval)
            .keep_alive_timeout(self.options.keepalive_timeout)
            .serve_connection(TokioIo::new(io), service);
        let mut connection = Joint::new(connection, begun);
        let mut known = None;
        let served = poll_fn(|cx| match link.order(&mut known, cx) {
            Order::Serve => connection.poll_unpin(cx).map(Ok),
            order => Poll::Ready(Err(order)),
        });
        let result = match served.await {
            Ok(result) => result,
            Err(Order::Close) => {
                self.subscriber.on_incident(Incident::SendTimedOut);
                Ok(())
            }
            Err(_) => {
                // Streams are told the same and end themselves.
                connection.connection().graceful_shutdown();
                tokio::time::timeout(self.options.drain_timeout, &mut connection)
                    .await
                    .unwrap_or(Ok(()))
            }
        };
        if let Err(error) = result {
            tracing::debug!(%peer, %error, "Connection ended.");
        }
        self.subscriber.on_incident(Incident::ConnectionClosed);
    }

    async fn call(
        self: Arc<Self>,
        request: http::Request<Incoming>,
        peer: SocketAddr,
        (link, thread): (Arc<Link>, Thread),
    ) -> http::Response<Reply> {
        let path = request.uri().path();
        let Some((service, method)) = path.strip_prefix('/').and_then(|p| p.rsplit_once('/'))
        else {
            return trailers_only(&Status::new(Code::Unimplemented, "not a gRPC path"));
        };
        let protocol = match (service, method) {
            (SERVICE, "DeltaAggregatedResources") => Protocol::Delta,
            (SERVICE, "StreamAggregatedResources") => Protocol::Sotw,
            _ => {
                return match self.mounts.get(service) {
                    Some(mount) => mount.call(request, peer).await,
                    None => trailers_only(&Status::new(
                        Code::Unimplemented,
                        format!("unknown method {path}"),
                    )),
                };
            }
        };
        if request.method() != Method::POST {
            return trailers_only(&Status::new(
                Code::Unimplemented,
                "gRPC calls are POST requests",
            ));
        }
        match self.admit().await {
            Ok(place) => {
                let authorization = request
                    .headers()
                    .get(AUTHORIZATION)
                    .and_then(|v| v.to_str().ok());
                let token = authorization.and_then(Token::from_header);
                let opening = Opening {
                    server: self,
                    protocol,
                    peer,
                    token,
                    link,
                    thread,
                    place,
                };
                grpc(Reply::ads(AdsBody::new(opening, request.into_body())))
            }
            Err(status) => {
                self.subscriber
                    .on_incident(Incident::Refused(status.clone()));
                trailers_only(&status)
            }
        }
    }

    /// Waits for the rate limit and takes a place among the streams.
    async fn admit(self: &Arc<Self>) -> Result<Place, Status> {
        match self.admission.reserve(Instant::now()) {
            Some(Duration::ZERO) => {}
            Some(wait) => tokio::time::sleep(wait).await,
            None => {
                return Err(Status::new(
                    Code::ResourceExhausted,
                    "too many new streams per second",
                ));
            }
        }
        place(self).ok_or_else(|| Status::new(Code::ResourceExhausted, "too many streams"))
    }
}

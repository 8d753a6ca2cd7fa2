//! One connection: which call goes where, how long a client may stall, and how it ends at shutdown.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::body::{AdsBody, Opening, Reply};
use super::response::{grpc, trailers_only};
use super::subscriber::{Incident, Token};
use crate::status::{Code, Status};
use crate::stream::Protocol;

const SERVICE: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

/// Since when the connection's streams wait for an answer without any; zero if none does.
///
/// Streams of one connection share it: progress of one counts for all, which is lenient and costs nothing.
#[derive(Debug)]
pub(super) struct Stall {
    epoch: Instant,
    since: AtomicU64,
}

impl Stall {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            since: AtomicU64::new(0),
        }
    }

    /// Notes how a stream stands: whether it waits for answers, and whether one came.
    pub(super) fn note(&self, waits: bool, progress: bool) {
        if !waits {
            self.since.store(0, Ordering::Relaxed);
        } else if progress || self.since.load(Ordering::Relaxed) == 0 {
            let millis = self.epoch.elapsed().as_millis() as u64;
            self.since.store(millis.max(1), Ordering::Relaxed);
        }
    }

    fn lasts(&self, limit: Duration) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0
            && self
                .epoch
                .elapsed()
                .saturating_sub(Duration::from_millis(since))
                >= limit
    }
}

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
    /// Serves one connection, encrypted or not, until it ends or `stop`.
    pub async fn connection<I>(self: Arc<Self>, io: I, peer: SocketAddr, stop: CancellationToken)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.subscriber.on_incident(Incident::ConnectionOpened);
        let stall = Arc::new(Stall::new());
        let service = {
            let (server, stall, stop) = (Arc::clone(&self), Arc::clone(&stall), stop.clone());
            service_fn(move |request| {
                let (server, stall, stop) = (Arc::clone(&server), Arc::clone(&stall), stop.clone());
                async move { Ok::<_, Infallible>(server.call(request, peer, stall, stop).await) }
            })
        };
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(self.options.keepalive_interval)
            .keep_alive_timeout(self.options.keepalive_timeout)
            .serve_connection(TokioIo::new(io), service);
        let mut connection = std::pin::pin!(connection);
        let limit = self.options.answer_timeout;
        let mut watchdog = tokio::time::interval_at(Instant::now() + limit, limit);
        let result = loop {
            tokio::select! {
                result = connection.as_mut() => break result,
                _ = watchdog.tick() => {
                    if stall.lasts(limit) {
                        self.subscriber.on_incident(Incident::SendTimedOut);
                        break Ok(());
                    }
                }
                () = stop.cancelled() => {
                    // Streams see the same signal and end themselves.
                    connection.as_mut().graceful_shutdown();
                    break tokio::time::timeout(self.options.drain_timeout, connection.as_mut()).await.unwrap_or(Ok(()));
                }
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
        stall: Arc<Stall>,
        stop: CancellationToken,
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
                    stall,
                    stop,
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

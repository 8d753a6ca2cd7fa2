//! Between the protocol and the derive thread: admits proxies, passes on what they want, counts what happens.

mod connections;
mod held;
mod proof;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ads::server::{
    Client, HandshakeError, Incident, Join, Proven, Session, Subscriber, Subscription, Work,
};
use ads::{Code, Event, Response, Status};
use futures::future::{BoxFuture, ready};
use http::Request;
use http::header::AUTHORIZATION;
use model::node::Identity;
use model::peer::network_of;
use registration::Seat as Registered;
use xds::{TypeUrl, Types};

use crate::debug::over_xds::ThisMachine;
use crate::derive::{Derive, ProxyId, Refused, Revision, Seat};
use crate::exporting::ExportOptions;
use crate::metrics::Metrics;
use crate::own::{Own, OwnProxies};
use crate::quiet::{Quiet, beginning, listed, shown};
use crate::registration::Registration;
use crate::secure::Trust;
use crate::unsupported::Unsupported;
use crate::warm::Warm;
pub use connections::{Connection, Connections, TypeState};
use proof::{authorize, prove_or_admit};

/// Lines that clients can cause, each kind by itself.
static REFUSED: Quiet = Quiet::new();
static LIMITED: Quiet = Quiet::new();
static STALLED: Quiet = Quiet::new();
static NACKS: Quiet = Quiet::new();
static JOINED: Quiet = Quiet::new();
static LEFT: Quiet = Quiet::new();

/// Admits proxies to the derive thread.
pub struct Proxies {
    /// The derive thread.
    pub derive: Derive,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// For debug pages.
    pub connections: Arc<Connections>,
    /// What proxies had before the start.
    pub warm: Arc<Warm>,
    /// Those of a kind that is not supported.
    pub unsupported: Arc<Unsupported>,
    /// Clients with the types that they asked for and that are not served.
    pub unserved: Arc<Unsupported>,
    /// Workloads that get an entry of their own.
    pub registration: Registration,
    /// Who finds out who they are.
    pub trust: Trust,
    /// Whether tokens `sa:NAMESPACE:NAME` are taken for those identities; for tests.
    pub test_identities: bool,
    /// The secret of proxies that this process starts.
    pub own: Option<OwnProxies>,
    /// Who is let in by address, to read configuration and nothing else.
    pub peers: ExportOptions,
}

impl Subscriber for Proxies {
    /// On an encrypted connection everybody has to prove who it is; on a plaintext one nobody can but our own proxies, and it is
    /// seen which clients are programs of this machine.
    fn authenticate(
        &self,
        client: &Client,
        request: &Request<()>,
    ) -> BoxFuture<'static, Result<Proven, Status>> {
        let headers = request.headers();
        if client.is_encrypted() {
            let admitted = self.peers.admits(client.peer.ip());
            let (client, headers) = (client.clone(), headers.clone());
            return Box::pin(prove_or_admit(
                self.trust.clone(),
                client,
                headers,
                admitted,
            ));
        }
        let mut proven = Proven::default();
        if ThisMachine::speaks(client, request) {
            proven.caller = Some(Arc::new(ThisMachine));
        }
        if self.own.as_ref().is_some_and(|own| own.is_shown(headers)) {
            proven.caller = Some(Arc::new(Own));
        }
        if self.test_identities {
            let token = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
            let token = token.and_then(|v| v.strip_prefix("Bearer "));
            if let Some(identity) = token.and_then(Identity::of_test_token) {
                proven.caller = Some(Arc::new(identity));
            }
        }
        Box::pin(ready(Ok(proven)))
    }

    fn subscribe(
        &self,
        join: Join,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Subscription, Status>> + Send + 'static>>
    {
        let derive = self.derive.clone();
        let (metrics, connections) = (self.metrics.clone(), self.connections.clone());
        let warm = self.warm.clone();
        let unsupported = self.unsupported.clone();
        let registration = self.registration.clone();
        let trust = self.trust.clone();
        Box::pin(async move {
            let mut node = mesh::node::from_envoy(&join.node)
                .map_err(|message| Status::new(Code::InvalidArgument, message))?;
            xlate::supported(node.role).map_err(|refused| {
                if unsupported.first(&node.id) {
                    let (proxy, peer) = (beginning(&node.id), join.peer);
                    tracing::warn!(%proxy, %peer, "A proxy was refused: {refused}.");
                }
                Status::new(Code::Unimplemented, refused.to_string())
            })?;
            node.identity = authorize(&trust, &join.proven, &node, join.peer)?;
            connections.share(&mut node);
            let node = Arc::new(node);
            let registered = registration.join(&node, join.peer.ip()).await?;
            let from = network_of(join.peer.ip());
            // What a proxy still has is never older than what is on disk.
            let had = (!join.returns).then(|| warm.of(&node)).flatten();
            let subscription =
                derive
                    .subscribe(node.clone(), from, had)
                    .await
                    .map_err(|refused| {
                        let code = match refused {
                            Refused::Closed => Code::Unavailable,
                            Refused::Exhausted(_) => Code::ResourceExhausted,
                        };
                        Status::new(code, refused.to_string())
                    })?;
            let version = metrics.connected.joined(&node);
            if let Some(left_out) = line(&metrics, &JOINED) {
                let (proxy, peer) = (beginning(&node.id), join.peer);
                tracing::info!(%proxy, %peer, left_out = shown(left_out), "A proxy connected.");
            }
            let connection = connections.add(node, join.peer);
            let session = StreamSession {
                proxy: subscription.proxy,
                _seat: subscription.seat,
                wanted: Types::NONE,
                derive,
                metrics,
                connections,
                joined: Instant::now(),
                connection,
                newest: None,
                version,
                registered,
            };
            Ok(Subscription {
                published: subscription.published,
                session: Box::new(session),
            })
        })
    }

    fn on_incident(&self, incident: Incident) {
        match incident {
            Incident::Panicked => self.metrics.internal_errors.inc(),
            Incident::Refused(status) => {
                self.metrics.refused_streams.inc();
                // A proxy of a kind that is not supported has a line of its own.
                if status.code != Code::Unimplemented
                    && let Some(left_out) = self.line(&REFUSED)
                {
                    let reason = status.to_string();
                    let reason = beginning(&reason);
                    tracing::warn!(reason, left_out = shown(left_out), "A stream was refused.");
                }
            }
            Incident::Ended(status) if status.code == Code::ResourceExhausted => {
                self.metrics.limited_streams.inc();
                if let Some(left_out) = self.line(&LIMITED) {
                    let reason = status.to_string();
                    let reason = beginning(&reason);
                    tracing::warn!(
                        reason,
                        left_out = shown(left_out),
                        "A stream that exceeded a limit was ended."
                    );
                }
            }
            Incident::SendTimedOut => {
                self.cut("stalled");
                self.metrics.write_timeouts.inc();
                if let Some(left_out) = self.line(&STALLED) {
                    tracing::warn!(
                        left_out = shown(left_out),
                        "A proxy that does not read was disconnected."
                    );
                }
            }
            // The server says so in the log, now and then.
            Incident::ConnectionRefused => self.cut("limit"),
            Incident::AcceptFailed => self.cut("system"),
            Incident::ReceiveTimedOut => self.cut("slow"),
            Incident::HandshakeRefused => self.cut("handshakes"),
            Incident::HandshakeBegan => self.metrics.handshakes.inc(),
            Incident::HandshakeEnded(outcome) => {
                self.metrics.handshakes.dec();
                let result = outcome.map_or_else(HandshakeError::label, |()| "ok");
                let ended = &self.metrics.ended_handshakes;
                ended.with_label_values(&[result]).inc();
            }
            Incident::UnknownType { client, type_url } => {
                // Each client once for each type, however often it connects.
                if self.unserved.first(&format!("{client} {type_url}")) {
                    let (client, type_url) = (beginning(&client), beginning(&type_url));
                    tracing::info!(
                        client,
                        type_url,
                        "A client asked for a type that is not served and got an empty response."
                    );
                }
            }
            Incident::ConnectionOpened | Incident::ConnectionClosed | Incident::Ended(_) => {}
        }
    }
}

impl Proxies {
    fn cut(&self, reason: &str) {
        self.metrics
            .cut_connections
            .with_label_values(&[reason])
            .inc();
    }

    /// Takes a line of the log, or counts that it is left out.
    fn line(&self, of: &Quiet) -> Option<u64> {
        line(&self.metrics, of)
    }
}

fn line(metrics: &Metrics, of: &Quiet) -> Option<u64> {
    let taken = of.take(Instant::now());
    if taken.is_none() {
        metrics.quieted.inc();
    }
    taken
}

struct StreamSession {
    proxy: ProxyId,
    _seat: Seat,
    /// Types that the derive thread was told of.
    wanted: Types,
    derive: Derive,
    metrics: Arc<Metrics>,
    connections: Arc<Connections>,
    joined: Instant,
    connection: Arc<Mutex<Connection>>,
    /// The newest revision that was asked after.
    newest: Option<Arc<Revision>>,
    version: String,
    /// The entry of its workload.
    registered: Option<Registered>,
}

impl StreamSession {
    /// The change that a response brings, if it was after the proxy came.
    fn change(&mut self, response: &Response) -> Option<Arc<Revision>> {
        if response.asked {
            return None;
        }
        if self.newest.as_ref().map(|r| r.number) != Some(response.revision) {
            self.newest = self.derive.revisions().get(response.revision);
        }
        let newest = self.newest.as_ref();
        newest.filter(|r| r.since >= self.joined).cloned()
    }

    fn with_type<R>(&self, ty: TypeUrl, act: impl FnOnce(&mut TypeState) -> R) -> R {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        act(connection.types[ty].get_or_insert_default())
    }
}

impl Session for StreamSession {
    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Subscribed { ty, selection } => {
                self.with_type(*ty, |t| t.selection = Some(selection.clone()));
                if self.wanted.insert(*ty) {
                    // The process is going down if this fails; the stream ends by itself.
                    let _ = self.derive.want(self.proxy, *ty);
                }
            }
            Event::Holds { ty, revision } => self.with_type(*ty, |t| {
                let now = SystemTime::now();
                t.holds = true;
                // As of the differences that it would be sent.
                (t.version, t.revision) = (*revision, *revision);
                (t.sent_at, t.acked_at) = (now, Some(now));
            }),
            Event::Ack { ty, nonce, .. } => {
                let (change, after) = self.with_type(*ty, |t| {
                    let now = SystemTime::now();
                    t.acked = Some(*nonce);
                    t.acked_at = Some(now);
                    if t.sent != *nonce {
                        return (None, None);
                    }
                    (t.change.take(), now.duration_since(t.sent_at).ok())
                });
                if let Some(after) = after {
                    self.metrics.stages.ack.observe(after.as_secs_f64());
                }
                if let Some(change) = change {
                    let after = change.since.elapsed();
                    self.metrics.convergence.observe(after.as_secs_f64());
                }
            }
            Event::Nack {
                ty,
                nonce,
                message,
                resources,
                ..
            } => {
                self.metrics.of_type(*ty).rejects.inc();
                self.with_type(*ty, |t| {
                    if t.sent == *nonce {
                        t.refused = Some(beginning(message).into());
                    }
                });
                let Some(left_out) = line(&self.metrics, &NACKS) else {
                    return;
                };
                let node = self
                    .connection
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .node
                    .clone();
                let proxy = beginning(&node.id);
                let resources = listed(resources.iter().map(|name| &**name));
                let reason = beginning(message);
                tracing::warn!(proxy, r#type = %ty, resources, reason, left_out = shown(left_out), "A proxy rejected a response.");
            }
            Event::Health { healthy, message } => {
                if let Some(registered) = &self.registered {
                    registered.report(*healthy, message);
                }
            }
            Event::Stale { ty } => self.metrics.of_type(*ty).expired_nonces.inc(),
        }
    }

    fn on_work(&mut self, work: Work, took: Duration) {
        let stages = &self.metrics.stages;
        match work {
            Work::Merge => stages.merge.observe(took.as_secs_f64()),
            Work::Encode => stages.encode.observe(took.as_secs_f64()),
        }
    }

    fn on_send(&mut self, response: &Response, bytes: usize) {
        let ty = response.content.ty;
        let change = self.change(response);
        let of_type = self.metrics.of_type(ty);
        if let Some(change) = &change {
            let after = change.written().as_secs_f64();
            self.metrics.stages.write.observe(after);
            of_type.push_time.observe(after);
        }
        of_type.pushes.inc();
        #[allow(clippy::cast_precision_loss)] // Sizes stay far below 2^52.
        of_type.config_size.observe(bytes as f64);
        self.with_type(ty, |t| {
            t.sent = response.nonce;
            t.version = response.content.version;
            t.revision = response.revision;
            t.change = change;
            t.sent_at = SystemTime::now();
            t.refused = None;
            t.holds = false;
        });
    }
}

impl Drop for StreamSession {
    fn drop(&mut self) {
        self.metrics.connected.left(&self.version);
        let (number, node) = {
            let connection = self.connection.lock();
            let connection = connection.unwrap_or_else(PoisonError::into_inner);
            (connection.number, connection.node.clone())
        };
        self.connections.remove(number);
        if let Some(left_out) = line(&self.metrics, &LEFT) {
            let proxy = beginning(&node.id);
            tracing::info!(%proxy, left_out = shown(left_out), "A proxy disconnected.");
        }
    }
}

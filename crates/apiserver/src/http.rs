//! Sockets: TLS, credentials, bodies; everything else is [`Api::handle`].

mod connection;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use model::peer::network_of;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access::oidc::TokenError;
use crate::access::{Verb, Who};
use crate::api::{Api, Body, LARGEST_BODY, Query, Request, Target};
use crate::audit::Refused;
use crate::forward::Upgrade;
use crate::limits::{Share, Shares};
use crate::pki;
use crate::status::Failure;
use crate::this_machine;
use connection::{Answer, Ending, Traffic};

/// How long to wait where the system has no descriptors left: accepting again at once would spin.
const BREATH: Duration = Duration::from_millis(50);
/// The socket in the data folder for commands of the operator of this machine.
pub const LOCAL_SOCKET: &str = "api.sock";
/// The user of a request that asks for what is open to all.
const ANONYMOUS: &str = "system:anonymous";

/// The address of clients that have none.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// How clients prove who they are.
#[derive(Clone)]
pub enum Security {
    /// Plain HTTP; whoever reaches the port may do everything.
    InsecureLocal,
    /// TLS with tokens or client certificates.
    Tls(Arc<ServerConfig>),
    /// The same, with certificates that change. Connections of client certificates end when they do.
    Reloaded(watch::Receiver<Arc<ServerConfig>>),
}

/// Who is at the other end of a connection.
#[derive(Clone)]
enum Caller {
    /// Whoever reached a port that asks for nothing.
    Anybody,
    /// Whom a certificate, or the file system, says it is; else a token has to say.
    Known(Option<Who>),
}

/// The other end of a connection.
#[derive(Clone)]
struct Peer {
    caller: Caller,
    /// Its address; none on the socket of the data folder.
    from: Option<IpAddr>,
}

/// What all connections share.
struct Port {
    api: Arc<Api>,
    /// Requests of each user.
    requests: Shares<Arc<str>>,
    /// Bytes of bodies.
    bodies: Shares<()>,
}

impl Port {
    fn of(api: Arc<Api>) -> Arc<Self> {
        let limits = api.limits();
        let requests = Shares::new(usize::MAX, limits.requests_per_user);
        let bodies = Shares::new(limits.body_bytes, limits.body_bytes);
        Arc::new(Self {
            api,
            requests,
            bodies,
        })
    }
}

/// Serves an address until `stop`.
pub async fn serve(
    listener: TcpListener,
    security: Security,
    api: Arc<Api>,
    stop: CancellationToken,
) {
    let limits = api.limits();
    let slots = Shares::new(limits.connections, limits.connections_per_peer);
    let port = Port::of(api);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, from)) = accepted else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let Some(slot) = slots.take(network_of(from.ip())) else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (port, security, stop) = (port.clone(), security.clone(), stop.clone());
        let from = Some(from.ip());
        tokio::spawn(async move {
            let _slot = slot;
            let (config, mut reloaded) = match security {
                Security::InsecureLocal => {
                    let caller = Caller::Anybody;
                    return connection(stream, Peer { caller, from }, port, now(stop)).await;
                }
                Security::Tls(config) => (config, None),
                Security::Reloaded(mut configs) => {
                    let config = configs.borrow_and_update().clone();
                    (config, Some(configs))
                }
            };
            let handshake = TlsAcceptor::from(config).accept(stream);
            let patience = port.api.limits().handshake;
            let stream = match tokio::time::timeout(patience, handshake).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return refused_certificate(&error, from, &port.api),
                Err(_) => return,
            };
            let certificates = stream.get_ref().1.peer_certificates();
            let who = certificates.and_then(|all| pki::identity(all.first()?));
            // A certificate is looked at once, so whoever came by one has to come again.
            let by_certificate = who.is_some();
            let ending = async move {
                let changed = async {
                    if let Some(configs) = reloaded.as_mut().filter(|_| by_certificate)
                        && configs.changed().await.is_ok()
                    {
                        return;
                    }
                    std::future::pending().await
                };
                tokio::select! {
                    () = stop.cancelled() => Ending::Now,
                    () = changed => Ending::Gently,
                }
            };
            let caller = Caller::Known(who);
            connection(stream, Peer { caller, from }, port, ending).await;
        });
    }
}

async fn now(stop: CancellationToken) -> Ending {
    stop.cancelled().await;
    Ending::Now
}

/// Serves the socket of the data folder until `stop`. Who may open it is the file system's to say.
///
/// # Errors
///
/// When the socket cannot be made.
pub fn serve_local(data: &Path, api: Arc<Api>, stop: CancellationToken) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = data.join(LOCAL_SOCKET);
    // The store is locked by this process, so a socket that is there was left behind.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let port = Port::of(api);
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(BREATH).await;
                continue;
            };
            let peer = Peer {
                caller: Caller::Known(Some(Who::local())),
                from: None,
            };
            tokio::spawn(connection(stream, peer, port.clone(), now(stop.clone())));
        }
        let _ = std::fs::remove_file(&path);
    });
    Ok(())
}

/// Records a client whose certificate is not taken; connections that fail for other reasons are no attempts of anybody.
fn refused_certificate(error: &std::io::Error, from: Option<IpAddr>, api: &Api) {
    let cause = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    if let Some(cause @ rustls::Error::InvalidCertificate(_)) = cause {
        let refused = Refused {
            method: "",
            path: "",
            user_agent: "",
            from,
            attempted: "certificate",
            why: &cause.to_string(),
        };
        api.audit()
            .refused(&refused, StatusCode::UNAUTHORIZED.as_u16());
    }
}

async fn connection<S>(stream: S, peer: Peer, port: Arc<Port>, ending: impl Future<Output = Ending>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = port.api.limits().clone();
    let answer = move |request, traffic| answer(request, peer.clone(), port.clone(), traffic);
    connection::serve(stream, &limits, ending, answer).await;
}

async fn answer(
    mut request: http::Request<Incoming>,
    peer: Peer,
    port: Arc<Port>,
    traffic: Arc<Traffic>,
) -> Result<http::Response<Answer>, Infallible> {
    let begun = traffic.begin();
    let upgrade = Upgrade::asked(&mut request);
    let (parts, body) = request.into_parts();
    let mut body = Some(body);
    let from = peer.from;
    let (response, held) = match read(&parts, &mut body, peer, &port).await {
        Ok((mut request, held)) => {
            request.upgrade = upgrade;
            let response = port.api.handle(request).await;
            (response, held.request)
        }
        Err(TurnedAway { failure, why }) => {
            let refused = Refused {
                method: parts.method.as_str(),
                path: parts.uri.path(),
                user_agent: &text(&parts, header::USER_AGENT),
                from,
                attempted: match text(&parts, header::AUTHORIZATION) {
                    shown if shown.is_empty() => "none",
                    shown if bearer(&shown).is_some() => "bearer",
                    _ => "other",
                },
                why: &why,
            };
            port.api.audit().refused(&refused, failure.code.as_u16());
            (crate::api::failed(&failure), None)
        }
    };
    Ok(response.map(|answer: Body| begun.answer(answer, held, body)))
}

/// What a request holds: itself until its answer is taken, and its body until it is answered.
#[derive(Default)]
struct Held {
    request: Option<Share<Arc<str>>>,
    body: Option<Share<()>>,
}

/// A request that is not answered, and why: what the client is told says less.
struct TurnedAway {
    failure: Failure,
    why: String,
}

impl From<Failure> for TurnedAway {
    fn from(failure: Failure) -> Self {
        let why = failure.message.clone();
        Self { failure, why }
    }
}

/// The values of a header.
fn text(parts: &http::request::Parts, name: header::HeaderName) -> String {
    let values = parts.headers.get_all(name).iter();
    let values = values.filter_map(|v| v.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// The token behind `Bearer`, which may be nothing; `None` for another scheme.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ').unwrap_or((header, ""));
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

/// Finds out who asks and, only when that is known, reads the body. What is not read whole stays in `body`.
async fn read(
    parts: &http::request::Parts,
    body: &mut Option<Incoming>,
    peer: Peer,
    port: &Port,
) -> Result<(Request, Held), TurnedAway> {
    let api = &port.api;
    let text = |name: header::HeaderName| text(parts, name);
    let shown = text(header::AUTHORIZATION);
    let who = match (peer.caller, bearer(&shown)) {
        (Caller::Anybody, _) => {
            let from = peer.from.unwrap_or(LOOPBACK);
            if let Err(refused) = this_machine::check(from, &parts.uri, &parts.headers) {
                let message = format!("with --insecure-local {refused}");
                return Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).into());
            }
            Ok(Who::local())
        }
        // A wrong token is no excuse for being somebody else.
        (Caller::Known(_), Some("")) => Err(TokenError::Empty.to_string()),
        (Caller::Known(_), Some(token)) => {
            let who = api.authenticate(token).await;
            who.map_err(|error| error.to_string())
        }
        (Caller::Known(who), None) => who.ok_or_else(|| "no token and no certificate".to_owned()),
    };
    let path = parts.uri.path().to_owned();
    let target = Target::parse(&path);
    let open = target.as_ref().is_ok_and(Target::is_open);
    let (who, anonymous) = match who {
        Ok(who) => (who, false),
        Err(_) if open => (Who::new(ANONYMOUS, &[]), true),
        Err(why) => {
            let failure = Failure::unauthorized();
            return Err(TurnedAway { failure, why });
        }
    };
    let mut request = Request {
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        path,
        target,
        accept: text(header::ACCEPT),
        content_type: text(header::CONTENT_TYPE),
        user_agent: text(header::USER_AGENT),
        body: bytes::Bytes::new(),
        who,
        from: peer.from,
        method: parts.method.clone(),
        upgrade: None,
    };
    let mut held = Held::default();
    if anonymous {
        return Ok((request, held));
    }
    let watches = matches!(request.verb(), Some(Ok(Verb::Watch)));
    if !watches && !request.who.is_master() {
        let share = port.requests.take(request.who.name.clone());
        held.request = Some(share.ok_or_else(Failure::too_many)?);
    }
    if !matches!(parts.method, Method::GET | Method::HEAD)
        && let Some(unread) = body
    {
        let stated = unread.size_hint().exact();
        let size = stated.map_or(LARGEST_BODY, |n| usize::try_from(n).unwrap_or(usize::MAX));
        if size > LARGEST_BODY {
            return Err(too_large().into());
        }
        let share = port.bodies.take_many((), size);
        held.body = Some(share.ok_or_else(Failure::too_many)?);
        request.body = whole(unread, api.limits().body).await?;
        *body = None;
    }
    Ok((request, held))
}

fn too_large() -> Failure {
    let message = format!("Request entity too large: limit is {LARGEST_BODY}");
    let code = StatusCode::PAYLOAD_TOO_LARGE;
    Failure::new(code, "RequestEntityTooLarge", message)
}

/// All of a body.
async fn whole(body: &mut Incoming, patience: Duration) -> Result<bytes::Bytes, Failure> {
    let limited = Limited::new(body, LARGEST_BODY).collect();
    match tokio::time::timeout(patience, limited).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Failure::bad_request(format!(
            "the body cannot be read: {error}"
        ))),
        Err(_) => {
            let code = StatusCode::REQUEST_TIMEOUT;
            Err(Failure::new(code, "Timeout", "the body did not come"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_is_told_by_its_scheme() {
        for empty in ["Bearer", "Bearer ", "bearer   ", "BEARER"] {
            assert_eq!(bearer(empty), Some(""), "{empty:?}");
        }
        assert_eq!(bearer("bearer  a-token "), Some("a-token"));
        assert_eq!(bearer("Basic a"), None);
        assert_eq!(bearer(""), None);
    }
}

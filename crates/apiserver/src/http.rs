//! Sockets: TLS, credentials, bodies; everything else is [`Api::handle`].

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access::Who;
use crate::api::{Api, LARGEST_BODY, Query, Request, Response};
use crate::audit::Refused;
use crate::pki;
use crate::status::Failure;

/// Connections that are served at once.
const CONNECTIONS: usize = 10_000;
/// How long a handshake may take, and a body.
const PATIENCE: Duration = Duration::from_secs(30);
/// The socket in the data folder for commands of the operator of this machine.
pub const LOCAL_SOCKET: &str = "api.sock";

/// How clients prove who they are.
#[derive(Clone)]
pub enum Security {
    /// Plain HTTP; whoever reaches the port may do everything.
    InsecureLocal,
    /// TLS with tokens or client certificates.
    Tls(Arc<ServerConfig>),
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

/// Serves an address until `stop`.
pub async fn serve(
    listener: TcpListener,
    security: Security,
    api: Arc<Api>,
    stop: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors: accepting again at once would spin.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (api, security, stop) = (api.clone(), security.clone(), stop.clone());
        let from = Some(from.ip());
        tokio::spawn(async move {
            let _slot = slot;
            let (stream, who) = match security {
                Security::InsecureLocal => {
                    let peer = Peer {
                        caller: Caller::Anybody,
                        from,
                    };
                    return connection(stream, peer, api, stop).await;
                }
                Security::Tls(config) => {
                    let handshake = TlsAcceptor::from(config).accept(stream);
                    let stream = match tokio::time::timeout(PATIENCE, handshake).await {
                        Ok(Ok(stream)) => stream,
                        Ok(Err(error)) => return refused_certificate(&error, from, &api),
                        Err(_) => return,
                    };
                    let certificates = stream.get_ref().1.peer_certificates();
                    let who = certificates.and_then(|all| pki::identity(all.first()?));
                    (stream, who)
                }
            };
            let caller = Caller::Known(who);
            connection(stream, Peer { caller, from }, api, stop).await;
        });
    }
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
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            if let Ok((stream, _)) = accepted {
                let peer = Peer {
                    caller: Caller::Known(Some(Who::local())),
                    from: None,
                };
                tokio::spawn(connection(stream, peer, api.clone(), stop.clone()));
            }
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

async fn connection<S>(stream: S, peer: Peer, api: Arc<Api>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service =
        hyper::service::service_fn(move |request| answer(request, peer.clone(), api.clone()));
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(PATIENCE))
        .max_concurrent_streams(250);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that breaks off is its own business.
        _ = serving => {}
        () = stop.cancelled() => {}
    }
}

async fn answer(
    request: http::Request<Incoming>,
    peer: Peer,
    api: Arc<Api>,
) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    Ok(match read(&parts, body, peer.caller, &api).await {
        Ok(request) => api.handle(request).await,
        Err(TurnedAway { failure, why }) => {
            let refused = Refused {
                method: parts.method.as_str(),
                path: parts.uri.path(),
                user_agent: &text(&parts, header::USER_AGENT),
                from: peer.from,
                attempted: match text(&parts, header::AUTHORIZATION) {
                    shown if shown.is_empty() => "none",
                    shown if shown.starts_with("Bearer ") => "bearer",
                    _ => "other",
                },
                why: &why,
            };
            api.audit().refused(&refused, failure.code.as_u16());
            crate::api::failed(&failure)
        }
    })
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

/// Whether a request to a port without credentials comes from no web page, be it by another name of this machine.
fn is_of_this_machine(host: &str, authority: Option<&str>, origin: &str) -> bool {
    let host = if host.is_empty() {
        authority.unwrap_or_default()
    } else {
        host
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let loopback = name
        .parse::<std::net::IpAddr>()
        .is_ok_and(|ip| ip.to_canonical().is_loopback());
    origin.is_empty() && (loopback || name == "localhost")
}

async fn read(
    parts: &http::request::Parts,
    body: Incoming,
    caller: Caller,
    api: &Api,
) -> Result<Request, TurnedAway> {
    let text = |name: header::HeaderName| text(parts, name);
    let bearer = text(header::AUTHORIZATION);
    let open_to_all = matches!(caller, Caller::Anybody);
    let who = match (caller, bearer.strip_prefix("Bearer ")) {
        (Caller::Anybody, _) => Ok(Who::local()),
        // A wrong token is no excuse for being somebody else.
        (Caller::Known(_), Some(token)) => {
            let who = api.access().authenticate(token.trim()).await;
            who.map_err(|error| error.to_string())
        }
        (Caller::Known(who), None) => who.ok_or_else(|| "no token and no certificate".to_owned()),
    };
    if open_to_all
        && !is_of_this_machine(&text(header::HOST), parts.uri.host(), &text(header::ORIGIN))
    {
        let message =
            "with --insecure-local only programs of this machine are answered, and no web page";
        return Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).into());
    }
    let path = parts.uri.path().to_owned();
    let open = ["/livez", "/readyz", "/healthz", "/version"].contains(&path.as_str());
    let who = match who {
        Ok(who) => who,
        Err(_) if open => Who::new("system:anonymous", &[]),
        Err(why) => {
            let failure = Failure::unauthorized();
            return Err(TurnedAway { failure, why });
        }
    };
    let limited = Limited::new(body, LARGEST_BODY).collect();
    let body = match tokio::time::timeout(PATIENCE, limited).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            return Err(Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                message,
            )
            .into());
        }
        Ok(Err(error)) => {
            let message = format!("the body cannot be read: {error}");
            return Err(Failure::bad_request(message).into());
        }
        Err(_) => {
            let code = StatusCode::REQUEST_TIMEOUT;
            return Err(Failure::new(code, "Timeout", "the body did not come").into());
        }
    };
    Ok(Request {
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        path,
        accept: text(header::ACCEPT),
        content_type: text(header::CONTENT_TYPE),
        user_agent: text(header::USER_AGENT),
        body,
        who,
        method: parts.method.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_no_programs_of_this_machine() {
        for host in ["127.0.0.1:6443", "localhost", "[::1]:6443", "127.9.9.9"] {
            assert!(is_of_this_machine(host, None, ""), "{host}");
            assert!(!is_of_this_machine(host, None, "https://example.com"));
        }
        for host in ["example.com:6443", "10.0.0.1", "", "127.0.0.1.example.com"] {
            assert!(!is_of_this_machine(host, None, ""), "{host}");
        }
        assert!(is_of_this_machine("", Some("localhost"), ""));
    }
}

//! Sockets: TLS, credentials, bodies; everything else is [`Api::handle`].

use std::convert::Infallible;
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
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors: accepting again at once would spin.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (api, security, stop) = (api.clone(), security.clone(), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            match security {
                Security::InsecureLocal => connection(stream, Caller::Anybody, api, stop).await,
                Security::Tls(config) => {
                    let handshake = TlsAcceptor::from(config).accept(stream);
                    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, handshake).await else {
                        return;
                    };
                    let certificates = stream.get_ref().1.peer_certificates();
                    let who = certificates.and_then(|all| pki::identity(all.first()?));
                    connection(stream, Caller::Known(who), api, stop).await;
                }
            }
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
                tokio::spawn(connection(
                    stream,
                    Caller::Known(Some(Who::local())),
                    api.clone(),
                    stop.clone(),
                ));
            }
        }
        let _ = std::fs::remove_file(&path);
    });
    Ok(())
}

async fn connection<S>(stream: S, caller: Caller, api: Arc<Api>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service =
        hyper::service::service_fn(move |request| answer(request, caller.clone(), api.clone()));
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
    caller: Caller,
    api: Arc<Api>,
) -> Result<Response, Infallible> {
    Ok(match read(request, caller, &api).await {
        Ok(request) => api.handle(request).await,
        Err(failure) => crate::api::failed(&failure),
    })
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
    request: http::Request<Incoming>,
    caller: Caller,
    api: &Api,
) -> Result<Request, Failure> {
    let (parts, body) = request.into_parts();
    let text = |name: header::HeaderName| -> String {
        let values = parts
            .headers
            .get_all(name)
            .iter()
            .filter_map(|v| v.to_str().ok());
        values.collect::<Vec<_>>().join(",")
    };
    let bearer = text(header::AUTHORIZATION);
    let open_to_all = matches!(caller, Caller::Anybody);
    let who = match (caller, bearer.strip_prefix("Bearer ")) {
        (Caller::Anybody, _) => Some(Who::local()),
        // A wrong token is no excuse for being somebody else.
        (Caller::Known(_), Some(token)) => api.access().authenticate(token.trim()).await,
        (Caller::Known(who), None) => who,
    };
    if open_to_all
        && !is_of_this_machine(&text(header::HOST), parts.uri.host(), &text(header::ORIGIN))
    {
        let message =
            "with --insecure-local only programs of this machine are answered, and no web page";
        return Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    let path = parts.uri.path().to_owned();
    let open = ["/livez", "/readyz", "/healthz", "/version"].contains(&path.as_str());
    let who = match who {
        Some(who) => who,
        None if open => Who::new("system:anonymous", &[]),
        None => return Err(Failure::unauthorized()),
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
            ));
        }
        Ok(Err(error)) => {
            return Err(Failure::bad_request(format!(
                "the body cannot be read: {error}"
            )));
        }
        Err(_) => {
            return Err(Failure::new(
                StatusCode::REQUEST_TIMEOUT,
                "Timeout",
                "the body did not come",
            ));
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
        method: parts.method,
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

//! What can go wrong for a client.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// All but [`Error::Status`] with a transient code and [`Error::Connect`] are for the user to mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there, or nobody can be reached. Worth a retry.
    #[error("cannot connect to {address}")]
    Connect {
        /// The server.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or the server does not speak HTTP/2. Worth a retry.
    #[error("connection failed")]
    Http2(#[from] h2::Error),
    /// The server ended the stream.
    #[error("server ended the stream with gRPC status {code}: {message}")]
    Status {
        /// gRPC code.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// The server sent what is no discovery response. Its defect.
    #[error("response cannot be read: {0}")]
    Response(&'static str),
    /// A resource cannot be decoded. The server's defect.
    #[error("resource {name} cannot be decoded")]
    Resource {
        /// Its name.
        name: String,
        /// Why.
        source: prost::DecodeError,
    },
    /// The node template is not readable.
    #[error("node template {path} cannot be read")]
    Template {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The node template is no node in JSON.
    #[error("node template is not valid")]
    Node(#[source] serde_json::Error),
    /// A file of certificates, a key or a token is of no use.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Certificates, keys or names are of no use.
    #[error("TLS cannot be used")]
    Tls(#[source] rustls::Error),
    /// The scenario is none.
    #[error("scenario {path} is not valid")]
    Scenario {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The server of a scenario cannot be started or used, or its mesh not be written.
    #[error("the server of the scenario")]
    Server(#[source] io::Error),
    /// A header value that HTTP does not allow.
    #[error("token or address is not valid in a request")]
    Request(#[from] http::Error),
    /// Not everything arrived in time.
    #[error("{ready} of {all} proxies have their configuration after {limit:?}{}", first_error(.last))]
    Timeout {
        /// Proxies that are configured.
        ready: usize,
        /// All of them.
        all: usize,
        /// The limit.
        limit: Duration,
        /// The newest failure of a proxy, if there was one.
        last: Option<String>,
    },
    /// A change command cannot be run or failed.
    #[error("change {label} failed: {reason}")]
    Change {
        /// Its label.
        label: String,
        /// Why.
        reason: String,
    },
    /// The report cannot be written.
    #[error("report cannot be written")]
    Write(#[from] io::Error),
}

impl Error {
    /// Whether a proxy would try again.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Error::Connect { .. } | Error::Http2(_) => true,
            // Resource exhausted, unavailable, deadline exceeded; 0 and 1 are ends without an error.
            Error::Status { code, .. } => matches!(code, 0 | 1 | 4 | 8 | 14),
            _ => false,
        }
    }
}

fn first_error(last: &Option<String>) -> String {
    last.as_ref()
        .map(|e| format!("; last failure: {e}"))
        .unwrap_or_default()
}

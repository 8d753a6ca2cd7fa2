//! Commands of the operator of this machine: they ask the running server, or work on the file when none runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use crate::access::Access;
use crate::api::{Api, Request};
use crate::audit::Audit;
use crate::http::LOCAL_SOCKET;
use crate::store::{FILE, Keep, Store, StoreError};

/// Why a command could not ask. The operator's to settle.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// There is no store in the folder.
    #[error("{} has no store ({FILE})", .0.display())]
    NoStore(PathBuf),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server does not answer.
    #[error("the server at {} does not answer: {reason}", .socket.display())]
    Server {
        /// Its socket.
        socket: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The way to the objects of a data folder.
pub enum Local {
    /// A server has the store open.
    Server(PathBuf),
    /// None has.
    File(Arc<Api>),
}

impl Local {
    /// Finds the server of a data folder, or opens its store.
    ///
    /// # Errors
    ///
    /// When there is neither.
    pub async fn open(data: &Path) -> Result<Self, LocalError> {
        let socket = data.join(LOCAL_SOCKET);
        if UnixStream::connect(&socket).await.is_ok() {
            return Ok(Self::Server(socket));
        }
        if !data.join(FILE).exists() {
            return Err(LocalError::NoStore(data.to_owned()));
        }
        let store = Store::open(data, Keep::default())?;
        let api = Api::start(store, Access::default(), Audit::default(), &[]).await?;
        Ok(Self::File(api))
    }

    /// Asks.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub async fn ask(
        &self,
        request: Request,
        query: &str,
    ) -> Result<(StatusCode, Bytes), LocalError> {
        let socket = match self {
            Self::File(api) => {
                let (parts, body) = api.handle(request).await.into_parts();
                // Bodies of the API cannot fail.
                let body = body
                    .collect()
                    .await
                    .map(|b| b.to_bytes())
                    .unwrap_or_default();
                return Ok((parts.status, body));
            }
            Self::Server(socket) => socket,
        };
        let failed = |reason: String| LocalError::Server {
            socket: socket.clone(),
            reason,
        };
        let stream = UnixStream::connect(socket)
            .await
            .map_err(|e| failed(e.to_string()))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| failed(e.to_string()))?;
        tokio::spawn(connection);
        let uri = if query.is_empty() {
            request.path.clone()
        } else {
            format!("{}?{query}", request.path)
        };
        let sent = http::Request::builder()
            .method(request.method)
            .uri(uri)
            .header("host", "localhost")
            .header("user-agent", request.user_agent)
            .header("content-type", request.content_type)
            .body(Full::new(request.body))
            .map_err(|e| failed(e.to_string()))?;
        let response = sender
            .send_request(sent)
            .await
            .map_err(|e| failed(e.to_string()))?;
        let (parts, body) = response.into_parts();
        let body = body
            .collect()
            .await
            .map_err(|e| failed(e.to_string()))?
            .to_bytes();
        Ok((parts.status, body))
    }
}

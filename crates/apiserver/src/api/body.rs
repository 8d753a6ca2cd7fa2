//! Bodies of answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body::{Frame, SizeHint};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Response;

/// What is handed on at once: a client that takes nothing does not have more kept for it by the connection.
const CHUNK: usize = 64 << 10;

/// A body that is there at once, or comes in pieces.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Whole(Option<Bytes>),
    /// Pieces, until the sender is gone.
    Pieces(mpsc::Receiver<Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) => {
                let part = match bytes {
                    Some(all) if all.len() > CHUNK => Some(all.split_to(CHUNK)),
                    rest => rest.take(),
                };
                Poll::Ready(part.map(|b| Ok(Frame::data(b))))
            }
            Body::Pieces(pieces) => pieces.poll_recv(cx).map(|p| p.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Body::Pieces(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }
}

fn typed(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// An answer of JSON that is written already.
pub(crate) fn bytes(status: StatusCode, body: impl Into<Bytes>) -> Response {
    typed(status, "application/json", Body::Whole(Some(body.into())))
}

/// An answer of JSON.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    bytes(status, body.to_string())
}

/// An answer of plain text.
pub(super) fn text(body: &'static str) -> Response {
    let body = Body::Whole(Some(Bytes::from_static(body.as_bytes())));
    typed(StatusCode::OK, "text/plain; charset=utf-8", body)
}

/// The answer to a path that leads nowhere.
pub(super) fn no_page() -> Response {
    let body = Body::Whole(Some(Bytes::from_static(b"404 page not found\n")));
    typed(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", body)
}

/// An answer that comes in pieces.
pub(super) fn pieces(pieces: mpsc::Receiver<Bytes>) -> Response {
    typed(StatusCode::OK, "application/json", Body::Pieces(pieces))
}

/// The most characters of all warnings; of each only the beginning is said where they have more.
const WARNINGS: usize = 4_096;
/// The most characters of one of many.
const WARNING: usize = 256;

/// Adds what there is to say about an object, each once.
// Kubernetes: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go, 1.36.
pub(super) fn warn(response: &mut Response, warnings: &[String]) {
    let mut said = std::collections::BTreeSet::new();
    let mut left = WARNINGS;
    let all: usize = warnings.iter().map(|w| w.chars().count()).sum();
    let longest = if all > WARNINGS { WARNING } else { WARNINGS };
    for warning in warnings.iter().filter(|w| !w.is_empty()) {
        if left == 0 {
            return;
        }
        if !said.insert(warning) {
            continue;
        }
        // The grammar of the header: code, agent, quoted text.
        let text = warning.chars().filter(|c| !c.is_control()).take(longest);
        let text: String = text.collect();
        left = left.saturating_sub(text.chars().count());
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

//! How much an API server may make this process hold: it may be anybody's.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use tower::{BoxError, Layer, Service};

/// How much all unfinished answers of a client may have, in bytes. Lists come in pages.
const LARGEST_ANSWERS: usize = 512 << 20;

/// The longest line of a watch, in bytes: each is one object, and no API takes one of more than a few megabytes.
const LONGEST_LINE: usize = 16 << 20;

/// Limits the answers of a client.
#[derive(Clone, Debug, Default)]
pub(super) struct Limit {
    /// What unfinished answers have.
    held: Arc<AtomicUsize>,
}

/// A client whose answers are limited.
#[derive(Clone, Debug)]
pub(super) struct Limited<S> {
    inner: S,
    limit: Limit,
}

impl<S> Layer<S> for Limit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        let limit = self.clone();
        Limited { inner, limit }
    }
}

impl<S, R, B> Service<Request<R>> for Limited<S>
where
    S: Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<LimitedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let allowance = match is_watch(request.uri()) {
            true => Allowance::Line { read: 0 },
            false => Allowance::Answer {
                read: 0,
                held: self.limit.held.clone(),
            },
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(answer.map(|body| LimitedBody { body, allowance }))
        })
    }
}

fn is_watch(uri: &Uri) -> bool {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    pairs.any(|pair| pair == "watch=true" || pair == "watch=1")
}

/// The body of an answer, which ends with an error where it is too long.
#[derive(Debug)]
pub(super) struct LimitedBody<B> {
    body: B,
    allowance: Allowance,
}

/// What was read of that which is limited.
#[derive(Debug)]
enum Allowance {
    /// An answer that is held until it is whole.
    Answer { read: usize, held: Arc<AtomicUsize> },
    /// A line of one.
    Line { read: usize },
}

impl Drop for Allowance {
    fn drop(&mut self) {
        if let Self::Answer { read, held } = self {
            held.fetch_sub(*read, Ordering::Relaxed);
        }
    }
}

impl Allowance {
    fn take(&mut self, data: &[u8]) -> Result<(), BoxError> {
        let (held, limit, what) = match self {
            Self::Answer { read, held } => {
                *read += data.len();
                let before = held.fetch_add(data.len(), Ordering::Relaxed);
                (before + data.len(), LARGEST_ANSWERS, "answers have")
            }
            Self::Line { read } => {
                let newline = data.iter().rposition(|b| *b == b'\n');
                *read = match newline {
                    Some(at) => data.len() - at - 1,
                    None => *read + data.len(),
                };
                (*read, LONGEST_LINE, "a line of an answer has")
            }
        };
        match held > limit {
            true => Err(format!("{what} more than {limit} bytes").into()),
            false => Ok(()),
        }
    }
}

impl<B> Body for LimitedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => frame,
        };
        let taken = match frame.data_ref() {
            Some(data) => self.allowance.take(data),
            None => Ok(()),
        };
        Poll::Ready(Some(taken.map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_limited_by_line_and_answers_together() {
        let watch = "/api/v1/pods?limit=1&watch=true".parse().unwrap();
        let list = "/api/v1/pods?limit=1".parse().unwrap();
        assert!(is_watch(&watch) && !is_watch(&list));
        let part = vec![b'x'; LONGEST_LINE / 2];
        let mut line = Allowance::Line { read: 0 };
        assert!(line.take(&part).is_ok() && line.take(&part).is_ok());
        assert!(line.take(b"\nx").is_ok() && line.take(&part).is_ok());
        assert!(line.take(&part).unwrap_err().to_string().contains("a line"));
        let limit = Limit::default();
        let answer = || Allowance::Answer {
            read: 0,
            held: limit.held.clone(),
        };
        let (mut one, mut other) = (answer(), answer());
        let parts = LARGEST_ANSWERS / part.len();
        assert!((0..parts / 2).all(|_| one.take(&part).is_ok() && other.take(&part).is_ok()));
        assert!(one.take(b"\n").unwrap_err().to_string().contains("answers"));
        drop(other);
        assert!(one.take(&part).is_ok(), "what is finished counts no more");
        drop(one);
        assert_eq!(limit.held.load(Ordering::Relaxed), 0);
    }
}

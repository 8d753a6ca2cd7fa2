//! How much an API server may make this process hold: it may be anybody's.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use tower::{BoxError, Layer, Service};

/// The largest answer, in bytes. Lists come in pages.
const LARGEST_ANSWER: usize = 256 << 20;

/// The longest line of a watch, in bytes: each is one object, and no API takes one of more than a few megabytes.
const LONGEST_LINE: usize = 16 << 20;

/// Limits the answers of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit;

/// A client whose answers are limited.
#[derive(Clone, Debug)]
pub(super) struct Limited<S>(S);

impl<S> Layer<S> for Limit {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited(inner)
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
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let allowance = match is_watch(request.uri()) {
            true => Allowance::Line { read: 0 },
            false => Allowance::Answer { read: 0 },
        };
        let answer = self.0.call(request);
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
#[derive(Clone, Copy, Debug)]
enum Allowance {
    /// The whole answer.
    Answer { read: usize },
    /// A line of it.
    Line { read: usize },
}

impl Allowance {
    fn take(&mut self, data: &[u8]) -> Result<(), BoxError> {
        let (read, limit, what) = match self {
            Self::Answer { read } => {
                *read += data.len();
                (*read, LARGEST_ANSWER, "an answer")
            }
            Self::Line { read } => {
                let newline = data.iter().rposition(|b| *b == b'\n');
                *read = match newline {
                    Some(at) => data.len() - at - 1,
                    None => *read + data.len(),
                };
                (*read, LONGEST_LINE, "a line of an answer")
            }
        };
        match read > limit {
            true => Err(format!("{what} has more than {limit} bytes").into()),
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
    fn watches_are_limited_by_line_and_answers_as_a_whole() {
        let watch = "/api/v1/pods?limit=1&watch=true".parse().unwrap();
        let list = "/api/v1/pods?limit=1".parse().unwrap();
        assert!(is_watch(&watch) && !is_watch(&list));
        let part = vec![b'x'; LONGEST_LINE / 2];
        let mut line = Allowance::Line { read: 0 };
        assert!(line.take(&part).is_ok() && line.take(&part).is_ok());
        assert!(line.take(b"\nx").is_ok() && line.take(&part).is_ok());
        assert!(line.take(&part).unwrap_err().to_string().contains("a line"));
        let mut answer = Allowance::Answer { read: 0 };
        let parts = LARGEST_ANSWER / part.len();
        assert!((0..parts).all(|_| answer.take(&part).is_ok()));
        assert!(answer.take(b"\n").is_err());
    }
}

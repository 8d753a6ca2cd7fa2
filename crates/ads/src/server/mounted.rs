//! A call of a service beside ADS: bodies as the `http-body` crate has them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http2::{Data, Input, Part};

use super::Mount;
use super::client::Client;

/// The body of a mounted service's response.
pub type Reply = UnsyncBoxBody<Bytes, Infallible>;

/// The body of a request to a mounted service. What is not read holds the client up.
#[derive(Debug)]
pub struct Requests(mpsc::Receiver<Bytes>);

impl Body for Requests {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = ready!(self.0.poll_next_unpin(cx));
        Poll::Ready(next.map(|data| Ok(Frame::data(data))))
    }
}

enum Answer {
    Awaited(BoxFuture<'static, Response<Reply>>),
    Body(Reply),
}

/// A call of a mounted service.
pub(super) struct Mounted {
    /// `None` after the end.
    requests: Option<mpsc::Sender<Bytes>>,
    answer: Answer,
}

impl Mounted {
    /// Begins after a while, if it has to wait for its place.
    pub(super) fn new(
        mount: &dyn Mount,
        request: Request<()>,
        client: &Client,
        wait: Duration,
    ) -> Self {
        let (requests, body) = mpsc::channel(0);
        let request = request.map(|()| Requests(body));
        let mut answer = mount.call(request, client.clone());
        if !wait.is_zero() {
            answer = Box::pin(async move {
                tokio::time::sleep(wait).await;
                answer.await
            });
        }
        Self {
            requests: Some(requests),
            answer: Answer::Awaited(answer),
        }
    }

    pub(super) fn poll(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Part> {
        self.pass_on(input, cx);
        if let Answer::Awaited(response) = &mut self.answer {
            let (head, body) = ready!(response.as_mut().poll(cx)).into_parts();
            let head = Response::from_parts(head, ());
            if body.is_end_stream() {
                return Poll::Ready(Part::Only(head));
            }
            self.answer = Answer::Body(body);
            return Poll::Ready(Part::Head(head));
        }
        let Answer::Body(body) = &mut self.answer else {
            return Poll::Pending;
        };
        loop {
            let Some(Ok(frame)) = ready!(Pin::new(&mut *body).poll_frame(cx)) else {
                return Poll::Ready(Part::End(HeaderMap::new()));
            };
            match frame.into_data() {
                Ok(shared) if shared.is_empty() => {}
                Ok(shared) => {
                    return Poll::Ready(Part::Data(Data {
                        shared,
                        ..Data::default()
                    }));
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(Part::End(trailers));
                }
            }
        }
    }

    /// Gives the service what came, as fast as it reads.
    fn pass_on(&mut self, input: &mut Input, cx: &mut Context<'_>) {
        while let Some(requests) = &mut self.requests {
            if input.is_over() {
                self.requests = None;
                return;
            }
            match requests.poll_ready(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {
                    let Some(data) = input.take() else {
                        return;
                    };
                    // There is room for it, unless the service has just let go of the body.
                    let _ = requests.start_send(data);
                }
                Poll::Ready(Err(_)) => {
                    // Nobody reads it.
                    _ = input.take();
                    return;
                }
            }
        }
    }
}

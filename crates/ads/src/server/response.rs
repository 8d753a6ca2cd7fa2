//! How gRPC calls end.

use std::convert::Infallible;
use std::fmt::Write;

use bytes::Bytes;
use futures::stream::{Stream, StreamExt, once};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};

use super::frames::frame;
use super::mounted::Reply;
use crate::status::Status;

/// The trailers of a call that ends with this status.
pub fn end(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(
        "grpc-status",
        HeaderValue::from(u16::from(status.code.number())),
    );
    if !status.message.is_empty()
        && let Ok(message) = HeaderValue::from_str(&percent_encoded(&status.message))
    {
        trailers.insert("grpc-message", message);
    }
    trailers
}

/// A mounted service's response of one message.
pub fn unary(message: &[u8]) -> Response<Reply> {
    let trailers = end(&Status::OK);
    let body = Full::new(frame(message));
    let body = body.with_trailers(async { Some(Ok(trailers)) });
    grpc(body.boxed_unsync())
}

/// A mounted service's response of messages as they come, which ends with a status.
pub fn streamed<S>(messages: S, last: &Status) -> Response<Reply>
where
    S: Stream<Item = Vec<u8>> + Send + 'static,
{
    let trailers = end(last);
    let data = messages.map(|message| Frame::data(frame(&message)));
    let frames = data.chain(once(async move { Frame::trailers(trailers) }));
    grpc(StreamBody::new(frames.map(Ok::<_, Infallible>)).boxed_unsync())
}

/// A mounted service's response that is nothing but a status.
pub fn trailers_only(status: &Status) -> Response<Reply> {
    let mut response = grpc(Empty::<Bytes>::new().boxed_unsync());
    response.headers_mut().extend(end(status));
    response
}

/// A gRPC response with this body.
pub(super) fn grpc<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// As the gRPC specification wants it for `grpc-message`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (0x20..=0x7e).contains(&byte) && byte != b'%' {
            out.push(byte as char);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Code;

    #[test]
    fn status_becomes_trailers() {
        let t = end(&Status::new(Code::Unavailable, "50 % à\n"));
        assert_eq!(t["grpc-status"], "14");
        assert_eq!(t["grpc-message"], "50 %25 %C3%A0%0A");
        assert!(!end(&Status::OK).contains_key("grpc-message"));
    }

    #[tokio::test]
    async fn messages_that_come_one_by_one_end_with_trailers() {
        let messages = futures::stream::iter([b"a".to_vec(), b"bc".to_vec()]);
        let last = Status::new(Code::Unavailable, "");
        let body = streamed(messages, &last).into_body().collect().await;
        let body = body.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "14");
        assert_eq!(body.to_bytes(), &b"\0\0\0\0\x01a\0\0\0\0\x02bc"[..]);
    }
}

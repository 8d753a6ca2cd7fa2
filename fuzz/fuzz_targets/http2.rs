//! Anything as what a client says over HTTP/2: octets as they are, or frames with good heads, read in pieces of any size,
//! by a client that takes in as much as it likes. No panic, and what is kept for it stays bounded.
#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Request, Response};
use http2::{Call, Connection, Data, Input, Part, Service};
use libfuzzer_sys::fuzz_target;
use wire::Wire;

#[allow(dead_code)] // Tests look at more.
#[path = "../../crates/http2/tests/support/wire.rs"]
mod wire;

/// What a client can make a connection keep: its windows, a frame, a block of headers and what is written to it, in buffers
/// that grow by doubling.
const KEPT: usize = 512 << 10;

/// Sends back what it is sent; keeps everything if the path has an `h`.
struct World;

struct Answer {
    hoards: bool,
    begun: bool,
}

impl Service for World {
    type Call = Answer;

    fn call(&mut self, request: Request<()>) -> Answer {
        Answer {
            hoards: request.uri().path().contains('h'),
            begun: false,
        }
    }
}

impl Call for Answer {
    fn poll(&mut self, input: &mut Input, _: &mut Context<'_>) -> Poll<Part> {
        if !std::mem::replace(&mut self.begun, true) {
            return Poll::Ready(Part::Head(Response::new(())));
        }
        if self.hoards {
            return Poll::Pending;
        }
        match input.take() {
            Some(shared) => {
                assert!(shared.len() <= 65_535, "more than the window was kept");
                Poll::Ready(Part::Data(Data {
                    own: [b'='].as_slice().into(),
                    shared,
                }))
            }
            None if input.is_over() => Poll::Ready(Part::End(HeaderMap::new())),
            None => Poll::Pending,
        }
    }
}

fuzz_target!(|input: (bool, u8, u16, &[u8])| {
    let (framed, piece, room, octets) = input;
    let mut says = Vec::new();
    if framed {
        says.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        let mut rest = octets;
        while let [kind, flags, stream, len, more @ ..] = rest {
            // Payloads of up to twice what a frame may have, most of them small.
            let len = if *len < 250 {
                usize::from(*len)
            } else {
                usize::from(*len - 249) * 6000
            };
            let (payload, next) = more.split_at(more.len().min(len));
            says.extend_from_slice(&(len as u32).to_be_bytes()[1..]);
            says.extend_from_slice(&[kind % 11, *flags, 0, 0, 0, *stream]);
            says.extend_from_slice(payload);
            says.resize(says.len() + len - payload.len(), 0);
            rest = next;
        }
    } else {
        says.extend_from_slice(octets);
    }
    let size = usize::from(piece) * 100 + 1;
    let pieces: Vec<Vec<u8>> = says.chunks(size).map(<[u8]>::to_vec).collect();
    let wire = Wire::new(pieces.into_iter(), usize::from(room) * 64);
    let mut connection = Connection::new(wire, World);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..says.len() + 2 {
        if Pin::new(&mut connection).poll(&mut cx).is_ready() {
            return;
        }
        assert!(
            connection.kept() < KEPT,
            "{} octets are kept",
            connection.kept()
        );
    }
});

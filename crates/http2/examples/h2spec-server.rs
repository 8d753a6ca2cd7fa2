//! A server for h2spec to try (`.ci/h2spec`): `cargo run -p pilothouse-http2 --example h2spec-server`. It prints its address
//! on loopback, and ends when its standard input does.
//!
//! It answers a call when the request has ended, with a few octets, as h2spec wants it.

use std::io::Read;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use pilothouse_http2::{Call, Connection, Data, Input, Part, Service};
use tokio::net::TcpListener;

struct World;

/// What comes next.
enum Answer {
    Head,
    Body,
    End,
}

impl Service for World {
    type Call = Answer;

    fn call(&mut self, _: Request<()>) -> Answer {
        Answer::Head
    }
}

impl Call for Answer {
    fn poll(&mut self, input: &mut Input, _: &mut Context<'_>) -> Poll<Part> {
        while input.take().is_some() {}
        if !input.is_over() {
            return Poll::Pending;
        }
        let (next, part) = match self {
            Answer::Head => (Answer::Body, Part::Head(Response::new(()))),
            Answer::Body => {
                let data = Data {
                    own: b"a few octets".as_slice().into(),
                    ..Data::default()
                };
                (Answer::End, Part::Data(data))
            }
            Answer::End => (Answer::End, Part::End(HeaderMap::new())),
        };
        *self = next;
        Poll::Ready(part)
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(Connection::new(socket, World));
    }
}

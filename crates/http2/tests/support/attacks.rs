//! Attacks on servers of HTTP/2, as a client's octets, and what each comes to. `docs/http2-attacks.md` has them by name.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response};
use pilothouse_http2::{Call, Connection, Data, Error, Input, Part, Reason, Service};

use crate::frames::{frame, head, hello};
use crate::wire::Wire;

/// What a client says again and again: its reads by number.
pub(crate) type Says = fn(u32) -> Vec<u8>;

/// An attack.
pub(crate) struct Attack {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// What is said at the beginning, after preface and settings.
    pub(crate) first: Vec<u8>,
    /// What is said then, over and over.
    pub(crate) says: Says,
    /// Frames in each of these.
    pub(crate) frames: u32,
    /// Octets that the client takes in.
    pub(crate) room: usize,
}

/// What it comes to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How the connection ended, if it did.
    pub(crate) end: Option<Reason>,
    /// Frames that were read until then.
    pub(crate) frames: u32,
    /// Octets that were read.
    pub(crate) octets: usize,
    /// The most memory that was kept for the client alone.
    pub(crate) kept: usize,
    /// Time that it took, on a thread that does nothing else.
    pub(crate) took: Duration,
}

/// Frames and octets that are said of an attack that goes on.
const FRAMES: u32 = 50_000;
const OCTETS: usize = 3 << 20;

/// Answers `/only` at once, `/large` with two megabytes that it shares, `/small` with many responses that are copied, and
/// everything else never.
struct World;

enum Answer {
    Never,
    Only,
    Pieces { begun: bool, left: u32, size: usize },
}

impl Service for World {
    type Call = Answer;

    fn call(&mut self, request: Request<()>) -> Answer {
        let pieces = |left, size| Answer::Pieces {
            begun: false,
            left,
            size,
        };
        match request.uri().path() {
            "/only" => Answer::Only,
            "/large" => pieces(1, 2 << 20),
            "/small" => pieces(1000, 1900),
            _ => Answer::Never,
        }
    }
}

impl Call for Answer {
    fn poll(&mut self, _: &mut Input, _: &mut Context<'_>) -> Poll<Part> {
        static SHARED: &[u8] = &[0; 2 << 20];
        match self {
            Answer::Never => Poll::Pending,
            Answer::Only => Poll::Ready(Part::Only(Response::new(()))),
            Answer::Pieces { begun, left, size } => Poll::Ready(match (*begun, *left) {
                (false, _) => {
                    *begun = true;
                    Part::Head(Response::new(()))
                }
                (true, 0) => Part::End(HeaderMap::new()),
                (true, _) => {
                    *left -= 1;
                    Part::Data(Data {
                        shared: bytes::Bytes::from_static(SHARED.split_at(*size).0),
                        ..Data::default()
                    })
                }
            }),
        }
    }
}

impl Attack {
    /// Has a connection undergo it.
    pub(crate) fn run(self) -> Outcome {
        let Self {
            first,
            says,
            frames,
            room,
            ..
        } = self;
        // What does not count: the beginning.
        let before_says = 1 + u32::from(!first.is_empty());
        let mut left = OCTETS;
        let rounds = (0..FRAMES / frames).map(says).map_while(move |octets| {
            left = left.checked_sub(octets.len())?;
            Some(octets)
        });
        let wire = Wire::new([hello(), first].into_iter().chain(rounds), room);
        let seen = wire.seen();
        let read = || seen.lock().expect("nobody panics with it").read;
        let mut connection = Connection::new(wire, World);
        let mut cx = Context::from_waker(Waker::noop());
        let (mut end, mut kept, mut before, mut reads) = (None, 0, usize::MAX, 0);
        let began = Instant::now();
        // Until nothing more is read, which is a few turns after what was said last.
        let mut quiet = 0;
        while quiet < 3 {
            reads = connection.reads();
            if let Poll::Ready(result) = Pin::new(&mut connection).poll(&mut cx) {
                end = match result {
                    Err(Error::Protocol { reason, .. }) => Some(reason),
                    _ => Some(Reason::NoError),
                };
                reads = connection.reads();
                break;
            }
            kept = kept.max(connection.kept());
            quiet = if read() == before { quiet + 1 } else { 0 };
            before = read();
        }
        Outcome {
            end,
            frames: reads.saturating_sub(before_says) * frames,
            octets: read(),
            kept,
            took: began.elapsed(),
        }
    }
}

fn id(n: u32) -> u32 {
    2 * n + 1
}

fn open(n: u32, path: &str) -> Vec<u8> {
    frame(1, 0x5, id(n), &head(path))
}

fn reset(n: u32) -> Vec<u8> {
    frame(3, 0, id(n), &[0, 0, 0, 8])
}

fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(8, 0, stream, &more.to_be_bytes())
}

/// A call with these fields besides.
fn with(n: u32, flags: u8, fields: &[u8]) -> Vec<u8> {
    frame(1, flags, id(n), &[&head("/only"), fields].concat())
}

/// A hundred calls.
fn hundred(path: &str, flags: u8) -> Vec<u8> {
    let calls = (0..100).map(|n| frame(1, flags, id(n), &head(path)));
    calls.collect::<Vec<_>>().concat()
}

fn set(name: u8, value: u32) -> Vec<u8> {
    let [a, b, c, d] = value.to_be_bytes();
    frame(4, 0, 0, &[0, name, a, b, c, d])
}

/// All of them.
#[rustfmt::skip] // A table.
pub(crate) fn attacks() -> Vec<Attack> {
    let attack = |name, first: Vec<u8>, frames, room, says: Says| Attack { name, first, says, frames, room };
    let all = usize::MAX;
    vec![
        attack("rapid reset", vec![], 2, all, |n| [open(n, "/never"), reset(n)].concat()),
        attack("rapid reset between calls that end", vec![], 3, all, |n| {
            [open(2 * n, "/only"), open(2 * n + 1, "/never"), reset(2 * n + 1)].concat()
        }),
        attack("resets that we are made to send (window)", vec![], 2, all, |n| [open(n, "/never"), window(id(n), 0)].concat()),
        attack("resets that we are made to send (priority)", vec![], 2, all, |n| {
            [open(n, "/never"), frame(2, 0, id(n), &[&id(n).to_be_bytes()[..], &[0]].concat())].concat()
        }),
        attack("resets that we are made to send (data)", vec![], 2, all, |n| [open(n, "/never"), frame(0, 0, id(n), b"a")].concat()),
        attack("more streams than there may be", hundred("/never", 0x5), 1, all, |n| open(100 + n, "/never")),
        attack("calls without end", vec![], 1, all, |n| open(n, "/only")),
        attack("CONTINUATION, empty", frame(1, 0, 1, &head("/a")), 1, all, |_| frame(9, 0, 1, &[])),
        attack("CONTINUATION, full", frame(1, 0, 1, &head("/a")), 1, all, |_| frame(9, 0, 1, &[0; 16_384])),
        attack("HPACK bomb", vec![], 1, all, |n| {
            // A field of four kilobytes, and its name again and again.
            let bomb = [&[0x40, 1, b'a', 0x7f, 0x81, 0x1e][..], &[b'v'; 4000], &[0xbe; 500]];
            with(n, 0x5, &bomb.concat())
        }),
        attack("HPACK table churn", vec![], 1, all, |n| {
            let entries = (0..250u32).flat_map(|e| [0x40, 1, b'a' + (e % 26) as u8, 1, b'b']);
            with(n, 0x5, &entries.collect::<Vec<_>>())
        }),
        attack("cookie crumbs", vec![], 1, all, |n| {
            // The name is in the static table.
            with(n, 0x5, &[0x60, 1, b'c'].repeat(250))
        }),
        attack("fields without a name", vec![], 1, all, |n| with(n, 0x5, &[0, 0, 0])),
        attack("trailers", vec![], 2, all, |n| {
            [frame(1, 0x4, id(n), &head("/only")), frame(1, 0x5, id(n), &[0, 1, b'a', 1, b'b'].repeat(250))].concat()
        }),
        attack("thousands of fields", vec![], 1, all, |n| with(n, 0x5, &[0x60, 1, b'c'].repeat(1500))),
        attack("empty data", frame(1, 0x4, 1, &head("/never")), 1, all, |_| frame(0, 0, 1, &[])),
        attack("data of one octet", frame(1, 0x4, 1, &head("/never")), 1, all, |_| frame(0, 0, 1, &[0])),
        attack("pings", vec![], 1, all, |_| frame(6, 0, 0, &[0; 8])),
        attack("pings between data", frame(1, 0x4, 1, &head("/never")), 2, all, |_| [frame(6, 0, 0, &[0; 8]), frame(0, 0, 1, &[0])].concat()),
        attack("pings, answers not read", vec![], 100, 100, |_| frame(6, 0, 0, &[0; 8]).repeat(100)),
        attack("settings", vec![], 1, all, |_| frame(4, 0, 0, &[])),
        attack("settings, answers not read", vec![], 100, 100, |_| frame(4, 0, 0, &[]).repeat(100)),
        attack("windows of 100 streams, up and down", hundred("/never", 0x5), 2, all, |_| [set(4, 1 << 20), set(4, 0)].concat()),
        attack("thousands of settings in a frame", hundred("/never", 0x5), 1, all, |_| frame(4, 0, 0, &[0, 4, 0, 0, 0, 1].repeat(2730))),
        attack("priorities", vec![], 1, all, |n| frame(2, 0, id(n), &[0, 0, 0, 0, 1])),
        attack("window updates", vec![], 1, all, |_| window(0, 1)),
        attack("a window that overflows", vec![], 1, all, |_| window(0, 0x7fff_ffff)),
        attack("frames of no kind", vec![], 1, all, |_| frame(0xbb, 0, 0, &[])),
        attack("the end, again and again", open(0, "/never"), 1, all, |_| frame(7, 0, 0, &[0; 8])),
        attack("pushes", vec![], 1, all, |n| frame(5, 0x4, id(n), &[0; 4])),
        attack("the last stream there is", frame(1, 0x5, 0x7fff_ffff, &head("/only")), 1, all, |n| open(n, "/only")),
        attack("no room in 100 windows", [set(4, 0), hundred("/large", 0x5)].concat(), 1, all, |_| vec![]),
        attack("room octet by octet", [set(4, 0), open(0, "/large")].concat(), 1, all, |_| window(1, 1)),
        attack("100 large responses, not read", [set(4, 0x7fff_ffff), window(0, 0x7fff_0000), hundred("/large", 0x5)].concat(), 1, 100, |_| vec![]),
        attack("100 calls with small responses, not read", [set(4, 0x7fff_ffff), window(0, 0x7fff_0000), hundred("/small", 0x5)].concat(), 1, 100, |_| vec![]),
        attack("data that no call takes", hundred("/never", 0x4), 1, all, |n| {
            // All that the connection's window has.
            if n < 8 { frame(0, 0, id(n / 4), &[0; 16_000]) } else { vec![] }
        }),
        attack("half a frame", frame(1, 0x4, 1, &head("/never")), 1, all, |n| match n {
            0 => [&[0, 0x40, 0, 0, 0, 0, 0, 0, 1][..], &[0; 16_000]].concat(),
            _ => vec![0; usize::from(n < 380)],
        }),
    ]
}

//! What clients may say and not: octets against what they are told.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Request, Response};
use pilothouse_http2::{Call, Connection, Data, Error, Input, Part, Reason, Service};
use proptest::prelude::*;

use frames::{frame, head, hello};
use wire::Wire;

#[path = "support/frames.rs"]
mod frames;
#[path = "support/wire.rs"]
mod wire;

/// Answers with the head at once, and with the length of the body at its end; what is not asked for stays in the input
/// of a call to `/hoard`.
struct World;

struct Counts {
    hoards: bool,
    begun: bool,
    count: usize,
}

impl Service for World {
    type Call = Counts;

    fn call(&mut self, request: Request<()>) -> Counts {
        Counts {
            hoards: request.uri().path() == "/hoard",
            begun: false,
            count: 0,
        }
    }
}

impl Call for Counts {
    fn poll(&mut self, input: &mut Input, _: &mut Context<'_>) -> Poll<Part> {
        if !std::mem::replace(&mut self.begun, true) {
            return Poll::Ready(Part::Head(Response::new(())));
        }
        if self.hoards {
            return Poll::Pending;
        }
        self.count += input.take().map_or(0, |octets| octets.len());
        if !input.is_over() {
            return Poll::Pending;
        }
        if self.count == 0 {
            return Poll::Ready(Part::End(HeaderMap::new()));
        }
        let shared = format!("{:06}", std::mem::take(&mut self.count)).into();
        Poll::Ready(Part::Data(Data {
            shared,
            ..Data::default()
        }))
    }
}

/// What a client is told, frame by frame, without what every one is told first, and how the connection ended if it did.
type Told = (Vec<(u8, u8, u32, Vec<u8>)>, Option<Option<Reason>>);

fn tell(says: Vec<Vec<u8>>, room: usize) -> Told {
    let wire = Wire::new(says.into_iter(), room);
    let seen = wire.seen();
    let mut connection = Connection::new(wire, World);
    let mut cx = Context::from_waker(Waker::noop());
    let mut end = None;
    // A turn is a few rounds.
    for _ in 0..8000 {
        if let Poll::Ready(result) = Pin::new(&mut connection).poll(&mut cx) {
            end = Some(match result {
                Ok(()) => None,
                Err(Error::Protocol { reason, .. }) => Some(reason),
                Err(Error::Io(error)) => panic!("{error}"),
            });
            break;
        }
    }
    let seen = seen.lock().unwrap();
    (read(&seen.told), end)
}

/// The frames of what was told.
fn read(mut told: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = told.split_at_checked(9) {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        let Some((payload, rest)) = rest.split_at_checked(len) else {
            break;
        };
        frames.push((head[3], head[4], stream, payload.to_vec()));
        told = rest;
    }
    // Settings and a window.
    frames.drain(..frames.len().min(2));
    frames
}

/// Says these frames after the beginning.
fn say(more: Vec<Vec<u8>>) -> Told {
    let mut says = vec![hello()];
    says.extend(more);
    tell(says, usize::MAX)
}

/// The reason for which a stream or, as stream 0, the connection ended.
fn reason(told: &Told) -> Option<(u32, u32)> {
    let mut reasons = told.0.iter().filter_map(|(kind, _, stream, payload)| {
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            3 => Some((*stream, number(0))),
            7 => Some((0, number(4))),
            _ => None,
        }
    });
    reasons.next_back()
}

#[test]
fn a_call_is_answered() {
    let (frames, end) = say(vec![
        frame(1, 0x4, 1, &head("/a")),
        frame(0, 0x1, 1, b"12345"),
    ]);
    let kinds: Vec<(u8, u8, u32)> = frames.iter().map(|f| (f.0, f.1, f.2)).collect();
    assert_eq!(
        kinds,
        [(4, 1, 0), (1, 4, 1), (0, 0, 1), (0, 1, 1)],
        "settings taken, head, data, end"
    );
    assert_eq!(frames[1].3, [0x88]);
    assert_eq!(frames[2].3, b"000005");
    assert_eq!(end, None);
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let open = || frame(1, 0x4, 1, &head("/a"));
    let cases: Vec<(&str, u32, Vec<Vec<u8>>)> = vec![
        ("data on no stream", 1, vec![frame(0, 0, 0, b"a")]),
        ("data before headers", 1, vec![frame(0, 0, 1, b"a")]),
        (
            "too much padding",
            1,
            vec![open(), frame(0, 0x8, 1, &[5, 1, 2])],
        ),
        (
            "headers on no stream",
            1,
            vec![frame(1, 0x4, 0, &head("/a"))],
        ),
        (
            "headers on an even stream",
            1,
            vec![frame(1, 0x4, 2, &head("/a"))],
        ),
        (
            "headers on an older stream",
            5,
            vec![frame(1, 0x5, 5, &head("/a")), frame(1, 0x4, 3, &head("/a"))],
        ),
        (
            "headers on an ended stream",
            5,
            vec![frame(1, 0x5, 1, &head("/a")), open()],
        ),
        (
            "a block within a block",
            1,
            vec![frame(1, 0, 1, &head("/a")), frame(1, 0x4, 3, &head("/a"))],
        ),
        (
            "data within a block",
            1,
            vec![frame(1, 0, 1, &head("/a")), frame(0, 0, 1, b"a")],
        ),
        (
            "a block of another stream goes on",
            1,
            vec![frame(1, 0, 1, &head("/a")), frame(9, 0x4, 3, &[])],
        ),
        (
            "a block goes on without a beginning",
            1,
            vec![frame(9, 0x4, 1, &[])],
        ),
        ("a bad block", 9, vec![frame(1, 0x4, 1, &[0xff, 0xff])]),
        ("a block of too many frames", 11, {
            let mut all = vec![frame(1, 0, 1, &head("/a"))];
            all.extend((0..20).map(|_| frame(9, 0, 1, &[])));
            all
        }),
        ("a block that is too large", 11, {
            let mut all = vec![frame(1, 0, 1, &head("/a"))];
            all.extend((0..6).map(|_| frame(9, 0, 1, &[0; 16_384])));
            all
        }),
        (
            "a large frame",
            6,
            vec![open(), frame(0, 0, 1, &[0; 16_385])],
        ),
        ("a short priority", 6, vec![frame(1, 0x24, 1, &[0; 4])]),
        ("a priority of no stream", 1, vec![frame(2, 0, 0, &[0; 5])]),
        ("a reset before headers", 1, vec![frame(3, 0, 1, &[0; 4])]),
        ("a short reset", 6, vec![open(), frame(3, 0, 1, &[0; 3])]),
        ("settings of a stream", 1, vec![frame(4, 0, 1, &[])]),
        ("half a setting", 6, vec![frame(4, 0, 0, &[0; 5])]),
        (
            "settings in a confirmation",
            6,
            vec![frame(4, 1, 0, &[0; 6])],
        ),
        (
            "push is neither on nor off",
            1,
            vec![frame(4, 0, 0, &[0, 2, 0, 0, 0, 2])],
        ),
        (
            "a window that is too large",
            3,
            vec![frame(4, 0, 0, &[0, 4, 0x80, 0, 0, 0])],
        ),
        (
            "frames that are too small",
            1,
            vec![frame(4, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff])],
        ),
        ("a push", 1, vec![frame(5, 0x4, 1, &[0; 4])]),
        ("a ping of a stream", 1, vec![frame(6, 0, 1, &[0; 8])]),
        ("a short ping", 6, vec![frame(6, 0, 0, &[0; 7])]),
        ("an end on a stream", 1, vec![frame(7, 0, 1, &[0; 8])]),
        ("a short end", 6, vec![frame(7, 0, 0, &[0; 7])]),
        ("a short window update", 6, vec![frame(8, 0, 0, &[0; 3])]),
        (
            "a window update by nothing",
            1,
            vec![frame(8, 0, 0, &[0; 4])],
        ),
        (
            "a window update before headers",
            1,
            vec![frame(8, 0, 1, &[0, 0, 0, 1])],
        ),
        (
            "a window that becomes too large",
            3,
            vec![frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])],
        ),
        (
            "a window that settings make too large",
            3,
            vec![
                open(),
                frame(8, 0, 1, &[0x7f, 0xff, 0, 0]),
                frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
            ],
        ),
        ("more than the connection's window", 3, {
            let streams = (0..17).map(|n| 2 * n + 1);
            streams
                .flat_map(|id| {
                    let data = (0..4).map(move |n| {
                        frame(0, 0, id, &vec![0; if n == 3 { 16_383 } else { 16_384 }])
                    });
                    std::iter::once(frame(1, 0x4, id, &head("/hoard"))).chain(data)
                })
                .collect()
        }),
        (
            "pings without end",
            11,
            (0..20_000).map(|_| frame(6, 1, 0, &[0; 8])).collect(),
        ),
        ("empty data without end", 11, {
            let mut all = vec![open()];
            all.extend((0..20_000).map(|_| frame(0, 0, 1, &[])));
            all
        }),
        ("calls that are given up without end", 11, {
            (0..500)
                .flat_map(|n| {
                    let id = 2 * n + 1;
                    [
                        frame(1, 0x4, id, &head("/hoard")),
                        frame(3, 0, id, &[0, 0, 0, 8]),
                    ]
                })
                .collect()
        }),
    ];
    for (what, code, says) in cases {
        let told = say(says);
        assert_eq!(reason(&told), Some((0, code)), "{what}: {told:?}");
        assert!(told.1.is_some(), "{what}: the connection goes on");
    }
    let told = tell(vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()], usize::MAX);
    assert_eq!(told.1, Some(Some(Reason::Protocol)));
    let mut says = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    says.extend(frame(6, 0, 0, &[0; 8]));
    let told = tell(vec![says], usize::MAX);
    assert_eq!(told.1, Some(Some(Reason::Protocol)), "settings come first");
}

#[test]
fn what_breaks_a_call_ends_the_call_alone() {
    let open = |path: &str| frame(1, 0x4, 1, &head(path));
    let with = |field: &[u8]| {
        let mut block = head("/a");
        block.extend(field);
        block
    };
    let length = |n: u8| with(&[0x0f, 13, 1, n]);
    let cases: Vec<(&str, u32, Vec<Vec<u8>>)> = vec![
        ("no path", 1, vec![frame(1, 0x4, 1, &[0x83, 0x86])]),
        (
            "a field in capitals",
            1,
            vec![frame(1, 0x4, 1, &with(&[0, 1, b'A', 1, b'b']))],
        ),
        ("a stream that depends on itself", 1, {
            let mut block = vec![0, 0, 0, 1, 0];
            block.extend(head("/a"));
            vec![frame(1, 0x24, 1, &block)]
        }),
        (
            "a priority of itself",
            1,
            vec![open("/a"), frame(2, 0, 1, &[0, 0, 0, 1, 0])],
        ),
        (
            "a short priority",
            6,
            vec![open("/a"), frame(2, 0, 1, &[0; 4])],
        ),
        (
            "a window update by nothing",
            1,
            vec![open("/a"), frame(8, 0, 1, &[0; 4])],
        ),
        (
            "a window that becomes too large",
            3,
            vec![open("/a"), frame(8, 0, 1, &[0x7f, 0xff, 0xff, 0xff])],
        ),
        (
            "data after the end",
            5,
            vec![frame(1, 0x5, 1, &head("/hoard")), frame(0, 0, 1, b"a")],
        ),
        (
            "headers after the end",
            5,
            vec![frame(1, 0x5, 1, &head("/hoard")), frame(1, 0x5, 1, &[])],
        ),
        (
            "trailers that are not the end",
            1,
            vec![open("/a"), frame(1, 0x4, 1, &[])],
        ),
        (
            "trailers with a path",
            1,
            vec![open("/a"), frame(1, 0x5, 1, &[0x84])],
        ),
        (
            "less than was said",
            1,
            vec![frame(1, 0x4, 1, &length(b'3')), frame(0, 0x1, 1, b"ab")],
        ),
        (
            "more than was said",
            1,
            vec![frame(1, 0x4, 1, &length(b'3')), frame(0, 0, 1, b"abcd")],
        ),
        (
            "nothing of what was said",
            1,
            vec![frame(1, 0x5, 1, &length(b'3'))],
        ),
        ("more than the window", 3, {
            let mut all = vec![open("/hoard")];
            all.extend((0..4).map(|_| frame(0, 0, 1, &[0; 16_384])));
            all
        }),
        (
            "data on an ended stream",
            5,
            vec![frame(1, 0x5, 1, &head("/a")), frame(0, 0, 1, b"a")],
        ),
    ];
    for (what, code, mut says) in cases {
        says.push(frame(6, 0, 0, b"go on :)"));
        let told = say(says);
        assert_eq!(reason(&told), Some((1, code)), "{what}: {told:?}");
        assert_eq!(told.1, None, "{what}: the connection ended");
        assert!(told.0.contains(&(6, 1, 0, b"go on :)".to_vec())), "{what}");
    }
}

#[test]
fn a_head_that_is_too_large_is_answered() {
    let mut block = head("/a");
    // One octet names a field of four kilobytes, which was said once.
    block.extend([0x40, 1, b'a', 0x7f, 0x81, 0x1e]);
    block.extend([b'v'; 4000]);
    block.extend([0xbe; 1000]);
    let told = say(vec![frame(1, 0x5, 1, &block)]);
    assert_eq!(
        told.0[1].3,
        [b"\0\x07:status\x03".as_slice(), b"431"].concat()
    );
    assert_eq!(reason(&told), Some((1, 0)));
    assert_eq!(told.1, None);
}

#[test]
fn what_is_under_way_on_a_stream_that_was_reset_is_let_pass() {
    // It ends before the request does, so the rest of the request is in vain.
    let told = say(vec![
        frame(1, 0x4, 1, &[0x83, 0x86]),
        frame(0, 0, 1, &[0; 1000]),
        frame(1, 0x5, 1, &[]),
        frame(8, 0, 1, &[0, 0, 0, 9]),
        frame(3, 0, 1, &[0; 4]),
    ]);
    assert_eq!(reason(&told), Some((1, 1)));
    assert_eq!(told.0.len(), 2, "{told:?}");
}

#[test]
fn a_client_that_makes_us_speak_and_does_not_listen_is_not_read() {
    let mut says = vec![hello()];
    says.extend((0..9000).map(|_| frame(6, 0, 0, &[0; 8])));
    let (frames, end) = tell(says, 100);
    assert_eq!(end, None);
    assert!(frames.len() < 10);
}

/// What a client says that does all that it may.
fn conversation() -> Vec<u8> {
    let mut says = hello();
    let mut split = head("/a");
    let rest = split.split_off(3);
    for frame in [
        frame(4, 0, 0, &[0, 4, 0, 1, 0, 0, 0, 5, 0, 0, 0x40, 0]),
        frame(1, 0, 1, &split),
        frame(9, 0x4, 1, &rest),
        frame(0, 0x8, 1, &[3, b'a', b'b', 0, 0, 0]),
        frame(2, 0, 7, &[0, 0, 0, 1, 9]),
        frame(8, 0, 0, &[0, 0, 1, 0]),
        frame(
            1,
            0x24,
            3,
            &[[0, 0, 0, 1, 9].as_slice(), &head("/b")].concat(),
        ),
        frame(0xbe, 0xff, 9, b"not known"),
        frame(0, 0, 3, &[0; 16_384]),
        frame(8, 0, 3, &[0, 0, 1, 0]),
        frame(1, 0x5, 1, &[0, 1, b'a', 1, b'b']),
        frame(6, 0, 0, b"and you?"),
        frame(0, 0x1, 3, &[0; 9000]),
        frame(7, 0, 0, &[0; 8]),
    ] {
        says.extend(frame);
    }
    says
}

/// By stream, for the order between streams depends on when things arrive.
fn by_stream(mut told: Told) -> Told {
    told.0.sort_by_key(|f| f.2);
    told
}

proptest! {
    #[test]
    fn the_cutting_of_what_is_said_changes_nothing(cuts in prop::collection::vec(1usize..3000, 1..30)) {
        let mut rest = &*conversation();
        let whole = by_stream(tell(vec![rest.to_vec()], usize::MAX));
        prop_assert_eq!(whole.1, Some(None));
        let mut says = Vec::new();
        for cut in cuts.into_iter().cycle() {
            let (piece, left) = rest.split_at(cut.min(rest.len()));
            says.push(piece.to_vec());
            rest = left;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(by_stream(tell(says, usize::MAX)), whole);
    }

    #[test]
    fn no_octets_make_it_panic(
        begins in any::<bool>(),
        kinds in prop::collection::vec((0u8..11, any::<u8>(), 0u32..6, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        junk in prop::collection::vec(any::<u8>(), 0..40),
        room in prop_oneof![Just(usize::MAX), 0usize..200],
    ) {
        let mut says = if begins { vec![hello()] } else { vec![] };
        says.extend(kinds.iter().map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload)));
        says.push(junk);
        tell(says, room);
    }

    #[test]
    fn no_change_of_what_is_said_makes_it_panic(at in 0usize..26_000, octet in any::<u8>()) {
        let mut says = conversation();
        let at = at % says.len();
        says[at] = octet;
        tell(says.chunks(60_000).map(<[_]>::to_vec).collect(), usize::MAX);
    }
}

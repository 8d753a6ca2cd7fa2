//! What a client and a server of ZooKeeper say to each other.
// ZooKeeper: zookeeper-jute/src/main/resources/zookeeper.jute and ZooDefs.java, 3.9.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use super::jute::{Malformed, Reader, Writer};

/// The largest record that is read.
const LARGEST: usize = 16 << 20;
/// More nodes below one than this are not read.
const MOST_CHILDREN: usize = 100_000;

/// Numbers of messages that answer no request.
const EVENT: i32 = -1;
const PING: i32 = -2;
const AUTH: i32 = -4;

/// Kinds of requests.
const CLOSE: i32 = -11;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const GET_CHILDREN: i32 = 8;
const PING_KIND: i32 = 11;
const AUTH_KIND: i32 = 100;

/// The node is not there.
const NO_NODE: i32 = -101;

/// What is asked of a node; its server tells once when that changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// The names of nodes below it.
    Children,
    /// What it holds.
    Data,
    /// Whether it is there.
    Exists,
}

/// What happened to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// It is there now.
    Created,
    /// It is gone.
    Deleted,
    /// It holds something else.
    Data,
    /// There are others below it.
    Children,
}

/// What a server says of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// The names of nodes below it.
    Children(Vec<Arc<str>>),
    /// What it holds.
    Data(Bytes),
    /// It is there.
    There,
    /// It is not there.
    Missing,
    /// It is not told, by the number of an error.
    Refused(i32),
}

/// A message of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// Something that was asked for changed.
    Changed(Change, Arc<str>),
    /// The answer to a request, by its number: an error, or a record.
    Answer(i32, i32, Bytes),
    /// The answer to credentials: an error, or 0.
    Authenticated(i32),
    /// Nothing of interest.
    Alive,
}

/// What a server grants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Greeting {
    /// How long it waits for a sign of life. 0 where it does not know the session.
    pub(super) timeout_ms: i32,
}

/// Asks for a session.
pub(super) fn connect(timeout_ms: i32) -> Vec<u8> {
    let version = Writer::new().int(0);
    let new = version.long(0).int(timeout_ms).long(0).buffer(&[0; 16]);
    new.bool(true).frame()
}

/// Proves who asks.
pub(super) fn authenticate(user: &str, password: &str) -> Vec<u8> {
    let head = Writer::new().int(AUTH).int(AUTH_KIND).int(0);
    let digest = head.buffer(b"digest");
    digest
        .buffer(format!("{user}:{password}").as_bytes())
        .frame()
}

/// A sign of life.
pub(super) fn ping() -> Vec<u8> {
    Writer::new().int(PING).int(PING_KIND).frame()
}

/// Ends the session.
pub(super) fn close(number: i32) -> Vec<u8> {
    Writer::new().int(number).int(CLOSE).frame()
}

/// Asks for a node, and to be told when that changes.
pub(super) fn ask(number: i32, what: What, path: &str) -> Vec<u8> {
    let kind = match what {
        What::Children => GET_CHILDREN,
        What::Data => GET_DATA,
        What::Exists => EXISTS,
    };
    let head = Writer::new().int(number).int(kind);
    head.buffer(path.as_bytes()).bool(true).frame()
}

/// Reads what a server grants.
pub(super) fn greeting(record: &[u8]) -> Result<Greeting, Malformed> {
    let mut reader = Reader(record);
    let _version = reader.int()?;
    let timeout_ms = reader.int()?;
    let _session = reader.long()?;
    let _password = reader.buffer()?;
    Ok(Greeting { timeout_ms })
}

/// Reads a message.
pub(super) fn message(record: Bytes) -> Result<Message, Malformed> {
    let mut reader = Reader(&record);
    let number = reader.int()?;
    let _transaction = reader.long()?;
    let error = reader.int()?;
    match number {
        EVENT => {
            let kind = reader.int()?;
            let _state = reader.int()?;
            let path = reader.text()?.into();
            Ok(match kind {
                1 => Message::Changed(Change::Created, path),
                2 => Message::Changed(Change::Deleted, path),
                3 => Message::Changed(Change::Data, path),
                4 => Message::Changed(Change::Children, path),
                _ => Message::Alive,
            })
        }
        AUTH => Ok(Message::Authenticated(error)),
        PING => Ok(Message::Alive),
        _ => {
            let head = record.len() - reader.0.len();
            Ok(Message::Answer(number, error, record.slice(head..)))
        }
    }
}

/// Reads the answer to what was asked.
pub(super) fn found(what: What, error: i32, record: &Bytes) -> Result<Found, Malformed> {
    let mut reader = Reader(record);
    Ok(match (error, what) {
        (NO_NODE, _) => Found::Missing,
        (0, What::Children) => Found::Children(reader.texts(MOST_CHILDREN)?),
        (0, What::Data) => Found::Data(record.slice_ref(reader.buffer()?)),
        (0, What::Exists) => Found::There,
        (error, _) => Found::Refused(error),
    })
}

/// Octets of a connection, as they come.
#[derive(Default)]
pub(super) struct Records {
    /// What came and was not read yet.
    pub(super) waiting: BytesMut,
}

impl Records {
    /// The next record, where it is there.
    pub(super) fn pop(&mut self) -> Result<Option<Bytes>, Malformed> {
        let Some((length, rest)) = self.waiting.split_at_checked(4) else {
            return Ok(None);
        };
        let length = Reader(length).int()?;
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        if length > LARGEST {
            return Err(Malformed);
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.waiting.advance(4);
        let record = self.waiting.split_to(length).freeze();
        if self.waiting.is_empty() {
            // A large one is not kept for small ones to come.
            self.waiting = BytesMut::new();
        }
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_pieces() {
        let octets = [ping(), ask(7, What::Data, "/a")].concat();
        for size in 1..octets.len() {
            let (mut records, mut lengths) = (Records::default(), Vec::new());
            for piece in octets.chunks(size) {
                records.waiting.extend_from_slice(piece);
                lengths.extend(std::iter::from_fn(|| records.pop().unwrap()).map(|r| r.len()));
            }
            assert_eq!(lengths, [8, 15], "pieces of {size}");
        }
        for length in [-1, i32::MAX, LARGEST as i32 + 1] {
            let mut records = Records::default();
            records.waiting.extend_from_slice(&length.to_be_bytes());
            assert_eq!(records.pop(), Err(Malformed), "{length}");
        }
    }

    #[test]
    fn messages_are_told_apart_by_their_number() {
        let head = |number, error| Writer::new().int(number).long(9).int(error);
        let read = |w: Writer| message(Bytes::from(w.frame()).slice(4..));
        let event = head(-1, 0).int(4).int(3).buffer(b"/a");
        assert_eq!(
            read(event),
            Ok(Message::Changed(Change::Children, "/a".into()))
        );
        let session = head(-1, 0).int(-1).int(-112).buffer(b"");
        assert_eq!(read(session), Ok(Message::Alive));
        assert_eq!(read(head(-2, 0)), Ok(Message::Alive));
        assert_eq!(read(head(-4, -115)), Ok(Message::Authenticated(-115)));
        let answer = read(head(7, 0).int(1).buffer(b"x")).unwrap();
        let Message::Answer(7, 0, body) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(
            found(What::Children, 0, &body),
            Ok(Found::Children(vec!["x".into()]))
        );
        assert_eq!(found(What::Data, -101, &body), Ok(Found::Missing));
        assert_eq!(found(What::Exists, -102, &body), Ok(Found::Refused(-102)));
        assert_eq!(
            found(What::Data, 0, &Bytes::from_static(&[0, 0, 0, 9, 1])),
            Err(Malformed)
        );
        assert_eq!(
            found(What::Data, 0, &Bytes::from_static(&[255; 4])),
            Ok(Found::Data(Bytes::new()))
        );
        assert_eq!(message(Bytes::from_static(&[0; 15])), Err(Malformed));
    }
}

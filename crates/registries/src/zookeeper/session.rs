//! One connection to a server of ZooKeeper, from the first octet to the last.
//!
//! A connection that was lost is not resumed: nothing of ours is bound to a session, and a new one that reads everything
//! again cannot miss what happened in between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Options;
use super::tree::{Ask, Tree};
use super::wire::{self, Message, Records};
use crate::outbox::Outbox;
use crate::report::Reports;

/// How long a connection may take to be there.
const CONNECTING: Duration = Duration::from_secs(3);
/// How long a server is given to take a farewell.
const FAREWELL: Duration = Duration::from_millis(200);
/// How many questions are under way at once.
const AT_ONCE: usize = 256;
/// The number of the last message.
const LAST: i32 = i32::MAX;

/// A session.
pub(super) struct Session {
    socket: TcpStream,
    records: Records,
    sending: BytesMut,
    /// What the server waits for between signs of life.
    timeout: Duration,
    number: i32,
    /// Questions that wait, and those under way with their numbers, in the order of their answers.
    waiting: VecDeque<Ask>,
    asked: VecDeque<(i32, Ask)>,
    /// What there is, as this session was told.
    pub(super) tree: Tree,
    heard_at: Instant,
    sent_at: Instant,
}

impl Session {
    /// Connects to `host:port`, and proves who asks.
    pub(super) async fn open(authority: &str, options: &Options) -> Result<Self, String> {
        timeout(CONNECTING, Self::connect(authority, options))
            .await
            .map_err(|_| format!("{authority} does not answer"))?
    }

    async fn connect(authority: &str, options: &Options) -> Result<Self, String> {
        let unreachable = |e| format!("cannot connect to {authority}: {e}");
        let mut socket = TcpStream::connect(authority).await.map_err(unreachable)?;
        let _ = socket.set_nodelay(true);
        let wanted = i32::try_from(options.session.as_millis()).unwrap_or(i32::MAX);
        let broken = |e: std::io::Error| format!("no answer from {authority}: {e}");
        let hello = wire::connect(wanted);
        socket.write_all(&hello).await.map_err(broken)?;
        let mut records = Records::default();
        let greeting = loop {
            match records.pop() {
                Ok(Some(record)) => break wire::greeting(&record),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            if socket.read_buf(&mut records.waiting).await.map_err(broken)? == 0 {
                return Err(format!("{authority} closed the connection at once"));
            }
        };
        let granted = greeting.map_err(|_| format!("{authority} is no ZooKeeper"))?;
        let granted = u64::try_from(granted.timeout_ms).unwrap_or(0);
        if granted == 0 {
            return Err(format!("{authority} grants no session"));
        }
        let now = Instant::now();
        let mut session = Self {
            socket,
            records,
            sending: BytesMut::new(),
            timeout: Duration::from_millis(granted.max(100)),
            number: 0,
            waiting: VecDeque::new(),
            asked: VecDeque::new(),
            tree: Tree::new(&options.roots()),
            heard_at: now,
            sent_at: now,
        };
        if let Some((user, password)) = &options.user {
            let proof = wire::authenticate(user, password.reveal());
            session.sending.extend_from_slice(&proof);
        }
        session.waiting.extend(session.tree.begin());
        Ok(session)
    }

    /// Reads until the connection is lost, and says why; nothing where it was to stop.
    pub(super) async fn run(
        &mut self,
        out: &mut Outbox,
        to: &Reports,
        stop: &CancellationToken,
    ) -> Option<Arc<str>> {
        // Something may have come with the greeting.
        if let Err(why) = self.heard(out) {
            return Some(why.into());
        }
        loop {
            self.send();
            let (ping_at, lost_at) = (
                self.sent_at + self.timeout / 3,
                self.heard_at + self.timeout * 2 / 3,
            );
            let (mut reader, mut writer) = self.socket.split();
            tokio::select! {
                () = stop.cancelled() => break,
                sent = out.send(to), if !out.is_empty() => if sent.is_err() {
                    break;
                },
                read = reader.read_buf(&mut self.records.waiting) => match read {
                    Ok(0) => return Some("the server closed the connection".into()),
                    Ok(_) => {
                        self.heard_at = Instant::now();
                        if let Err(why) = self.heard(out) {
                            return Some(why.into());
                        }
                    }
                    Err(error) => return Some(error.to_string().into()),
                },
                written = writer.write_buf(&mut self.sending), if self.sending.has_remaining() => {
                    self.sent_at = Instant::now();
                    if let Err(error) = written {
                        return Some(error.to_string().into());
                    }
                }
                () = sleep_until(lost_at) => return Some("the server does not answer".into()),
                () = sleep_until(ping_at), if !self.sending.has_remaining() => {
                    self.sending.extend_from_slice(&wire::ping());
                }
            }
        }
        self.sending.extend_from_slice(&wire::close(LAST));
        // The server forgets the session by itself where it does not hear this.
        let _ = timeout(FAREWELL, self.socket.write_all_buf(&mut self.sending)).await;
        None
    }

    /// Asks what waits, not all at once.
    fn send(&mut self) {
        while self.asked.len() < AT_ONCE
            && let Some(ask) = self.waiting.pop_front()
        {
            // Numbers that are negative, and the last one, mean something else.
            self.number = self.number % (LAST - 1) + 1;
            let request = wire::ask(self.number, ask.what, &ask.path);
            self.sending.extend_from_slice(&request);
            self.asked.push_back((self.number, ask));
        }
    }

    /// Takes in what came.
    fn heard(&mut self, out: &mut Outbox) -> Result<(), String> {
        let unreadable = |_| "the server says what cannot be read".to_owned();
        while let Some(record) = self.records.pop().map_err(unreadable)? {
            match wire::message(record).map_err(unreadable)? {
                Message::Alive => {}
                Message::Authenticated(0) => {}
                Message::Authenticated(_) => return Err("the server refuses the credentials".to_owned()),
                Message::Changed(change, path) => {
                    let asks = self.tree.changed(change, &path);
                    self.waiting.extend(asks);
                }
                Message::Answer(number, error, body) => self.answered(number, error, &body, out)?,
            }
        }
        Ok(())
    }

    fn answered(
        &mut self,
        number: i32,
        error: i32,
        body: &Bytes,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let ask = self.asked.pop_front().filter(|(n, _)| *n == number);
        let Some((_, ask)) = ask else {
            return Err("the server answers what was not asked".to_owned());
        };
        let found = wire::found(ask.what, error, body)
            .map_err(|_| format!("what the server says of {:?} cannot be read", ask.path))?;
        let asks = self.tree.answered(ask, found, out);
        self.waiting.extend(asks.map_err(|e| e.to_string())?);
        Ok(())
    }
}

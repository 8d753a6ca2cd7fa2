//! What is asked of a server and what its answers mean, without a socket.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::Options;
use super::tree::{Ask, Tree};
use super::wire::{self, Message, Records};
use crate::outbox::Outbox;

/// How many questions are under way at once.
const AT_ONCE: usize = 256;
/// The number of the last message.
const LAST: i32 = i32::MAX;

/// A session, once it is granted.
pub(super) struct Dialogue {
    /// What came.
    pub(super) records: Records,
    /// What is to be sent.
    pub(super) sending: BytesMut,
    number: i32,
    /// Questions that wait, and those under way with their numbers, in the order of their answers.
    waiting: VecDeque<Ask>,
    asked: VecDeque<(i32, Ask)>,
    /// How many changes the server may tell of: one for each answer. So what waits is in proportion to what there is.
    watched: usize,
    /// What there is, as this session was told.
    pub(super) tree: Tree,
}

impl Dialogue {
    /// Proves who asks, and begins to ask.
    pub(super) fn new(options: &Options, records: Records) -> Self {
        let mut tree = Tree::new(&options.roots());
        let mut sending = BytesMut::new();
        if let Some((user, password)) = &options.user {
            let proof = wire::authenticate(user, password.reveal());
            sending.extend_from_slice(&proof);
        }
        Self {
            records,
            sending,
            number: 0,
            waiting: tree.begin().into(),
            asked: VecDeque::new(),
            watched: 0,
            tree,
        }
    }

    /// A sign of life.
    pub(super) fn ping(&mut self) {
        self.sending.extend_from_slice(&wire::ping());
    }

    /// The end.
    pub(super) fn close(&mut self) {
        self.sending.extend_from_slice(&wire::close(LAST));
    }

    /// Asks what waits, not all at once.
    pub(super) fn ask(&mut self) {
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
    pub(super) fn heard(&mut self, out: &mut Outbox) -> Result<(), String> {
        let unreadable = |_| "the server says what cannot be read".to_owned();
        while let Some(record) = self.records.pop().map_err(unreadable)? {
            match wire::message(record).map_err(unreadable)? {
                Message::Alive => {}
                Message::Authenticated(0) => {}
                Message::Authenticated(_) => {
                    return Err("the server refuses the credentials".to_owned());
                }
                Message::Changed(change, path) => {
                    let unasked = "the server tells of changes that nobody asked for";
                    self.watched = self.watched.checked_sub(1).ok_or(unasked)?;
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
        self.watched += 1;
        let found = wire::found(ask.what, error, body)
            .map_err(|_| format!("what the server says of {:?} cannot be read", ask.path))?;
        let asks = self.tree.answered(ask, found, out);
        self.waiting.extend(asks.map_err(|e| e.to_string())?);
        self.ask();
        Ok(())
    }
}

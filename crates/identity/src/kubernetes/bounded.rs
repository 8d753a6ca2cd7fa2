//! A reviewer that is far away, asked as little as possible.
//!
//! An answer is remembered for a short time, under a hash of its token; who asks the same meanwhile waits for the same answer.
//! What waits is bounded, for each address and for all; and nothing waits for ever.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use model::peer::network_of;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{ReviewError, Reviewed, Reviewer};

/// What reviews may cost the API server and us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReviewLimits {
    /// Most questions that are under way at once.
    pub at_once: usize,
    /// Most questions that are under way or wait.
    pub waiting: usize,
    /// As many of them may be of one address (IPv6: a /64).
    pub waiting_each: usize,
    /// How long an answer may take, with the wait before.
    pub patience: Duration,
    /// Most answers that are remembered.
    pub remembered: usize,
    /// How long they are: what was revoked counts for as long. As kube-apiserver remembers tokens that it has judged.
    pub fresh: Duration,
}

impl Default for ReviewLimits {
    fn default() -> Self {
        Self {
            at_once: 64,
            waiting: 8_192,
            waiting_each: 4_096,
            patience: Duration::from_secs(10),
            remembered: 16_384,
            fresh: Duration::from_secs(10),
        }
    }
}

/// The hash of a token and of those it is to be for.
type Key = [u8; 32];
type Answer = Result<Reviewed, ReviewError>;
type Asked = Shared<BoxFuture<'static, Answer>>;

/// A reviewer behind a memory and limits.
#[derive(Clone)]
pub struct Bounded {
    reviewer: Arc<dyn Reviewer>,
    limits: ReviewLimits,
    /// Where questions are asked, whichever thread wants to know.
    runtime: Handle,
    slots: Arc<Semaphore>,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    answers: HashMap<Key, (Instant, Answer)>,
    /// The keys of the answers, oldest first.
    order: VecDeque<Key>,
    asked: HashMap<Key, Asked>,
    /// How many of those asked are of each address.
    by_peer: HashMap<IpAddr, usize>,
}

/// A question that is counted; no longer when dropped.
struct Counted {
    memory: Arc<Mutex<Memory>>,
    key: Key,
    peer: IpAddr,
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bounded {
    /// Asks `reviewer` within these limits, on this runtime.
    pub fn new(reviewer: Arc<dyn Reviewer>, limits: ReviewLimits, runtime: Handle) -> Self {
        Self {
            reviewer,
            limits,
            runtime,
            slots: Arc::new(Semaphore::new(limits.at_once)),
            memory: Arc::default(),
        }
    }

    /// The answer that is remembered or on its way, or that is asked for now.
    fn ask(&self, token: &str, audiences: &[String], from: IpAddr) -> Result<Asked, Answer> {
        let (key, peer) = (key(token, audiences), network_of(from));
        let mut memory = lock(&self.memory);
        memory.forget(Instant::now(), self.limits.fresh);
        if let Some((_, answer)) = memory.answers.get(&key) {
            return Err(answer.clone());
        }
        if let Some(asked) = memory.asked.get(&key) {
            return Ok(asked.clone());
        }
        let of_peer = memory.by_peer.get(&peer).copied().unwrap_or_default();
        if memory.asked.len() >= self.limits.waiting || of_peer >= self.limits.waiting_each {
            let why = "too many tokens wait to be reviewed".into();
            return Err(Err(ReviewError::Unavailable(why)));
        }
        let counted = Counted {
            memory: self.memory.clone(),
            key,
            peer,
        };
        let answering = self
            .clone()
            .answer(token.to_owned(), audiences.to_vec(), counted);
        let task = self.runtime.spawn(answering);
        let asked = async move {
            task.await
                .unwrap_or_else(|_| Err(ReviewError::Unavailable("the review was given up".into())))
        };
        let asked = asked.boxed().shared();
        memory.asked.insert(key, asked.clone());
        *memory.by_peer.entry(peer).or_default() += 1;
        Ok(asked)
    }

    async fn answer(self, token: String, audiences: Vec<String>, counted: Counted) -> Answer {
        let from = counted.peer;
        let asking = async {
            let _slot = self.slots.acquire().await;
            self.reviewer.review(&token, &audiences, from).await
        };
        let patience = self.limits.patience;
        let answer = tokio::time::timeout(patience, asking).await;
        let answer = answer.unwrap_or_else(|_| {
            let why = format!("no answer within {patience:?}");
            Err(ReviewError::Unavailable(why.into()))
        });
        if !matches!(answer, Err(ReviewError::Unavailable(_))) {
            let mut memory = lock(&self.memory);
            memory.remember(counted.key, answer.clone(), self.limits.remembered);
        }
        answer
    }
}

impl Reviewer for Bounded {
    fn review<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        from: IpAddr,
    ) -> BoxFuture<'a, Answer> {
        match self.ask(token, audiences, from) {
            Ok(asked) => asked.boxed(),
            Err(answer) => std::future::ready(answer).boxed(),
        }
    }
}

impl Memory {
    /// Forgets answers that are old. All live equally long, so the oldest end first.
    fn forget(&mut self, now: Instant, fresh: Duration) {
        while let Some(oldest) = self.order.front() {
            let since = self.answers.get(oldest).map(|(since, _)| *since);
            if since.is_some_and(|since| now.duration_since(since) < fresh) {
                return;
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(key) = self.order.pop_front() {
            self.answers.remove(&key);
        }
    }

    fn remember(&mut self, key: Key, answer: Answer, most: usize) {
        while self.order.len() >= most.max(1) {
            self.forget_oldest();
        }
        // A token is asked about only while nothing is remembered of it.
        self.answers.insert(key, (Instant::now(), answer));
        self.order.push_back(key);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut memory = lock(&self.memory);
        memory.asked.remove(&self.key);
        if let Some(count) = memory.by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                memory.by_peer.remove(&self.peer);
            }
        }
    }
}

fn key(token: &str, audiences: &[String]) -> Key {
    let mut context = Context::new(&SHA256);
    for part in audiences.iter().map(String::as_str).chain([token]) {
        context.update(&part.len().to_le_bytes());
        context.update(part.as_bytes());
    }
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    key
}

#[cfg(test)]
mod tests;

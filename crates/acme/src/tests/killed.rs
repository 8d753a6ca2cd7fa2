//! Whoever orders certificates is killed at every step; whoever comes after loses nothing and orders nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use writeback::{ObjectRef, Page, Part, Place, WriteError};

use super::world::World;
use crate::State;

/// A place that stops answering at a write, before or after it is done.
struct Stops {
    place: Arc<dyn Place>,
    left: AtomicUsize,
    is_done: bool,
    stopped: Arc<AtomicUsize>,
}

impl Stops {
    async fn pass<T>(
        &self,
        doing: impl Future<Output = Result<T, WriteError>> + Send,
    ) -> Result<T, WriteError> {
        let is_last = self.left.fetch_sub(1, Ordering::SeqCst) == 1;
        let done = match is_last && !self.is_done {
            true => None,
            false => Some(doing.await),
        };
        match done {
            Some(done) if !is_last => done,
            _ => {
                self.stopped.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            }
        }
    }
}

impl Place for Stops {
    fn name(&self) -> &str {
        self.place.name()
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, WriteError>> {
        self.place.get(object)
    }

    fn list<'a>(
        &'a self,
        object: &'a ObjectRef,
        next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>> {
        self.place.list(object, next)
    }

    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.pass(self.place.create(object, value)))
    }

    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.pass(self.place.replace(object, part, value)))
    }

    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(self.pass(self.place.delete(object, version)))
    }
}

/// The writes of one certificate: room for the account, the account, the order, its answers, no answers any more, the
/// certificate, no order.
const WRITES: usize = 7;

#[tokio::test]
async fn at_every_write() {
    for at in 1..=WRITES {
        for is_done in [false, true] {
            let mut world = World::start().await;
            let stopped = Arc::new(AtomicUsize::new(0));
            let mut inner = None;
            world.over(|place| {
                inner = Some(place.clone());
                Arc::new(Stops {
                    place,
                    left: AtomicUsize::new(at),
                    is_done,
                    stopped: stopped.clone(),
                })
            });
            world.restart();
            world.want("tls", &["a.example"]);
            world.until(|_| stopped.load(Ordering::SeqCst) > 0).await;
            world.kill().await;
            world.over(|_| inner.unwrap());
            world.restart();
            world.all(State::Valid).await;
            let counts = world.directory.counts();
            // The two moments that nobody can keep: what is new has been answered, and not been written down.
            let most = |write| 1 + usize::from((at, is_done) == (write, false));
            let made = (counts.accounts, counts.orders);
            assert_eq!(
                made,
                (most(2), most(3)),
                "killed at write {at}, done: {is_done}"
            );
            assert_eq!(counts.issued, 1, "killed at write {at}, done: {is_done}");
        }
    }
}

#[tokio::test]
async fn at_any_moment() {
    let mut orders = 0;
    for n in 0..40 {
        let mut world = World::with(|setting| setting.looking = Duration::from_millis(60)).await;
        world.want("tls", &["a.example", "b.example"]);
        tokio::time::sleep(Duration::from_millis(n * 13)).await;
        world.kill().await;
        let ordered = world.directory.counts().orders;
        let files = std::fs::read_dir(world.path()).unwrap().flatten();
        let names: Vec<String> = files
            .map(|f| f.file_name().into_string().unwrap())
            .collect();
        let known = names
            .iter()
            .any(|name| name.contains("order") || name.contains("tls"));
        world.restart();
        world.all(State::Valid).await;
        let counts = world.directory.counts();
        let most = 1 + usize::from(ordered == 1 && !known);
        assert!(
            counts.orders <= most,
            "killed after {} ms: {counts:?}",
            n * 13
        );
        orders += counts.orders;
    }
    assert!(orders <= 42, "{orders} orders of 40 certificates");
}

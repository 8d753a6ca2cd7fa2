//! A connection and its streams as one task.
//!
//! A push is work for a stream, then for its connection; an answer for the connection, then for the stream. As tasks of
//! their own each would wake the other and wait for its turn, with a thousand others between, until what both touch has
//! left the processor's caches.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// The connection has something to do.
const CONNECTION: u8 = 1;
/// A stream has.
const STREAMS: u8 = 2;
/// The task looks at both right now.
const POLLING: u8 = 4;

/// After so many rounds other tasks get their turn.
const ROUNDS: usize = 16;

/// What is due, and whom to wake for it.
#[derive(Debug, Default)]
struct Due {
    bits: AtomicU8,
    task: AtomicWaker,
}

/// One side's way to say that something is due.
struct Side {
    due: Arc<Due>,
    bit: u8,
}

impl Wake for Side {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Otherwise the task looks already, or was woken.
        if self.due.bits.fetch_or(self.bit, Ordering::AcqRel) == 0 {
            self.due.task.wake();
        }
    }
}

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Takes in the streams that a connection begins.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Vec<Stream>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Begun {
    fn execute(&self, stream: F) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push(Box::pin(stream));
    }
}

impl Begun {
    /// Whether there were any.
    fn move_to(&self, streams: &mut Vec<Stream>) -> bool {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let any = !begun.is_empty();
        streams.append(&mut begun);
        any
    }
}

/// A connection with its streams; they end with it.
pub(super) struct Joint<C> {
    connection: Pin<Box<C>>,
    begun: Begun,
    streams: Vec<Stream>,
    due: Arc<Due>,
    /// Those of the connection and of the streams.
    wakers: [Waker; 2],
}

impl<C> Joint<C> {
    /// `connection` begins its streams in `begun`.
    pub(super) fn new(connection: C, begun: Begun) -> Self {
        let due = Arc::new(Due::default());
        due.bits.store(CONNECTION, Ordering::Release);
        let side = |bit| {
            let due = Arc::clone(&due);
            Waker::from(Arc::new(Side { due, bit }))
        };
        Self {
            connection: Box::pin(connection),
            begun,
            streams: Vec::new(),
            wakers: [side(CONNECTION), side(STREAMS)],
            due,
        }
    }

    /// The connection, to tell it something.
    pub(super) fn connection(&mut self) -> Pin<&mut C> {
        // It has something to do because of that.
        self.due.bits.fetch_or(CONNECTION, Ordering::AcqRel);
        self.connection.as_mut()
    }
}

impl<C: Future> Future for Joint<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.get_mut();
        this.due.task.register(cx.waker());
        let [of_connection, of_streams] = &this.wakers;
        for _ in 0..ROUNDS {
            let due = this.due.bits.swap(POLLING, Ordering::AcqRel);
            if due & STREAMS != 0 {
                let mut cx = Context::from_waker(of_streams);
                let streams = &mut this.streams;
                streams.retain_mut(|stream| stream.as_mut().poll(&mut cx).is_pending());
            }
            if due & CONNECTION != 0 {
                let mut cx = Context::from_waker(of_connection);
                if let Poll::Ready(result) = this.connection.as_mut().poll(&mut cx) {
                    return Poll::Ready(result);
                }
                if this.begun.move_to(&mut this.streams) {
                    this.due.bits.fetch_or(STREAMS, Ordering::AcqRel);
                }
            }
            let bits = &this.due.bits;
            let rests = bits.compare_exchange(POLLING, 0, Ordering::AcqRel, Ordering::Acquire);
            if rests.is_ok() {
                return Poll::Pending;
            }
        }
        // What is due stays noted, and the task comes again.
        this.due.bits.fetch_and(!POLLING, Ordering::AcqRel);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt;
    use hyper::rt::Executor;

    use super::*;

    /// How often something was polled, and how to wake it.
    #[derive(Default)]
    struct Polled {
        times: AtomicUsize,
        waker: AtomicWaker,
    }

    impl Polled {
        fn note(&self, cx: &Context<'_>) -> usize {
            self.waker.register(cx.waker());
            self.times.fetch_add(1, Ordering::Relaxed) + 1
        }

        fn times(&self) -> usize {
            self.times.load(Ordering::Relaxed)
        }
    }

    /// A connection that begins one stream, and ends when it is polled the third time.
    fn joint(
        stream: &Arc<Polled>,
        connection: &Arc<Polled>,
    ) -> Joint<impl Future<Output = &'static str>> {
        let begun = Begun::default();
        let (of_stream, of_connection) = (Arc::clone(stream), Arc::clone(connection));
        let begins = begun.clone();
        let served = poll_fn(move |cx| match of_connection.note(cx) {
            1 => {
                let of_stream = Arc::clone(&of_stream);
                begins.execute(poll_fn(move |cx| {
                    of_stream.note(cx);
                    Poll::<()>::Pending
                }));
                Poll::Pending
            }
            3 => Poll::Ready("served"),
            _ => Poll::Pending,
        });
        Joint::new(served, begun)
    }

    #[test]
    fn only_what_was_woken_is_polled() {
        let (stream, connection) = (Arc::<Polled>::default(), Arc::<Polled>::default());
        let mut joint = joint(&stream, &connection);
        assert_eq!((&mut joint).now_or_never(), None);
        assert_eq!((stream.times(), connection.times()), (1, 1));
        assert_eq!((&mut joint).now_or_never(), None);
        assert_eq!((stream.times(), connection.times()), (1, 1));
        stream.waker.wake();
        assert_eq!((&mut joint).now_or_never(), None);
        assert_eq!((stream.times(), connection.times()), (2, 1));
        _ = joint.connection();
        assert_eq!((&mut joint).now_or_never(), None);
        assert_eq!((stream.times(), connection.times()), (2, 2));
        connection.waker.wake();
        assert_eq!((&mut joint).now_or_never(), Some("served"));
    }

    #[test]
    fn the_task_is_woken_once_however_much_is_due() {
        let (stream, connection) = (Arc::<Polled>::default(), Arc::<Polled>::default());
        let mut joint = joint(&stream, &connection);
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut joint).poll(&mut cx).is_pending());
        assert_eq!(task.0.load(Ordering::Relaxed), 0);
        stream.waker.wake();
        connection.waker.wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn one_that_is_always_due_lets_others_have_their_turn() {
        let busy = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let mut joint = Joint::new(busy, Begun::default());
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        for turn in 1..=3 {
            let polled = Pin::new(&mut joint).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            assert_eq!(task.0.load(Ordering::Relaxed), turn);
        }
    }

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

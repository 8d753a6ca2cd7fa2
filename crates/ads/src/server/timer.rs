//! The timer behind pings: a deadline that has passed is looked at again.
//!
//! hyper looks whether an answer to its ping is late before it reads what has arrived. A process that did not run for a
//! while (starved, stopped, on a machine that moved) would so close every connection with a ping under way, though the
//! answers lie in its sockets.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// How often a sleep must be found to be over before it ends, each time but the first after [`PAUSE`].
const LOOKS: u8 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// Sleeps that end when they are over, and the process has run a while since.
#[derive(Clone, Debug)]
pub(super) struct Lenient;

impl Timer for Lenient {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Looked {
            sleep: Box::pin(tokio::time::sleep_until(deadline.into())),
            looks: 0,
        })
    }
}

struct Looked {
    sleep: Pin<Box<tokio::time::Sleep>>,
    looks: u8,
}

impl Sleep for Looked {}

impl Future for Looked {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.looks = self.looks.saturating_add(1);
            if self.looks >= LOOKS {
                return Poll::Ready(());
            }
            let later = tokio::time::Instant::now() + PAUSE;
            self.sleep.as_mut().reset(later);
        }
    }
}

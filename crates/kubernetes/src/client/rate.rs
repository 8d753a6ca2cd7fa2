//! How often an API is asked, and how long it may take to answer.
//!
//! Requests count, not what watches bring: a watch is one request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

/// How long an answer may take to begin. An API server gives up after a minute.
const ANSWER: Duration = Duration::from_secs(65);

/// So many requests a second, after a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// Requests a second. 0 means no limit.
    pub(super) qps: f64,
    /// The burst: at least 1.
    pub(super) burst: f64,
}

/// A service that is asked at a rate.
pub(super) struct Rated<S> {
    inner: S,
    rate: Rate,
    /// Requests that may go at once.
    left: f64,
    /// When that was.
    at: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl<S> Layer<S> for Rate {
    type Service = Rated<S>;

    fn layer(&self, inner: S) -> Rated<S> {
        let now = Instant::now();
        Rated {
            inner,
            rate: *self,
            left: self.burst.max(1.0),
            at: now,
            sleep: Box::pin(tokio::time::sleep_until(now)),
        }
    }
}

impl<S> Rated<S> {
    /// How long to wait for the next request.
    fn wait(&mut self, now: Instant) -> Duration {
        let Rate { qps, burst } = self.rate;
        if qps <= 0.0 {
            self.left = 1.0;
            return Duration::ZERO;
        }
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + passed * qps).min(burst.max(1.0));
        self.at = now;
        // A part of a request that rounding has taken is no reason to wait.
        let missing = (1.0 - self.left).max(0.0) / qps;
        match missing < 1e-6 {
            true => Duration::ZERO,
            false => Duration::from_secs_f64(missing),
        }
    }
}

impl<S, R> Service<R> for Rated<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        loop {
            let now = Instant::now();
            let wait = self.wait(now);
            if wait.is_zero() {
                return self.inner.poll_ready(cx).map_err(Into::into);
            }
            self.sleep.as_mut().reset(now + wait);
            ready!(self.sleep.as_mut().poll(cx));
        }
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.left -= 1.0;
        let answer = self.inner.call(request);
        Box::pin(async move {
            match tokio::time::timeout(ANSWER, answer).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs()).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits of so many requests, each made as soon as it may.
    fn waited(qps: f64, burst: f64, requests: u32) -> Duration {
        let start = Instant::now();
        let mut rated = Rated {
            inner: (),
            rate: Rate { qps, burst },
            left: burst.max(1.0),
            at: start,
            sleep: Box::pin(tokio::time::sleep_until(start)),
        };
        let mut now = start;
        for _ in 0..requests {
            now += rated.wait(now);
            assert!(rated.wait(now).is_zero());
            rated.left -= 1.0;
        }
        now - start
    }

    #[tokio::test]
    async fn requests_wait_after_a_burst() {
        assert_eq!(waited(10.0, 5.0, 5), Duration::ZERO);
        let more = waited(10.0, 5.0, 25).as_secs_f64();
        assert!((1.9..2.1).contains(&more), "{more}");
        assert_eq!(waited(0.0, 1.0, 1000), Duration::ZERO);
    }
}

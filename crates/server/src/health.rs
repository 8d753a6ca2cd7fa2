//! `grpc.health.v1.Health` on the ports of xDS: what `/ready` says, for probes that speak gRPC.
//!
//! Whoever reaches a port may ask, as anybody may ask for `/ready`. The names that are known are the empty one, for the whole
//! server, and that of ADS.

use std::sync::Arc;
use std::time::Duration;

use ads::server::{Client, Mount, Reply, Requests, streamed, trailers_only, unary};
use ads::{Code, Status};
use futures::future::BoxFuture;
use futures::stream::unfold;
use http::{Request, Response};
use prost::Message;
use proto_istio::health::{
    HealthCheckRequest as Asked, HealthCheckResponse as Told, HealthListResponse as Listed,
    health_check_response::ServingStatus as State,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::issuing::whole;

/// The full name of the service.
pub(crate) const SERVICE: &str = "grpc.health.v1.Health";
/// What may be asked about.
const KNOWN: [&str; 2] = ["", ads::server::DISCOVERY];
/// The largest request: it holds the name of a service.
const LARGEST: usize = 4 << 10;
/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked at, for those who watch, whether proxies are served.
const LOOK: Duration = Duration::from_secs(1);
/// The most calls that watch at one time.
const WATCHERS: usize = 1024;

/// Answers whether proxies are served.
pub(crate) struct Health(Arc<Shared>);

struct Shared {
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    stop: CancellationToken,
    places: Arc<Semaphore>,
}

impl Health {
    /// `is_ready` says whether proxies are served, which nobody is any more from `stop` on.
    pub(crate) fn new(
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            is_ready: Box::new(is_ready),
            stop,
            places: Arc::new(Semaphore::new(WATCHERS)),
        }))
    }
}

impl Mount for Health {
    fn call(&self, request: Request<Requests>, _: Client) -> BoxFuture<'static, Response<Reply>> {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let method = head.uri.path().rsplit('/').next().unwrap_or_default();
            let asked = tokio::time::timeout(PATIENCE, whole(body, LARGEST)).await;
            let late = |_| Status::new(Code::DeadlineExceeded, "the request took too long to come");
            let answer = match asked.map_err(late).flatten() {
                Ok(asked) => shared.answer(method, &asked),
                Err(status) => Err(status),
            };
            answer.unwrap_or_else(|status| trailers_only(&status))
        })
    }
}

fn told(state: State) -> Told {
    Told {
        status: state.into(),
    }
}

/// A call that watches.
struct Watcher {
    shared: Arc<Shared>,
    service: String,
    /// What it was told last.
    told: Option<State>,
    _place: OwnedSemaphorePermit,
}

impl Shared {
    /// The answer to a request.
    fn answer(self: &Arc<Self>, method: &str, message: &[u8]) -> Result<Response<Reply>, Status> {
        let asked = || {
            let asked = Asked::decode(message);
            asked.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))
        };
        match method {
            "Check" => match self.state(&asked()?.service) {
                State::ServiceUnknown => Err(Status::new(Code::NotFound, "unknown service")),
                state => Ok(unary(&told(state).encode_to_vec())),
            },
            "List" => {
                let known = KNOWN.map(|name| (name.to_owned(), told(self.state(name))));
                let listed = Listed {
                    statuses: known.into(),
                };
                Ok(unary(&listed.encode_to_vec()))
            }
            "Watch" => self.watch(asked()?.service),
            _ => {
                let message = format!("unknown method {SERVICE}/{method}");
                Err(Status::new(Code::Unimplemented, message))
            }
        }
    }

    fn state(&self, service: &str) -> State {
        if !KNOWN.contains(&service) {
            State::ServiceUnknown
        } else if !self.stop.is_cancelled() && (self.is_ready)() {
            State::Serving
        } else {
            State::NotServing
        }
    }

    /// Tells the state, and again whenever it is another, until the process is to stop.
    fn watch(self: &Arc<Self>, service: String) -> Result<Response<Reply>, Status> {
        let place = self.places.clone().try_acquire_owned();
        let full = |_| Status::new(Code::ResourceExhausted, "too many calls watch");
        let watcher = Watcher {
            shared: self.clone(),
            service,
            told: None,
            _place: place.map_err(full)?,
        };
        let states = unfold(watcher, |mut watcher| async move {
            let state = watcher.next().await?;
            Some((told(state).encode_to_vec(), watcher))
        });
        let last = Status::new(Code::Unavailable, "the server is shutting down");
        Ok(streamed(states, &last))
    }
}

impl Watcher {
    /// The state, once it is another than was told; `None` when the process is to stop and that was told.
    async fn next(&mut self) -> Option<State> {
        loop {
            let stops = self.shared.stop.is_cancelled();
            let state = self.shared.state(&self.service);
            if self.told != Some(state) {
                self.told = Some(state);
                return Some(state);
            }
            if stops {
                return None;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.shared.stop.cancelled() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ads::server::Frames;
    use http_body_util::BodyExt;

    use super::*;

    const ADS: &str = KNOWN[1];

    fn health() -> (Arc<AtomicBool>, CancellationToken, Arc<Shared>) {
        let (ready, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let seen = ready.clone();
        let health = Health::new(move || seen.load(Ordering::Relaxed), stop.clone());
        (ready, stop, health.0)
    }

    fn asked(service: &str) -> Vec<u8> {
        let service = service.to_owned();
        Asked { service }.encode_to_vec()
    }

    /// The next message of an answer; `None` at its end.
    async fn message(body: &mut Reply) -> Option<bytes::Bytes> {
        let data = body.frame().await?.unwrap().into_data().ok()?;
        let mut frames = Frames::new(LARGEST);
        frames.push(data);
        frames.pop().unwrap()
    }

    async fn heard(body: &mut Reply) -> Option<i32> {
        Some(Told::decode(message(body).await?).unwrap().status)
    }

    #[tokio::test]
    async fn a_check_says_what_ready_says() {
        let (ready, stop, health) = health();
        let check = async |service: &str| {
            let answer = health.answer("Check", &asked(service));
            match answer {
                Ok(answer) => Ok(heard(&mut answer.into_body()).await.unwrap()),
                Err(status) => Err(status.code),
            }
        };
        assert_eq!(check("").await, Ok(2));
        ready.store(true, Ordering::Relaxed);
        assert_eq!(check("").await, Ok(1));
        assert_eq!(check(ADS).await, Ok(1));
        assert_eq!(check("shop.Cart").await, Err(Code::NotFound));
        let mut all = health.answer("List", &[]).unwrap().into_body();
        let all = Listed::decode(message(&mut all).await.unwrap()).unwrap();
        assert!(KNOWN.iter().all(|name| all.statuses[*name].status == 1));
        stop.cancel();
        assert_eq!(check("").await, Ok(2));
        let refused = |method: &str, message: &[u8]| {
            let refused = health.answer(method, message).err();
            refused.map(|status| status.code)
        };
        assert_eq!(refused("Nothing", &[]), Some(Code::Unimplemented));
        assert_eq!(refused("Check", &[0xff]), Some(Code::InvalidArgument));
    }

    #[tokio::test]
    async fn who_watches_hears_of_each_change_and_of_the_end() {
        let (ready, stop, health) = health();
        let watch = |service: &str| health.answer("Watch", &asked(service));
        let (mut known, mut unknown) = (
            watch("").unwrap().into_body(),
            watch("shop.Cart").unwrap().into_body(),
        );
        assert_eq!(heard(&mut known).await, Some(2));
        assert_eq!(heard(&mut unknown).await, Some(3));
        ready.store(true, Ordering::Relaxed);
        assert_eq!(heard(&mut known).await, Some(1));
        stop.cancel();
        assert_eq!(heard(&mut known).await, Some(2));
        for mut body in [known, unknown] {
            let trailers = body.frame().await.unwrap().unwrap().into_trailers();
            assert_eq!(trailers.unwrap()["grpc-status"], "14");
            assert!(body.frame().await.is_none());
        }
        let held: Vec<_> = (0..WATCHERS).map(|_| watch("").unwrap()).collect();
        let refused = watch("").err().map(|status| status.code);
        assert_eq!(refused, Some(Code::ResourceExhausted));
        drop(held);
        assert!(watch("").is_ok());
    }
}

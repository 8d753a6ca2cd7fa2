//! Debug pages over xDS, as istioctl asks for them: `istio.io/debug/syncz`, `istio.io/debug/config_dump` and `istio.io/debug`.
//!
//! Each request is answered once and nothing is pushed. What is asked is worked on apart from the threads that serve proxies, one
//! question at a time, with rests that keep it to a tenth of one processor, however many ask.
//!
//! Istio: pilot/pkg/xds/statusgen.go, debuggen.go, 1.32. Its delta streams answer acknowledgements as well, for ever.

mod asked;
mod resources;
mod rights;

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ads::server::{Asker, ExtraStream, ExtraTypes, Proven};
use ads::{Answer, Code, Entry, Protocol, Request, Status};
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};

use super::names::is_page;
use super::{PageError, connected, page, parameter};
use crate::config::ServeOptions;
use crate::http::Pages;
use asked::{Kind, Question, Seen};
pub(crate) use rights::{Rights, ThisMachine};

/// Questions of one stream that wait.
const OF_STREAM: usize = 16;
/// Questions of all streams that wait.
const WAITING: usize = 256;
/// How many times as long as a question took nothing is worked on.
const REST: u32 = 9;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// The debug types.
pub(crate) struct DebugTypes(Arc<Shared>);

struct Shared {
    pages: Arc<Pages>,
    /// From where all may be asked, beside the root namespace.
    namespaces: Vec<String>,
    /// What says in each answer who gave it.
    identifier: String,
    /// Streams have threads of their own, which questions are not to hold up.
    runtime: Handle,
    /// Whose question is worked on.
    turn: Mutex<()>,
    places: Arc<Semaphore>,
}

impl DebugTypes {
    /// Answers on the runtime of the caller.
    pub(crate) fn new(options: &ServeOptions, pages: &Arc<Pages>) -> Self {
        let id = options.writing.host();
        Self(Arc::new(Shared {
            pages: pages.clone(),
            namespaces: options.secure.debug_namespaces.clone(),
            identifier: identifier(&id, &options.revision),
            runtime: Handle::current(),
            turn: Mutex::new(()),
            places: Arc::new(Semaphore::new(WAITING)),
        }))
    }
}

/// Who answers, in the shape that istioctl reads.
fn identifier(id: &str, revision: &str) -> String {
    let info = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "revision": revision,
        "golang_version": "",
        "status": "",
        "tag": env!("CARGO_PKG_VERSION"),
    });
    json!({ "Component": "pilothouse", "ID": id, "Info": info }).to_string()
}

impl ExtraTypes for DebugTypes {
    fn serves(&self, type_url: &str) -> bool {
        Kind::of(type_url).is_some()
    }

    fn open(&self, asker: &Asker) -> Box<dyn ExtraStream> {
        Box::new(Questions {
            shared: self.0.clone(),
            proven: asker.proven.clone(),
            is_local: asker.peer.ip().to_canonical().is_loopback(),
            protocol: asker.protocol,
            seen: BTreeMap::new(),
            last: 0,
            waiting: VecDeque::new(),
        })
    }
}

/// What is found, or why there is nothing.
type Found = Result<Vec<Entry>, Status>;

/// The questions of one stream.
struct Questions {
    shared: Arc<Shared>,
    proven: Proven,
    is_local: bool,
    protocol: Protocol,
    /// What was asked last of each type.
    seen: BTreeMap<Kind, Seen>,
    /// The nonce of the last answer.
    last: u64,
    /// In the order of asking.
    waiting: VecDeque<(Kind, u64, oneshot::Receiver<Found>)>,
}

impl ExtraStream for Questions {
    fn on_request(&mut self, request: Request) -> Result<(), Status> {
        let Some(kind) = Kind::of(&request.type_url) else {
            return Ok(());
        };
        let rights = self.shared.rights(&self.proven, self.is_local);
        let rights =
            rights.ok_or_else(|| Status::new(Code::Unauthenticated, "authentication required"))?;
        let nonce = self.last + 1;
        let seen = self.seen.entry(kind).or_default();
        let Some(names) = seen.asks(request, nonce) else {
            return Ok(());
        };
        let question = Question::new(kind, names, rights)?;
        let full = || Status::new(Code::ResourceExhausted, "too many debug requests wait");
        if self.waiting.len() >= OF_STREAM {
            return Err(full());
        }
        let places = self.shared.places.clone();
        let place = places.try_acquire_owned().map_err(|_| full())?;
        self.last = nonce;
        let (reply, found) = oneshot::channel();
        let shared = self.shared.clone();
        let runtime = &self.shared.runtime;
        runtime.spawn(shared.work(question, reply, place));
        self.waiting.push_back((kind, nonce, found));
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        let Some((_, _, found)) = self.waiting.front_mut() else {
            return Poll::Pending;
        };
        let found = ready!(Pin::new(found).poll(cx));
        let Some((kind, nonce, _)) = self.waiting.pop_front() else {
            return Poll::Pending;
        };
        let dropped = |_| Status::new(Code::Unavailable, "the question was not answered");
        let resources = match found.map_err(dropped).and_then(|found| found) {
            Ok(resources) => resources,
            Err(status) => return Poll::Ready(Err(status)),
        };
        let answer = Answer {
            type_url: kind.type_url().to_owned(),
            version: nonce.to_string(),
            nonce: asked::nonce(nonce),
            resources,
            removed: Vec::new(),
            control_plane: Some(self.shared.identifier.clone()),
        };
        Poll::Ready(Ok(answer.encode(self.protocol)))
    }

    fn owes(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Shared {
    /// What a client may ask for; `None` where nobody knows who it is.
    fn rights(&self, proven: &Proven, is_local: bool) -> Option<Rights> {
        let settled = self.pages.settled.borrow();
        let root = &settled.settings().mesh.root_namespace;
        let privileged =
            |namespace: &str| namespace == root || self.namespaces.iter().any(|n| n == namespace);
        Rights::of(proven, is_local, privileged)
    }

    /// Answers when it is its turn, and rests.
    async fn work(
        self: Arc<Self>,
        question: Question,
        reply: oneshot::Sender<Found>,
        place: OwnedSemaphorePermit,
    ) {
        let turn = self.turn.lock().await;
        drop(place);
        if reply.is_closed() {
            return;
        }
        let start = Instant::now();
        let found = self.answer(question).await;
        let rest = (start.elapsed() * REST).min(LONGEST_REST);
        // The client may have gone.
        let _ = reply.send(found);
        tokio::time::sleep(rest).await;
        drop(turn);
    }

    async fn answer(&self, question: Question) -> Found {
        let defect = |_| Status::new(Code::Internal, "internal error");
        match question {
            Question::Status(rights) => {
                let connections = self.pages.connections.clone();
                let listed = move || resources::statuses(&connections.all(), &rights);
                let listed = tokio::task::spawn_blocking(listed).await;
                listed.map_err(defect)
            }
            Question::Dump { proxy, rights } => {
                let found = connected(&self.pages, &proxy, &rights, |_, found| found).await;
                // One that is not connected has nothing.
                let Ok(found) = found else {
                    return Ok(Vec::new());
                };
                let dumped = tokio::task::spawn_blocking(move || resources::dump(&found));
                dumped.await.map_err(defect)
            }
            Question::Page { name, rights } => {
                let page = self.page(&name, &rights).await;
                Ok(vec![resources::page(page)])
            }
        }
    }

    /// The body of a page, in istiod's words where istioctl looks for them.
    async fn page(&self, name: &str, rights: &Rights) -> Vec<u8> {
        let (name, query) = name.split_once('?').unwrap_or((name, ""));
        let name = name.trim_matches('/');
        match page(name, query, &self.pages, rights).await {
            Ok(found) => found.into_body().unwrap_or_else(PageError::into_body),
            Err(_) if !is_page(name) => b"404 page not found\n".to_vec(),
            Err(error)
                if error.status == StatusCode::BAD_REQUEST
                    && parameter(query, "proxyID").is_none() =>
            {
                b"You must provide a proxyID in the query string\n".to_vec()
            }
            Err(error) => error.into_body(),
        }
    }
}

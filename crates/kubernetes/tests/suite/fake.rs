//! An API whose resources come and go, and which refuses what it is told to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use pilothouse_kubernetes::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// The API. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    revision: u64,
    resources: BTreeMap<String, Resource>,
    /// With which status requests for a path are refused.
    refused: BTreeMap<String, u16>,
    /// Whether it knows lists that are streamed.
    streams: bool,
    /// The requests, as paths with their queries.
    asked: Vec<String>,
}

#[derive(Default)]
struct Resource {
    objects: BTreeMap<String, Value>,
    watches: Vec<UnboundedSender<Bytes>>,
}

type Frames = BoxStream<'static, Result<Frame<Bytes>, Infallible>>;
type Answer = Response<StreamBody<Frames>>;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Fake {
    /// An API with namespaces, services and definitions.
    pub(crate) fn new() -> Self {
        let fake = Self::default();
        fake.state().streams = true;
        for path in ["/api/v1/namespaces", "/api/v1/services", DEFINITIONS] {
            fake.serve(path);
        }
        fake
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = fake.answer(request.uri());
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    /// Lists are served in pages only.
    pub(crate) fn without_streams(self) -> Self {
        self.state().streams = false;
        self
    }

    /// Serves a path from here on.
    pub(crate) fn serve(&self, path: &str) {
        self.state().resources.entry(path.to_owned()).or_default();
    }

    /// Serves a path no more. Its watches end.
    pub(crate) fn withdraw(&self, path: &str) {
        self.state().resources.remove(path);
    }

    /// Refuses requests for a path; 0 does so no more.
    pub(crate) fn refuse(&self, path: &str, status: u16) {
        let mut state = self.state();
        match status {
            0 => _ = state.refused.remove(path),
            _ => _ = state.refused.insert(path.to_owned(), status),
        }
    }

    /// Ends the watches of a path, saying that they are too old.
    pub(crate) fn forget(&self, path: &str) {
        let mut state = self.state();
        let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
        let watches = std::mem::take(&mut state.resources.get_mut(path).unwrap().watches);
        for watch in watches {
            let _ = watch.send(line("ERROR", &status));
        }
    }

    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut state = self.state();
        state.revision += 1;
        object["metadata"]["resourceVersion"] = state.revision.to_string().into();
        let resource = state.resources.get_mut(path).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        resource.tell(&line("MODIFIED", &object));
        resource.objects.insert(name, object);
    }

    pub(crate) fn delete(&self, path: &str, name: &str) {
        let mut state = self.state();
        state.revision += 1;
        let revision = state.revision.to_string();
        let resource = state.resources.get_mut(path).unwrap();
        let mut object = resource.objects.remove(name).unwrap();
        object["metadata"]["resourceVersion"] = revision.into();
        resource.tell(&line("DELETED", &object));
    }

    /// A definition that serves these versions.
    pub(crate) fn define(&self, plural: &str, group: &str, versions: &[&str]) {
        let name = format!("{plural}.{group}");
        let versions = versions.iter().map(|v| json!({"name": v, "served": true}));
        let versions: Vec<Value> = versions.collect();
        self.put(
            DEFINITIONS,
            json!({"kind": "CustomResourceDefinition", "metadata": {"name": name},
                "spec": {"group": group, "names": {"plural": plural, "kind": "K"}, "versions": versions},
                "status": {"conditions": [{"type": "Established", "status": "True"}]}}),
        );
    }

    pub(crate) fn undefine(&self, plural: &str, group: &str) {
        self.delete(DEFINITIONS, &format!("{plural}.{group}"));
    }

    /// The requests for a path so far.
    pub(crate) fn asked(&self, path: &str) -> Vec<String> {
        let state = self.state();
        let asked = state.asked.iter().filter(|a| a.starts_with(path));
        asked.cloned().collect()
    }

    fn answer(&self, uri: &http::Uri) -> Answer {
        let mut state = self.state();
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default());
        let query = query.to_owned();
        state.asked.push(format!("{path}?{query}"));
        let (streams, revision) = (state.streams, state.revision.to_string());
        if let Some(status) = state.refused.get(&path) {
            return refusal(*status);
        }
        let Some(resource) = state.resources.get_mut(&path) else {
            return refusal(404);
        };
        if !query.contains("watch=true") {
            let items: Vec<&Value> = resource.objects.values().collect();
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": revision}, "items": items});
            return Response::new(whole(&list));
        }
        let initial = query.contains("sendInitialEvents=true");
        if initial && !streams {
            return refusal(422);
        }
        let (watch, told) = unbounded_channel();
        if initial {
            for object in resource.objects.values() {
                let _ = watch.send(line("ADDED", object));
            }
            let end = json!({"kind": "Bookmark", "apiVersion": "v1", "metadata": {
                "resourceVersion": revision, "annotations": {"k8s.io/initial-events-end": "true"}}});
            let _ = watch.send(line("BOOKMARK", &end));
        }
        resource.watches.push(watch);
        let told = stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
        let frames = told.map(|line| Ok(Frame::data(line)));
        Response::new(StreamBody::new(frames.boxed()))
    }
}

impl Resource {
    fn tell(&mut self, line: &Bytes) {
        self.watches
            .retain(|watch| watch.send(line.clone()).is_ok());
    }
}

fn whole(answer: &Value) -> StreamBody<Frames> {
    let frame = Frame::data(answer.to_string().into());
    StreamBody::new(stream::iter([Ok(frame)]).boxed())
}

fn line(event: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{event}\",\"object\":{object}}}\n"))
}

fn refusal(status: u16) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": "No", "message": "refused by the test"});
    let mut answer = Response::new(whole(&body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

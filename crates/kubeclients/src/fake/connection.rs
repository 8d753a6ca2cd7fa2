//! One connection: requests and their answers, whole unless something is wrong.

use std::future::pending;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::request::Asked;
use super::world::{RESOURCES, Resource};
use super::{Mishap, Shared, watching};

/// The connection cannot go on.
pub(super) struct Ended;

impl From<std::io::Error> for Ended {
    fn from(_: std::io::Error) -> Self {
        Ended
    }
}

pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (number, down) = {
            let mut trouble = shared.trouble.lock().unwrap();
            trouble.next += 1;
            (trouble.next - 1, trouble.down)
        };
        // What waits to be sent when the connection ends is dropped: the client sees a reset.
        stream.set_zero_linger().unwrap();
        if down {
            continue;
        }
        let connection = Connection {
            stream,
            number,
            shared: shared.clone(),
        };
        tokio::spawn(connection.serve());
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    number: u64,
    pub(super) shared: Arc<Shared>,
}

impl Connection {
    async fn serve(mut self) {
        let mut trouble = self.shared.trouble_changed.subscribe();
        let (shared, number) = (self.shared.clone(), self.number);
        let reset = async move {
            loop {
                trouble.borrow_and_update();
                if number < shared.trouble.lock().unwrap().reset_below {
                    return;
                }
                if trouble.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = reset => {}
            _ = self.answer_all() => {}
        }
    }

    async fn answer_all(&mut self) -> Result<(), Ended> {
        loop {
            let head = self.head().await?;
            let asked = Asked::read(&head).ok_or(Ended)?;
            self.answer(&asked).await?;
        }
    }

    async fn head(&mut self) -> Result<String, Ended> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await?);
        }
        String::from_utf8(head).map_err(|_| Ended)
    }

    /// Waits as long as no byte gets through: for ever once the connection is dead.
    async fn let_through(&self) {
        let delay = {
            let trouble = self.shared.trouble.lock().unwrap();
            if !trouble.partitioned && self.number >= trouble.dead_below {
                Some(trouble.delay)
            } else {
                None
            }
        };
        match delay {
            Some(delay) if delay.is_zero() => {}
            Some(delay) => tokio::time::sleep(delay).await,
            None => pending().await,
        }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        self.let_through().await;
        Ok(self.stream.write_all(bytes).await?)
    }

    async fn answer(&mut self, asked: &Asked) -> Result<(), Ended> {
        self.let_through().await;
        if !asked.is_get {
            return self.status(405, None).await;
        }
        let Some((resource, namespace, name)) = asked.collection() else {
            let body = self.discovery(&asked.path);
            return match body {
                Some(body) => self.body(&body, None).await,
                None => self.status(404, None).await,
            };
        };
        let mishap = self.shared.trouble.lock().unwrap().mishaps.pop();
        match mishap {
            Some(Mishap::Status(code, after)) => return self.status(code, after).await,
            Some(Mishap::Silence) => pending().await,
            _ => {}
        }
        if !self.shared.world.lock().unwrap().serves(resource) {
            return self.status(404, None).await;
        }
        if asked.is("watch") {
            return watching::serve(self, asked, resource, namespace, mishap).await;
        }
        let body = match name {
            "" => self.list(asked, resource, namespace),
            name => self.one(resource, namespace, name).ok_or(404),
        };
        match body {
            Ok(body) => self.body(&body, mishap).await,
            Err(code) => self.status(code, None).await,
        }
    }

    fn one(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
        let objects = self.shared.world.lock().unwrap().list(resource, namespace);
        objects.into_iter().find(|o| o["metadata"]["name"] == name)
    }

    /// A list or a page of it, or the code of what is wrong with the request.
    fn list(&self, asked: &Asked, resource: &Resource, namespace: &str) -> Result<Value, u16> {
        let behind = self.shared.trouble.lock().unwrap().behind;
        let mut world = self.shared.world.lock().unwrap();
        let limit = asked
            .parameter("limit")
            .parse()
            .unwrap_or(usize::MAX)
            .max(1);
        let token = asked.parameter("continue");
        let (revision, mut items) = match token {
            "" if asked.parameter("resourceVersion") == "0" && behind => {
                let then = world.revision() - world.revision() / 8;
                (then, world.list_at(resource, namespace, then))
            }
            "" => (world.revision(), world.list(resource, namespace)),
            token => world.pages.remove(token).ok_or(410_u16)?,
        };
        let rest = items.split_off(limit.min(items.len()));
        let mut meta = json!({"resourceVersion": revision.to_string()});
        if !rest.is_empty() {
            let next = format!(
                "p{}",
                world.pages.len() as u64 + 1000 * self.number + revision
            );
            meta["continue"] = next.as_str().into();
            meta["remainingItemCount"] = rest.len().into();
            world.pages.insert(next, (revision, rest));
        }
        let items: Vec<Value> = items.into_iter().map(|o| shown(o, asked)).collect();
        let (kind, version) = match asked.metadata_only {
            true => (
                "PartialObjectMetadataList".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            ),
            false => (format!("{}List", resource.kind), resource.api_version()),
        };
        Ok(json!({"kind": kind, "apiVersion": version, "metadata": meta, "items": items}))
    }

    fn discovery(&self, path: &str) -> Option<Value> {
        let world = self.shared.world.lock().unwrap();
        let served = || RESOURCES.iter().filter(|r| world.serves(r));
        match path {
            "/version" => Some(
                json!({"major": "1", "minor": "36", "gitVersion": "v1.36.1", "gitCommit": "", "gitTreeState": "clean",
                "buildDate": "2026-01-01T00:00:00Z", "goVersion": "", "compiler": "gc", "platform": "linux/amd64"}),
            ),
            "/api" => Some(
                json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
            ),
            "/apis" => {
                let mut groups: Vec<_> = served().filter(|r| !r.group.is_empty()).collect();
                groups.sort_by_key(|r| r.group);
                groups.dedup_by_key(|r| r.group);
                let groups = groups.into_iter().map(|r| {
                    let version = json!({"groupVersion": r.api_version(), "version": r.version});
                    json!({"name": r.group, "versions": [version], "preferredVersion": version})
                });
                Some(
                    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>()}),
                )
            }
            path => {
                let version = path.strip_prefix("/apis/").or(path.strip_prefix("/api/"))?;
                let of: Vec<Value> = served()
                    .filter(|r| r.api_version() == version)
                    .map(|r| {
                        json!({"name": r.plural, "singularName": r.kind.to_lowercase(), "namespaced": r.namespaced,
                            "kind": r.kind, "verbs": ["get", "list", "watch"]})
                    })
                    .collect();
                (!of.is_empty()).then(|| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": of}))
            }
        }
    }

    /// An answer of JSON, whole or not.
    async fn body(&mut self, body: &Value, mishap: Option<Mishap>) -> Result<(), Ended> {
        let mut text = body.to_string();
        match mishap {
            Some(Mishap::Short) => text.truncate(text.len() / 2),
            Some(Mishap::Garbage) => text = "<html>Bad gateway</html>".to_owned(),
            Some(Mishap::Nonsense) => text = r#"{"kind":"Lunch","items":7}"#.to_owned(),
            _ => {}
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        self.write(head.as_bytes()).await?;
        if let Some(Mishap::Cut(after)) = mishap {
            let part = &text.as_bytes()[..after.min(text.len() / 2)];
            self.write(part).await?;
            return Err(Ended);
        }
        // In pieces, so that a slow answer is slow in its midst too.
        for piece in text.as_bytes().chunks(text.len() / 2 + 1) {
            self.write(piece).await?;
        }
        Ok(())
    }

    /// A status as the API has it.
    pub(super) async fn status(&mut self, code: u16, after: Option<u32>) -> Result<(), Ended> {
        let text = status(code).to_string();
        let after = after.map_or(String::new(), |s| format!("Retry-After: {s}\r\n"));
        let head = format!(
            "HTTP/1.1 {code} Status\r\nContent-Type: application/json\r\n{after}Content-Length: {}\r\n\r\n",
            text.len()
        );
        self.write((head + &text).as_bytes()).await
    }
}

/// The status of a code.
pub(super) fn status(code: u16) -> Value {
    let reason = match code {
        404 => "NotFound",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": format!("told to say {code}"),
        "reason": reason, "code": code})
}

/// An object as it was asked for.
pub(super) fn shown(object: Value, asked: &Asked) -> Value {
    if !asked.metadata_only {
        return object;
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

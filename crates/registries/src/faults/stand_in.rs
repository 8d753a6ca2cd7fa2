//! A stand-in for a Consul within this process: what it has, and queries that wait for something newer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::model::State;

type Services = BTreeMap<usize, State>;

/// What it has, and what it had.
#[derive(Default)]
struct Log {
    now: Services,
    past: Vec<Services>,
    /// Until when it reads its log. So long it only knows some of it.
    replays: Option<Instant>,
}

/// How long a server reads its log.
const REPLAY: Duration = Duration::from_millis(300);

pub(super) struct StandIn {
    pub(super) port: u16,
    log: Arc<Mutex<Log>>,
    index: watch::Sender<u64>,
    listening: Option<AbortOnDropHandle<()>>,
}

impl StandIn {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            port: listener.local_addr().unwrap().port(),
            log: Arc::default(),
            index: watch::Sender::new(1),
            listening: None,
        }
    }

    pub(super) fn kill(&mut self) {
        self.listening = None;
    }

    pub(super) async fn launch(&mut self, wipe: bool) {
        let mut log = std::mem::take(&mut *self.log.lock().unwrap());
        log.replays = Some(Instant::now() + REPLAY);
        if wipe {
            log = Log::default();
            self.index = watch::Sender::new(1);
        }
        *self.log.lock().unwrap() = log;
        // The port of the one before may be busy for a moment.
        let bind = async || TcpListener::bind(("127.0.0.1", self.port)).await.ok();
        let listener = crate::backends::eventually(bind).await;
        let (log, index) = (self.log.clone(), self.index.subscribe());
        let listen = async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, log.clone(), index.clone()));
                while connections.try_join_next().is_some() {}
            }
        };
        self.listening = Some(AbortOnDropHandle::new(tokio::spawn(listen)));
    }

    pub(super) fn put(&self, service: usize, address: String, version: u32) {
        self.write(|now| _ = now.entry(service).or_default().insert(address, version));
    }

    pub(super) fn remove(&self, service: usize, address: &str) {
        self.write(|now| {
            if let Some(state) = now.get_mut(&service) {
                state.remove(address);
            }
            now.retain(|_, state| !state.is_empty());
        });
    }

    fn write(&self, change: impl FnOnce(&mut Services)) {
        let mut log = self.log.lock().unwrap();
        let before = log.now.clone();
        log.past.push(before);
        change(&mut log.now);
        self.index.send_modify(|index| *index += 1);
    }
}

impl Log {
    /// What a query gets, and whether that is all there is; none where it may only get all.
    fn answers(&self, is_consistent: bool) -> Option<(&Services, bool)> {
        match self.replays {
            Some(end) if end > Instant::now() => {
                let some = self.past.get(self.past.len() / 2);
                some.filter(|_| !is_consistent).map(|some| (some, false))
            }
            _ => Some((&self.now, true)),
        }
    }
}

async fn serve(
    mut socket: TcpStream,
    log: Arc<Mutex<Log>>,
    mut index: watch::Receiver<u64>,
) -> Option<()> {
    let mut said = Vec::new();
    loop {
        while !said.ends_with(b"\r\n\r\n") {
            let read = socket.read_buf(&mut said).await.ok()?;
            (read > 0).then_some(())?;
        }
        let head = String::from_utf8_lossy(&said).into_owned();
        said.clear();
        let target = head.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let since = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("index=")?.parse().ok());
        if let Some(since) = since {
            let newer = index.wait_for(|index| *index > since);
            let _ = tokio::time::timeout(Duration::from_secs(20), newer).await;
        }
        let newest = *index.borrow();
        let is_consistent = query.split('&').any(|word| word == "consistent");
        let (status, index, body) = match log.lock().unwrap().answers(is_consistent) {
            Some((services, true)) => (200, newest, answer(path, services)?),
            Some((services, false)) => (200, 1, answer(path, services)?),
            None => (500, 0, json!("not ready to serve consistent reads")),
        };
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nX-Consul-Index: {index}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(answer.as_bytes()).await.ok()?;
    }
}

fn answer(path: &str, services: &Services) -> Option<Value> {
    if path == "/v1/catalog/datacenters" {
        return Some(json!(["dc1"]));
    }
    if path == "/v1/catalog/services" {
        let names = services.keys().map(|n| (format!("s{n}"), json!([])));
        return Some(Value::Object(names.collect()));
    }
    let service = path.strip_prefix("/v1/health/service/s")?.parse().ok()?;
    let state = services.get(&service).into_iter().flatten();
    let instances = state.map(|(address, version)| {
        json!({"Service": {"Address": address, "Port": 80, "Meta": {"v": version.to_string()}}})
    });
    Some(Value::Array(instances.collect()))
}

//! A directory, hosts that answer what is kept in orders, and a keeper over a folder.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use model::ObjectName;
use model::certificate::PrivateKey;
use model::challenges::{Answer, answers};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use writeback::Place;

use crate::{
    Command, DnsHook, ExternalAccount, FolderPlace, Gateways, Keeper, Options, Roots, Row, State,
    Wanted, Wish,
};
use acme_directory::{Directory, Setting};

/// How long a test waits.
const PATIENCE: Duration = Duration::from_secs(40);

/// Proxies that have every answer at once, unless they are held.
#[derive(Default)]
pub(super) struct Served {
    held: AtomicBool,
    asked: AtomicUsize,
}

impl Served {
    pub(super) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Gateways for Served {
    fn ready<'a>(&'a self, _answers: &'a [Answer]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            while self.held.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
    }
}

pub(super) struct World {
    folder: TempDir,
    pub(super) directory: Directory,
    pub(super) gateways: Arc<Served>,
    /// Where hosts answer.
    pub(super) hosts: SocketAddr,
    /// What hosts answer in place of what they should.
    pub(super) wrong: Arc<Mutex<Option<String>>>,
    options: Options,
    ahead: Arc<AtomicU64>,
    wanted: watch::Sender<Arc<Wanted>>,
    place: Arc<dyn Place>,
    running: Option<Running>,
    responder: JoinHandle<()>,
}

struct Running {
    task: JoinHandle<()>,
    rows: watch::Receiver<Arc<[Row]>>,
    commands: mpsc::Sender<Command>,
}

impl World {
    pub(super) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut Setting)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs");
        let place: Arc<dyn Place> = Arc::new(FolderPlace::take(&path).unwrap());
        let wrong = Arc::new(Mutex::new(None));
        let (address, responder) = respond(path, wrong.clone()).await;
        let mut setting = Setting::new(address);
        change(&mut setting);
        let directory = Directory::start(setting).await;
        let ahead = Arc::new(AtomicU64::new(0));
        let of_clock = ahead.clone();
        let options = Options {
            directory: directory.url().as_str().into(),
            roots: Roots::new(None).unwrap(),
            external: None,
            dns: None,
            namespace: "edge".into(),
            is_foreign: Arc::new(|secret| secret.name.as_str() == "shadowed"),
            clock: Arc::new(move || {
                SystemTime::now() + Duration::from_secs(of_clock.load(Ordering::SeqCst))
            }),
        };
        let mut world = Self {
            folder,
            directory,
            gateways: Arc::default(),
            hosts: address,
            wrong,
            options,
            ahead,
            wanted: watch::Sender::new(Arc::default()),
            place,
            running: None,
            responder,
        };
        world.restart();
        world
    }

    /// Asks another directory from here on.
    pub(super) fn ask_elsewhere(&mut self, url: &str, roots: &Path) {
        self.options.directory = url.into();
        self.options.roots = Roots::new(Some(roots)).unwrap();
        self.restart();
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("certs")
    }

    /// Another place than the folder itself, for the next start.
    pub(super) fn over(&mut self, around: impl FnOnce(Arc<dyn Place>) -> Arc<dyn Place>) {
        self.place = around(self.place.clone());
    }

    /// Ends whoever keeps certificates, wherever it is.
    pub(super) async fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.task.abort();
            let _ = running.task.await;
        }
    }

    /// Starts another.
    pub(super) fn restart(&mut self) {
        if let Some(running) = self.running.take() {
            running.task.abort();
        }
        let (told, rows) = watch::channel(Arc::from([]));
        let (commands, asked) = mpsc::channel(4);
        let mut keeper = Keeper::new(
            self.place.clone(),
            self.options.clone(),
            self.gateways.clone(),
            self.wanted.subscribe(),
            asked,
            told,
            Arc::new(|_| {}),
        );
        let task = tokio::spawn(async move { keeper.run(&CancellationToken::new()).await });
        self.running = Some(Running {
            task,
            rows,
            commands,
        });
    }

    pub(super) fn want(&mut self, secret: &str, hosts: &[&str]) {
        let mut hosts: Vec<Arc<str>> = hosts.iter().map(|h| (*h).into()).collect();
        hosts.sort();
        let wish = Wish {
            hosts: hosts.into(),
            renew_before: Duration::from_secs(30 * 86_400),
        };
        self.wanted.send_modify(|wanted| {
            let mut all = Wanted::clone(wanted);
            all.certificates
                .insert(ObjectName::new("edge", secret), wish);
            *wanted = Arc::new(all);
        });
    }

    /// Lets time pass.
    pub(super) async fn advance(&mut self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
        self.wanted.send_modify(|_| {});
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    pub(super) fn rows(&self) -> Arc<[Row]> {
        self.running.as_ref().unwrap().rows.borrow().clone()
    }

    /// The row of a Secret, which is told a bit later than it is wanted.
    pub(super) fn row(&self, secret: &str) -> Row {
        let rows = self.rows();
        let row = rows.iter().find(|row| row.secret.name.as_str() == secret);
        row.cloned().unwrap_or_else(|| Row {
            hosts: Arc::from([]),
            secret: ObjectName::new("edge", secret),
            issuer: "".into(),
            state: State::Waiting,
            not_after: None,
            next: None,
            serial: None,
            error: None,
        })
    }

    /// The Secret as it is on disk.
    pub(super) fn secret(&self, name: &str) -> Option<Value> {
        let path = self.path().join(format!("edge.{name}.yaml"));
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while self.rows().is_empty() || !holds(self) {
            assert!(start.elapsed() < PATIENCE, "{:#?}", self.rows());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until all that is wanted is in a state.
    pub(super) async fn all(&self, state: State) {
        let wanted = self.wanted.borrow().certificates.len();
        self.until(|world| {
            let rows = world.rows();
            rows.len() == wanted && rows.iter().all(|row| row.state == state)
        })
        .await;
    }

    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<String, String>>) -> Command,
    ) -> Result<String, String> {
        let (answer, answered) = oneshot::channel();
        let commands = &self.running.as_ref().unwrap().commands;
        commands.send(command(answer)).await.unwrap();
        answered.await.unwrap()
    }

    pub(super) async fn revoke(&self, host: &str) -> Result<String, String> {
        self.ask(|answer| Command::Revoke(host.to_owned(), answer))
            .await
    }

    pub(super) async fn renew(&self, host: &str) -> Result<String, String> {
        self.ask(|answer| Command::Renew(host.to_owned(), answer))
            .await
    }

    /// A program that writes records into a file that the directory reads.
    pub(super) fn with_dns_hook(&mut self) -> PathBuf {
        let records = self.folder.path().join("records");
        std::fs::write(&records, "").unwrap();
        let program = self.folder.path().join("hook");
        let mut file = std::fs::File::create(&program).unwrap();
        let shown = records.display();
        write!(
            file,
            "#!/bin/sh\ncase \"$1\" in present) echo \"$3 $4\" >> {shown};; \
             cleanup) grep -v -- \"$4\" {shown} > {shown}.new; mv {shown}.new {shown};; esac\n"
        )
        .unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        file.set_permissions(mode).unwrap();
        drop(file);
        self.directory
            .set(|setting| setting.dns = Some(records.clone()));
        self.options.dns = Some(DnsHook::new(&program, Duration::from_secs(5)));
        self.restart();
        records
    }

    pub(super) fn bind(&mut self, id: &str, key: &[u8]) {
        self.options.external = Some(ExternalAccount {
            id: id.to_owned(),
            key: PrivateKey::from_pem(key),
        });
        self.restart();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.responder.abort();
        if let Some(running) = &self.running {
            running.task.abort();
        }
    }
}

/// The hosts that the certificate of a Secret names, sorted.
pub(super) fn hosts(secret: &Value) -> Vec<String> {
    let chain = STANDARD.decode(secret["data"]["tls.crt"].as_str().unwrap());
    let chain = String::from_utf8(chain.unwrap()).unwrap();
    let (.., mut hosts) = crate::chain::read(&chain).unwrap();
    hosts.sort();
    hosts
}

/// Hosts that answer what orders of a folder say, as gateways do.
async fn respond(
    folder: PathBuf,
    wrong: Arc<Mutex<Option<String>>>,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (folder, wrong) = (folder.clone(), wrong.clone());
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let instead = wrong.lock().unwrap().clone();
                let body = instead.or_else(|| answer(&folder, &head));
                let (status, body) = match body {
                    Some(body) => ("200 OK", body),
                    None => ("404 Not Found", String::new()),
                };
                let length = body.len();
                let page = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                let _ = stream.write_all(page.as_bytes()).await;
            });
        }
    });
    (address, task)
}

fn answer(folder: &Path, head: &str) -> Option<String> {
    let path = head.split_whitespace().nth(1)?;
    let token = path.strip_prefix(model::challenges::PATH)?;
    let host = head.lines().find_map(|line| line.strip_prefix("Host: "))?;
    let host = host.split(':').next()?;
    let files = std::fs::read_dir(folder).ok()?.flatten();
    let mut all = files.filter_map(|file| {
        let order: Value = serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok()?;
        let kept = order["data"][model::challenges::ANSWERS].as_str()?;
        Some(answers(&STANDARD.decode(kept).ok()?))
    });
    let found = all.find_map(|of_order| {
        let mut answers = of_order.into_iter();
        answers.find(|a| *a.token == *token && *a.host == *host)
    });
    found.map(|answer| answer.text.to_string())
}

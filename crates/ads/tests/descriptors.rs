//! A process that may open few files. A test of its own, for the limit is the process's.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use pilothouse_ads::server::{self, Incident, Join, Options, Server, Subscriber, Subscription};
use pilothouse_ads::{Code, Status};
use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct World {
    opened: AtomicUsize,
    refused: AtomicUsize,
    failed: AtomicUsize,
}

impl Subscriber for World {
    fn subscribe(&self, _: Join) -> BoxFuture<'static, Result<Subscription, Status>> {
        async { Err(Status::new(Code::Unavailable, "nothing to serve")) }.boxed()
    }

    fn on_incident(&self, incident: Incident) {
        let counter = match incident {
            Incident::ConnectionOpened => &self.opened,
            Incident::ConnectionRefused => &self.refused,
            Incident::AcceptFailed => &self.failed,
            _ => return,
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

fn limit_files(count: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(count as u64);
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn wait_for(what: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !what() {
        if began.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn connections_leave_files_for_others_and_none_left_is_no_end() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    limit_files(256);
    let world = Arc::<World>::default();
    let subscriber = Arc::clone(&world) as Arc<dyn Subscriber>;
    let _runtime = runtime.enter();
    let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    let options = Options {
        threads: 1,
        max_connections_per_address: usize::MAX,
        ..Options::default()
    };
    let before = open_files();
    let server = Arc::new(Server::new(subscriber, options).unwrap());
    let stop = CancellationToken::new();
    let serving = runtime.spawn(server::serve(
        futures::stream::iter([server::Door::Plaintext(listener)]),
        server,
        stop.clone(),
    ));

    // Both ends of a connection are here. With the server's end of each, more than there is room for.
    limit_files(1024);
    let clients: Vec<TcpStream> = (0..250).map(|_| TcpStream::connect(to).unwrap()).collect();
    let all = || world.opened.load(Ordering::SeqCst) + world.refused.load(Ordering::SeqCst);
    assert!(wait_for(|| all() == 250));
    let opened = world.opened.load(Ordering::SeqCst);
    // Sixty-four are kept, and what was open before.
    assert!(
        (256 - 64 - before - 12..=256 - 64 - before).contains(&opened),
        "{opened} connections beside {before} files"
    );
    assert_eq!(world.failed.load(Ordering::SeqCst), 0);
    drop(clients);

    // No file is left at all: the system refuses what is accepted.
    let idle = open_files;
    assert!(wait_for(|| idle() < before + 32), "{}", open_files());
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let before_failures = world.opened.load(Ordering::SeqCst);
    limit_files(256);
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!files.is_empty());
    socket.connect(&SocketAddr::into(to)).unwrap();
    assert!(wait_for(|| world.failed.load(Ordering::SeqCst) > 0));
    std::thread::sleep(Duration::from_millis(500));
    let failed = world.failed.load(Ordering::SeqCst);
    assert!(failed <= 20, "{failed} times in half a second: it spins");
    drop(files);
    assert!(
        wait_for(|| world.opened.load(Ordering::SeqCst) > before_failures),
        "it serves again"
    );
    stop.cancel();
    drop(socket);
    runtime.block_on(serving).unwrap();
}

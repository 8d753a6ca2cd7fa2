//! Servers of Wasm modules that send too much, send elsewhere without end, or say nothing.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::http2;
use crate::attack::{Attack, Outcome, Running, Target};
use crate::peer::Peer;
use crate::proto::{self, Node, Request};
use crate::server::Setup;
use crate::wire;

/// Modules.
pub(super) const MODULES: Attack = Attack {
    setup: Setup {
        environment: &[
            ("PILOTHOUSE_WASM_ALLOWED_CIDRS", "127.0.0.0/8"),
            ("WASM_INSECURE_REGISTRIES", "*"),
        ],
        ..Setup::PLAIN
    },
    // Two fetches of 16 MiB, each once more while it is unpacked.
    memory_mib: 160,
    cpu_s: 12.0,
    // On a machine that others use as well.
    stall: Duration::from_secs(30),
    ..Attack::new(
        "modules",
        "modules",
        "2,000 plugins of one namespace, whose modules have no end, are 1 GiB when they are unpacked, are elsewhere, or do not come; one more of another namespace",
        run,
    )
};

/// More connections than this at a time are not for one host.
const AT_ONCE: u64 = 2;
/// The smallest module that there is.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// How long the module of others may take meanwhile.
const PATIENCE: Duration = Duration::from_secs(45);

/// What servers saw.
#[derive(Default)]
struct Seen {
    asked: AtomicU64,
    open: AtomicU64,
    most: AtomicU64,
    honest: AtomicBool,
}

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let seen = Arc::<Seen>::default();
        let bad = TcpListener::bind("127.0.0.1:0").await?;
        // Another address is another host; another namespace is another tenant.
        let honest = TcpListener::bind("127.0.0.2:0").await?;
        let (from, good) = (bad.local_addr()?, honest.local_addr()?);
        let bomb = Arc::new(bomb()?);
        let counts = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = bad.accept().await {
                let (seen, bomb) = (Arc::clone(&counts), Arc::clone(&bomb));
                tokio::spawn(async move {
                    seen.asked.fetch_add(1, Ordering::Relaxed);
                    let now = seen.open.fetch_add(1, Ordering::Relaxed) + 1;
                    seen.most.fetch_max(now, Ordering::Relaxed);
                    let _ = answer(socket, &bomb).await;
                    seen.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        let counts = Arc::clone(&seen);
        let helping = tokio::spawn(async move {
            while let Ok((mut socket, _)) = honest.accept().await {
                let _ = socket.read(&mut [0; 2048]).await;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                    MODULE.len()
                );
                let _ = socket.write_all(head.as_bytes()).await;
                let _ = socket.write_all(MODULE).await;
                counts.honest.store(true, Ordering::Relaxed);
            }
        });
        let urls = [
            format!("http://{from}/endless"),
            format!("http://{from}/bomb"),
            format!("http://{from}/around"),
            format!("oci://{from}/layer"),
            format!("http://{from}/silent"),
        ];
        let all = target.many(2_000);
        let plugins = (0..all).fold(String::new(), |mut out, n| {
            let url = format!("{}/{n}", urls[n % urls.len()]);
            let _ = write!(out, "{}", plugin(&format!("bad{n}"), "n1", &url));
            out
        });
        let config = &target.places.config;
        fs::write(config.join("modules.yaml"), plugins)?;
        outcome.sent = all as u64;
        let _wants = asks_for_extensions(&target, "n1").await?;
        target.rest(Duration::from_secs(1)).await;
        let url = format!("http://{good}/module");
        fs::write(config.join("module.yaml"), plugin("good", "n2", &url))?;
        let _wants_too = asks_for_extensions(&target, "n2").await?;
        target.hold().await;
        // What is asked for one after the other may come a little later.
        let until = tokio::time::Instant::now() + PATIENCE;
        while !seen.honest.load(Ordering::Relaxed) && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        serving.abort();
        helping.abort();
        if seen.asked.load(Ordering::Relaxed) == 0 {
            outcome.broke("no module is asked for, so nothing was attacked");
        }
        if !seen.honest.load(Ordering::Relaxed) {
            outcome.broke("the module of another namespace is not fetched meanwhile");
        }
        let most = seen.most.load(Ordering::Relaxed);
        if most > AT_ONCE {
            outcome.broke(format!("one host is asked {most} times at once"));
        }
        fs::remove_file(config.join("modules.yaml"))?;
        fs::remove_file(config.join("module.yaml"))?;
        Ok(outcome)
    })
}

/// A plugin of Istio, whose filter may be missing.
fn plugin(name: &str, namespace: &str, url: &str) -> String {
    format!(
        "---\napiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{url: \"{url}\", failStrategy: FAIL_OPEN}}\n"
    )
}

/// An Envoy without an agent, for which modules are fetched.
async fn asks_for_extensions(target: &Target, namespace: &str) -> io::Result<Peer> {
    let mut peer = http2(target).await?;
    let mut node = Node::of(800_000, namespace, "modules");
    node.metadata
        .push(("PILOTHOUSE_CERTIFICATES".to_owned(), "ads".to_owned()));
    let node = node.encode();
    let stream = peer.call(&wire::ads()).await?;
    let request = Request {
        node: &node,
        ty: proto::EXTENSION,
        subscribe: &["*".to_owned()],
        ..Request::default()
    };
    peer.data(stream, &request.encode()).await?;
    Ok(peer)
}

/// 1 GiB of nothing, compressed.
fn bomb() -> io::Result<Vec<u8>> {
    use std::io::Write;
    const PART: usize = 4 << 20;
    let mut part = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    part.write_all(&vec![0; PART])?;
    // Parts behind each other are one stream.
    Ok(part.finish()?.repeat((1 << 30) / PART))
}

async fn answer(mut socket: TcpStream, bomb: &[u8]) -> io::Result<()> {
    let mut head = vec![0; 4096];
    let n = socket.read(&mut head).await?;
    let head = String::from_utf8_lossy(&head[..n]).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    if path.starts_with("/endless") || path.contains("/blobs/") {
        socket.write_all(format!("{ok}\r\n").as_bytes()).await?;
        loop {
            socket.write_all(&[b'x'; 1 << 16]).await?;
        }
    }
    if path.starts_with("/bomb") {
        let length = bomb.len();
        let head = format!("{ok}Content-Length: {length}\r\n\r\n");
        socket.write_all(head.as_bytes()).await?;
        return socket.write_all(bomb).await;
    }
    if path.starts_with("/around") {
        let elsewhere = format!(
            "HTTP/1.1 302 Found\r\nLocation: {path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        return socket.write_all(elsewhere.as_bytes()).await;
    }
    if path.contains("/manifests/") {
        let digest = format!("sha256:{}", "0".repeat(64));
        let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
        let manifest = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{digest}","size":2}},"layers":[{{"mediaType":"{layer}","digest":"{digest}","size":1024}}]}}"#
        );
        let head = format!(
            "{ok}Content-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: {}\r\n\r\n{manifest}",
            manifest.len()
        );
        return socket.write_all(head.as_bytes()).await;
    }
    if path.starts_with("/v2/") {
        return socket
            .write_all(format!("{ok}Content-Length: 0\r\n\r\n").as_bytes())
            .await;
    }
    // Until the other side has had enough.
    let _ = socket.read(&mut [0; 1]).await?;
    Ok(())
}

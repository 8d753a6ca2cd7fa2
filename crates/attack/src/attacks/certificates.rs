//! Very many certificates that are wanted, of a directory whose answers have no end.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::attack::{Attack, Outcome, Running, Target};
use crate::server::{Api, Setup};

/// Certificates.
pub(super) const CERTIFICATES: Attack = Attack {
    setup: Setup {
        api: Api::Local,
        environment: &[
            ("PILOTHOUSE_INGRESS_CLASSES", "higress"),
            // One that the store has: an account that cannot be kept is not asked for.
            ("PILOTHOUSE_INGRESS_NAMESPACE", "istio-system"),
            ("PILOTHOUSE_ACME_DIRECTORY", DIRECTORY),
        ],
        ..Setup::PLAIN
    },
    memory_mib: 96,
    cpu_s: 8.0,
    least: Duration::from_secs(8),
    // On a machine that others use as well.
    stall: Duration::from_secs(30),
    ..Attack::new(
        "endless-directory",
        "ACME",
        "certificates for 10,000 hosts are wanted of a directory whose answers have no end",
        run,
    )
};

/// It is stated when the server starts, so that its port is known before.
const DIRECTORY: &str = "http://127.66.6.7:14000/directory";
const ADDRESS: &str = "127.66.6.7:14000";
/// More of an answer than this is not read; what sockets hold on their way is most of it.
const LONGEST: u64 = 16 << 20;
/// More requests in a second than this are too many for a directory that answers nonsense.
const OFTEN: f64 = 20.0;

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let directory = TcpListener::bind(ADDRESS).await?;
        let (asked, longest) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let counts = (Arc::clone(&asked), Arc::clone(&longest));
        let serving = tokio::spawn(async move {
            while let Ok((mut socket, _)) = directory.accept().await {
                let (asked, longest) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
                tokio::spawn(async move {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let _ = socket.read(&mut [0; 4096]).await;
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{";
                    let mut sent = 0;
                    let mut part = head.as_bytes().to_vec();
                    // Blanks are no end of what began.
                    while socket.write_all(&part).await.is_ok() {
                        sent += part.len() as u64;
                        longest.fetch_max(sent, Ordering::Relaxed);
                        part = vec![b' '; 1 << 16];
                    }
                });
            }
        });
        let hosts = target.many(10_000);
        let mut map = String::from(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: higress-https, namespace: istio-system}\n\
             data:\n  cert: |\n    automaticHttps: true\n    acmeIssuer: [{name: letsencrypt, email: a@example.com}]\n    credentialConfig:\n",
        );
        for host in 0..hosts {
            let _ = writeln!(
                map,
                "    - {{domains: [h{host}.example.com], tlsIssuer: letsencrypt, tlsSecret: s{host}}}"
            );
        }
        let file = target.places.config.join("https.yaml");
        fs::write(&file, map)?;
        outcome.sent = hosts as u64;
        let start = tokio::time::Instant::now();
        target.hold().await;
        let seconds = start.elapsed().as_secs_f64();
        serving.abort();
        let asked = asked.load(Ordering::Relaxed);
        if asked == 0 {
            outcome.broke("the directory is not asked, so nothing was attacked");
        }
        if asked as f64 > OFTEN * seconds.max(1.0) {
            outcome.broke(format!(
                "the directory is asked {asked} times in {seconds:.0} s"
            ));
        }
        let longest = longest.load(Ordering::Relaxed);
        if longest > LONGEST {
            outcome.broke(format!("{longest} bytes of an answer are taken"));
        }
        fs::remove_file(file)?;
        Ok(outcome)
    })
}

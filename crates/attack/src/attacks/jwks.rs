//! Servers of keys that take requests and answer none.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::attack::{Attack, Outcome, Running, Scale, Target};
use crate::server::Setup;

/// M6.
pub(super) const JWKS_TARPIT: Attack = Attack {
    setup: Setup {
        environment: &[("PILOTHOUSE_JWKS_ALLOWED_CIDRS", "127.0.0.0/8")],
        ..Setup::PLAIN
    },
    ..Attack::new(
        "jwks-tarpit",
        "M6",
        "20 objects with keys at a server that never answers and a timeout of a day; one more, in another namespace, at a server that does",
        run,
    )
};

/// How long the keys of others may take meanwhile.
const PATIENCE: Duration = Duration::from_secs(45);

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let tarpit = TcpListener::bind("127.0.0.1:0").await?;
        // Another address is another host; another namespace is another tenant.
        let honest = TcpListener::bind("127.0.0.2:0").await?;
        let (slow, fast) = (tarpit.local_addr()?, honest.local_addr()?);
        let held = Arc::<AtomicU64>::default();
        let served = Arc::<AtomicU64>::default();
        let counts = (Arc::clone(&held), Arc::clone(&served));
        let sink = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((socket, _)) = tarpit.accept().await {
                counts.0.fetch_add(1, Ordering::Relaxed);
                open.push(socket);
            }
        });
        let answers = tokio::spawn(async move {
            while let Ok((mut socket, _)) = honest.accept().await {
                let _ = socket.read(&mut [0; 2048]).await;
                let keys = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{\"keys\":[]}";
                let _ = socket.write_all(keys.as_bytes()).await;
                counts.1.fetch_add(1, Ordering::Relaxed);
            }
        });
        let config = &target.places.config;
        let slow = (0..20).fold(String::new(), |mut out, n| {
            out += &policy(
                &format!("slow{n}"),
                "n0",
                &format!("http://{slow}/{n}"),
                "24h",
            );
            out
        });
        fs::write(config.join("tarpit.yaml"), slow)?;
        outcome.sent = 20;
        target.rest(Duration::from_secs(2)).await;
        fs::write(
            config.join("honest.yaml"),
            policy("fast", "n1", &format!("http://{fast}/keys"), "5s"),
        )?;
        match target.scale {
            Scale::Full => target.rest(PATIENCE).await,
            Scale::Short => target.hold().await,
        }
        // Where the guard lets neither be asked, nothing was held and nothing is promised.
        let (held_now, served) = (held.load(Ordering::Relaxed), served.load(Ordering::Relaxed));
        outcome.refused = 20_u64.saturating_sub(held_now);
        if held_now > 0 && served == 0 {
            outcome.broke("keys of an honest server are not fetched while others do not answer");
        }
        target.hold().await;
        sink.abort();
        answers.abort();
        fs::remove_file(config.join("tarpit.yaml"))?;
        fs::remove_file(config.join("honest.yaml"))?;
        Ok(outcome)
    })
}

fn policy(name: &str, namespace: &str, uri: &str, timeout: &str) -> String {
    let mut out =
        String::from("---\napiVersion: security.istio.io/v1\nkind: RequestAuthentication\n");
    let _ = write!(
        out,
        "metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{jwtRules: [{{issuer: {name}, jwksUri: \"{uri}\", timeout: {timeout}}}]}}\n"
    );
    out
}

//! The port for TLS before anybody has shown who he is: handshakes that do not end, that cost much, and that are none.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::attack::{Attack, Outcome, Round, Target};
use crate::peer::{ATTACKER, connect};
use crate::server::Setup;
use crate::wire;

const SECURE: Setup = Setup {
    secure: true,
    ..Setup::PLAIN
};

pub(super) const HALF_HANDSHAKES: Attack = Attack {
    setup: SECURE,
    least: Duration::from_secs(28),
    ..Attack::new(
        "half-handshakes",
        "slow TLS",
        "10,000 connections to the port for TLS that begin a handshake, or not even that",
        |target| Box::pin(half(target)),
    )
};

pub(super) const HANDSHAKE_FLOOD: Attack = Attack {
    setup: SECURE,
    // What a processor does in that time, at a low priority.
    cpu_s: 30.0,
    ..Attack::new(
        "handshake-flood",
        "CPU before authentication",
        "handshakes as fast as the server shakes hands",
        |target| Box::pin(flood(target, config(None))),
    )
};

pub(super) const CERTIFICATE_CHAINS: Attack = Attack {
    setup: SECURE,
    cpu_s: 30.0,
    ..Attack::new(
        "certificate-chains",
        "CPU before authentication",
        "client certificates with chains that are long, large, or lead everywhere",
        |target| Box::pin(chains(target)),
    )
};

pub(super) const TLS_GARBAGE: Attack = Attack {
    setup: SECURE,
    cpu_s: 10.0,
    ..Attack::new(
        "tls-garbage",
        "not TLS",
        "plain HTTP/2, noise, huge hellos and empty records on the port for TLS",
        |target| Box::pin(garbage(target)),
    )
};

pub(super) const KEY_UPDATES: Attack = Attack {
    setup: SECURE,
    cpu_s: 30.0,
    ..Attack::new(
        "key-updates",
        "renegotiation",
        "new keys for each frame that is sent, again and again",
        |target| Box::pin(key_updates(target)),
    )
};

/// How long a handshake may take, and a while for a busy server.
const DEADLINE: Duration = Duration::from_secs(26);
/// Connections at the same time.
const AT_ONCE: usize = 64;

/// Takes whatever a server shows.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn config(shown: Option<Shown>) -> anyhow::Result<TlsConnector> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    let mut config = match shown {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn shake(target: &Target, tls: &TlsConnector) -> io::Result<TlsStream<TcpStream>> {
    let socket = connect(target.secure, ATTACKER).await?;
    let name = ServerName::IpAddress(target.secure.ip().into());
    timeout(Duration::from_secs(10), tls.connect(name, socket)).await?
}

async fn half(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let start = Instant::now();
    let mut open = Vec::new();
    for n in 0..target.many(10_000) {
        outcome.sent += 1;
        let begun = async {
            let mut socket = connect(target.secure, ATTACKER).await?;
            if n % 2 == 0 {
                // The beginning of a hello.
                socket
                    .write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7])
                    .await?;
            }
            Ok::<_, io::Error>(socket)
        };
        match begun.await {
            Ok(socket) => open.push(socket),
            Err(_) => outcome.refused += 1,
        }
    }
    let took = start.elapsed();
    target.hold().await;
    let mut live = 0;
    for socket in &mut open {
        let read = timeout(Duration::from_millis(1), socket.read(&mut [0])).await;
        live += usize::from(read.is_err());
    }
    outcome.refused += (open.len() - live) as u64;
    if start.elapsed() > took + DEADLINE && live > 0 {
        let all = open.len();
        outcome.broke(format!(
            "{live} of {all} connections live without a handshake"
        ));
    }
    Ok(outcome)
}

/// Shakes hands again and again, many at once.
async fn flood(target: Arc<Target>, tls: anyhow::Result<TlsConnector>) -> anyhow::Result<Outcome> {
    let (mut outcome, tls) = (Outcome::default(), tls?);
    target
        .again(&mut outcome, |_| async {
            let shaking = (0..AT_ONCE).map(|_| {
                let (target, tls) = (Arc::clone(&target), tls.clone());
                tokio::spawn(async move { shake(&target, &tls).await.is_ok() })
            });
            let shaking: Vec<_> = shaking.collect();
            let mut refused = 0;
            for shaken in shaking {
                refused += u64::from(!shaken.await.unwrap_or_default());
            }
            Ok(Round {
                sent: AT_ONCE as u64,
                refused,
            })
        })
        .await;
    Ok(outcome)
}

async fn chains(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let connectors = [
        chain(8, 0)?,
        chain(8, 3_500)?,
        chain(100, 0)?,
        chain(2, 50_000)?,
    ];
    let connectors = connectors.map(|shown| config(Some(shown)));
    let connectors = connectors.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut got_in = 0;
    while target.goes_on() {
        let shaking = (0..AT_ONCE).map(|n| {
            let (target, tls) = (
                Arc::clone(&target),
                connectors[n % connectors.len()].clone(),
            );
            tokio::spawn(async move {
                let mut socket = shake(&target, &tls).await?;
                socket.write_all(&wire::hello(65_535)).await?;
                // In TLS 1.3 a client hears that it was refused when it reads.
                socket.read_exact(&mut [0; 9]).await.map(|_| ())
            })
        });
        let shaking: Vec<_> = shaking.collect();
        for shaken in shaking {
            outcome.sent += 1;
            match shaken.await {
                Ok(Ok(())) => got_in += 1,
                _ => outcome.refused += 1,
            }
        }
    }
    if got_in > 0 {
        outcome.broke(format!(
            "{got_in} connections got in with certificates of nobody"
        ));
    }
    Ok(outcome)
}

/// A certificate whose chain is as long as that, each link with so many octets more. All are named as the root of the server is,
/// so that every one of them may be what leads to it.
fn chain(links: usize, octets: usize) -> anyhow::Result<Shown> {
    let params = || {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "cluster.local");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if octets > 0 {
            let id = [1, 3, 6, 1, 4, 1, 99_999, 1];
            let more = CustomExtension::from_oid_content(&id, vec![4; octets]);
            params.custom_extensions = vec![more];
        }
        params
    };
    let key = || KeyPair::generate().context("no key");
    let issuer = CertifiedIssuer::self_signed(params(), key()?)?;
    let mut all = Vec::new();
    let own = key()?;
    let mut leaf = params();
    leaf.is_ca = IsCa::NoCa;
    all.push(leaf.signed_by(&own, &issuer)?.der().clone());
    for _ in 1..links {
        all.push(params().signed_by(&key()?, &issuer)?.der().clone());
    }
    Ok((all, PrivateKeyDer::Pkcs8(own.serialize_der().into())))
}

async fn garbage(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let noise: Vec<u8> = (0..20_000_u32).map(|n| (n * 97 % 251) as u8).collect();
    // A hello of 16 MB, in records that are full.
    let mut huge = Vec::new();
    for _ in 0..8 {
        huge.extend([22, 3, 1, 0x40, 0]);
        huge.extend([1, 0xff, 0xff, 0xff].iter().chain(&[3; 16_380]));
    }
    let kinds = [
        wire::hello(65_535),
        noise,
        huge,
        // Records of nothing, alerts, and changes of a cipher that there is not.
        [22, 3, 3, 0, 0].repeat(2_000),
        [21, 3, 3, 0, 2, 1, 0].repeat(2_000),
        [20, 3, 3, 0, 1, 1].repeat(2_000),
    ];
    let answered = AtomicUsize::new(0);
    target
        .again(&mut outcome, |n| {
            let (sent, target) = (kinds[n % kinds.len()].clone(), Arc::clone(&target));
            let answered = &answered;
            async move {
                let mut socket = connect(target.secure, ATTACKER).await?;
                // It may be closed before it has all.
                let _ = socket.write_all(&sent).await;
                let mut answer = Vec::new();
                let read = timeout(Duration::from_secs(5), socket.read_to_end(&mut answer));
                let ended = read.await.is_ok();
                answered.fetch_max(answer.len(), Ordering::Relaxed);
                Ok(Round {
                    sent: 1,
                    refused: u64::from(ended),
                })
            }
        })
        .await;
    let most = answered.into_inner();
    if most > 64 {
        outcome.broke(format!("{most} octets in answer to what is no TLS"));
    }
    Ok(outcome)
}

async fn key_updates(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let tls = config(None)?;
    target
        .again(&mut outcome, |_| async {
            let mut socket = shake(&target, &tls).await?;
            socket.write_all(&wire::hello(65_535)).await?;
            let ping = wire::frame(wire::PING, 0, 0, &[0; 8]);
            let mut sent = 0;
            while target.goes_on() {
                for _ in 0..24 {
                    let session = socket.get_mut().1;
                    session.refresh_traffic_keys().map_err(io::Error::other)?;
                    sent += 1;
                }
                if socket.write_all(&ping).await.is_err() || socket.flush().await.is_err() {
                    break;
                }
                // What comes back is read, so that the server can go on.
                let mut answer = [0; 4096];
                while let Ok(read) = timeout(Duration::ZERO, socket.read(&mut answer)).await {
                    if !read.is_ok_and(|count| count > 0) {
                        return Ok(Round { sent, refused: 1 });
                    }
                }
            }
            Ok(Round { sent, refused: 0 })
        })
        .await;
    Ok(outcome)
}

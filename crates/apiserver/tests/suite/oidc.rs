//! Tokens of a real issuer on a socket of its own: discovery, keys that rotate, and who is let in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use apiserver::access::Access;
use apiserver::access::oidc::{Oidc, Settings, TokenError};
use apiserver::pki::{Files, Given, server_names};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A key that signs, and what the issuer says of it.
enum Signer {
    Rsa(String, RsaKeyPair),
    Curve(String, EcdsaKeyPair),
}

impl Signer {
    fn rsa(id: &str) -> Self {
        Self::Rsa(
            id.to_owned(),
            RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
        )
    }

    fn curve(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self::Curve(id.to_owned(), pair)
    }

    fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(id, pair) => {
                let (n, e) = components(pair.public_key().as_ref());
                json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": id, "n": text(n), "e": text(e)})
            }
            Self::Curve(id, pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": text(&point[1..33]), "y": text(&point[33..])})
            }
        }
    }

    fn sign(&self, claims: &Value) -> String {
        let random = SystemRandom::new();
        let (algorithm, id) = match self {
            Self::Rsa(id, _) => ("RS256", id),
            Self::Curve(id, _) => ("ES256", id),
        };
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = json!({"alg": algorithm, "kid": id});
        let signed = format!("{}.{}", part(&head), part(claims));
        let signature = match self {
            Self::Rsa(_, pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &random,
                    signed.as_bytes(),
                    &mut signature,
                )
                .unwrap();
                signature
            }
            Self::Curve(_, pair) => {
                let signature = pair.sign(&random, signed.as_bytes()).unwrap();
                signature.as_ref().to_vec()
            }
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Modulus and exponent of an RSAPublicKey (RFC 8017, A.1.1): a sequence of two integers.
fn components(der: &[u8]) -> (&[u8], &[u8]) {
    let (_, body) = element(der);
    let (n, rest) = integer(body);
    let (e, _) = integer(rest);
    (n, e)
}

fn integer(der: &[u8]) -> (&[u8], &[u8]) {
    let (rest, value) = element(der);
    (value.strip_prefix(&[0]).unwrap_or(value), rest)
}

/// What is behind an element, and what is in it.
fn element(der: &[u8]) -> (&[u8], &[u8]) {
    let (head, length) = match der[1] {
        short @ 0..=0x7f => (2, usize::from(short)),
        0x81 => (3, usize::from(der[2])),
        _ => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
    };
    (&der[head + length..], &der[head..head + length])
}

/// An issuer that serves what it is told to.
struct Issuer {
    url: String,
    ca: PathBuf,
    keys: Arc<Mutex<Vec<Value>>>,
    _dir: tempfile::TempDir,
}

impl Issuer {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(dir.path());
        files
            .prepare(&server_names("127.0.0.1".parse().unwrap()))
            .unwrap();
        let tls = TlsAcceptor::from(files.server(&Given::default()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let url = format!("https://127.0.0.1:{}", address.port());
        let keys: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (shared, named) = (keys.clone(), url.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = tls.accept(stream).await else {
                    continue;
                };
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let body = if request.starts_with("GET /.well-known/openid-configuration ") {
                    json!({"issuer": named, "jwks_uri": format!("{named}/keys")})
                } else {
                    json!({"keys": *shared.lock().unwrap()})
                };
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all((head + &body).as_bytes()).await.unwrap();
                let _ = stream.shutdown().await;
            }
        });
        Self {
            url,
            ca: files.ca(),
            keys,
            _dir: dir,
        }
    }

    fn publish(&self, signers: &[&Signer]) {
        *self.keys.lock().unwrap() = signers.iter().map(|s| s.jwk()).collect();
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.url, "pilothouse");
        settings.username_prefix = Some("oidc:".to_owned());
        settings.groups_claim = Some("groups".to_owned());
        settings.algorithms = vec!["RS256".to_owned(), "ES256".to_owned()];
        settings.ca_file = Some(self.ca.clone());
        settings.refetch = Duration::ZERO;
        settings
    }

    fn claims(&self, seconds: i64) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let expires = i64::try_from(now.as_secs()).unwrap() + seconds;
        json!({"iss": self.url, "aud": "pilothouse", "sub": "ann", "groups": ["ops"], "exp": expires})
    }
}

#[tokio::test]
async fn tokens_of_the_issuer_name_users_and_their_groups() {
    let issuer = Issuer::start().await;
    let (rsa, curve) = (Signer::rsa("one"), Signer::curve("two"));
    issuer.publish(&[&rsa, &curve]);
    let access = Access::default().with_issuer(Oidc::new(issuer.settings()).unwrap());
    for signer in [&rsa, &curve] {
        let token = signer.sign(&issuer.claims(60));
        let who = access.authenticate(&token).await.unwrap();
        assert_eq!((&*who.name, &*who.groups[0]), ("oidc:ann", "ops"));
    }
    // What was signed cannot be said of others.
    let token = rsa.sign(&issuer.claims(60));
    let (head, rest) = token.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let mut claims = issuer.claims(60);
    claims["sub"] = "eve".into();
    let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
    let forged = format!("{head}.{claims}.{signature}");
    assert!(access.authenticate(&forged).await.is_err());
    assert!(access.authenticate("no token").await.is_err());
}

#[tokio::test]
async fn keys_may_rotate_and_be_withdrawn() {
    let issuer = Issuer::start().await;
    let (old, new) = (Signer::rsa("old"), Signer::curve("new"));
    issuer.publish(&[&old]);
    let oidc = Oidc::new(issuer.settings()).unwrap();
    let claims = issuer.claims(60);
    assert!(oidc.user_of(&old.sign(&claims)).await.is_ok());
    let early = oidc.user_of(&new.sign(&claims)).await;
    assert_eq!(early, Err(TokenError::Signature));
    issuer.publish(&[&new]);
    assert!(oidc.user_of(&new.sign(&claims)).await.is_ok());
    let withdrawn = oidc.user_of(&old.sign(&claims)).await;
    assert_eq!(withdrawn, Err(TokenError::Signature));
}

#[tokio::test]
async fn an_issuer_that_is_not_trusted_or_is_another_proves_nothing() {
    let issuer = Issuer::start().await;
    let key = Signer::curve("key");
    issuer.publish(&[&key]);
    let mut untrusting = issuer.settings();
    untrusting.ca_file = None;
    let oidc = Oidc::new(untrusting).unwrap();
    let found = oidc.user_of(&key.sign(&issuer.claims(60))).await;
    assert!(matches!(found, Err(TokenError::NoKeys(_))), "{found:?}");
    // The issuer does not call itself so.
    let mut other = issuer.settings();
    other.issuer = format!("{}/", issuer.url);
    let mut claims = issuer.claims(60);
    claims["iss"] = other.issuer.as_str().into();
    let oidc = Oidc::new(other).unwrap();
    let found = oidc.user_of(&key.sign(&claims)).await;
    assert!(matches!(found, Err(TokenError::NoKeys(_))), "{found:?}");
    let mut narrow = issuer.settings();
    narrow.algorithms = vec!["RS256".to_owned()];
    let oidc = Oidc::new(narrow).unwrap();
    let found = oidc.user_of(&key.sign(&issuer.claims(60))).await;
    assert_eq!(found, Err(TokenError::Algorithm("ES256".to_owned())));
    let oidc = Oidc::new(issuer.settings()).unwrap();
    let found = oidc.user_of(&key.sign(&issuer.claims(-120))).await;
    assert_eq!(found, Err(TokenError::Expired));
}

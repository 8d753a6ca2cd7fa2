//! RequestAuthentication at a gateway, with keys made here and fetched by the control plane.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use demo::check::nothing_refused;
use demo::shop::WORKLOADS;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::backend::{Backend, prompt};
use crate::policy::{answers, findings, policy};
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, all_to};

const ISSUER: &str = "https://issuer.example.com";

/// A key pair of an issuer.
struct Issuer(EcdsaKeyPair);

impl Issuer {
    fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    /// The public half.
    fn jwks(&self) -> String {
        // A byte for the form, then both coordinates.
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        let key =
            json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "x": base64(x), "y": base64(y)});
        json!({"keys": [key]}).to_string()
    }

    /// A token with these claims and those that every token has.
    fn token(&self, claims: Value) -> String {
        let mut all = json!({"iss": ISSUER, "sub": "jason", "exp": now() + 3600});
        for (key, value) in claims.as_object().unwrap() {
            all[key] = value.clone();
        }
        let head = base64(br#"{"alg":"ES256","typ":"JWT"}"#);
        let signed = format!("{head}.{}", base64(all.to_string().as_bytes()));
        let signature = self
            .0
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("Bearer {signed}.{}", base64(signature.as_ref()))
    }
}

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

/// Serves what stands in `keys`, until the test ends.
async fn serve(rig: &Rig, keys: Arc<Mutex<String>>) {
    let listener = TcpListener::bind(rig.address("127.0.20.91:8000")).await;
    let listener = listener.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let keys = keys.clone();
            let service = service_fn(move |_: Request<Incoming>| {
                let body = Bytes::from(keys.lock().unwrap().clone());
                async { Ok::<_, std::convert::Infallible>(Response::new(Full::new(body))) }
            });
            let http = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(http);
        }
    });
}

fn rules(keys: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\n\
         metadata: {{name: t, namespace: shop}}\n\
         spec:\n  selector: {{matchLabels: {{istio: ingressgateway}}}}\n\
         \x20 jwtRules: [{{issuer: '{ISSUER}', audiences: [shop], {keys}}}]\n"
    )
}

pub(crate) async fn a_valid_token_is_taken_and_an_invalid_one_refused(rig: Rig) {
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let served = Arc::new(Mutex::new(issuer.jwks()));
    serve(&rig, served.clone()).await;
    let _backend = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    let fetched = "jwksUri: 'http://127.0.20.91:8000/keys'";
    rig.write("tokens.yaml", &rules(fetched));
    // The last of the policies here is one that the API of a cluster would admit.
    let flags = vec![
        "--jwks-refresh-interval=1s".to_owned(),
        "--validation=warn".to_owned(),
        "--jwks-allowed-cidrs=127.0.0.0/8".to_owned(),
    ];
    let mesh = rig.gateway_with(flags).await;

    let good = issuer.token(json!({"aud": "shop"}));
    let status = async |token: &str| {
        let reply = rig.get_with("/", &[("authorization", token)]).await;
        reply.status
    };
    answers(&rig, "/", &[("authorization", &good)], 200).await;
    answers(&rig, "/", &[], 200).await;
    assert_eq!(status(&stranger.token(json!({"aud": "shop"}))).await, 401);
    let late = issuer.token(json!({"aud": "shop", "exp": now() - 3600}));
    assert_eq!(status(&late).await, 401);
    let other = issuer.token(json!({"aud": "elsewhere"}));
    assert_eq!(status(&other).await, 403);
    let claims = good.split('.').nth(1).unwrap();
    assert_eq!(status(&good.replace(claims, &claims[4..])).await, 401);

    // With a policy that asks for a principal, no token is no entry.
    let principals = format!(
        "action: ALLOW, rules: [{{from: [{{source: {{requestPrincipals: ['{ISSUER}/jason']}}}}]}}]"
    );
    rig.write("policy.yaml", &policy("", &principals));
    answers(&rig, "/", &[], 403).await;
    assert_eq!(status(&good).await, 200);
    let impostor = issuer.token(json!({"aud": "shop", "sub": "mallory"}));
    assert_eq!(status(&impostor).await, 403);

    // New keys come by themselves; an answer that is none changes nothing and is told of.
    *served.lock().unwrap() = stranger.jwks();
    let renewed = stranger.token(json!({"aud": "shop"}));
    answers(&rig, "/", &[("authorization", &renewed)], 200).await;
    assert_eq!(status(&good).await, 401);
    *served.lock().unwrap() = "<html>log in</html>".to_owned();
    until("the answer is told of", async || {
        let found = findings(&rig).await;
        found.iter().any(|f| f["code"] == "PIL0411")
    })
    .await;
    assert_eq!(status(&renewed).await, 200);

    // Without keys every token is refused.
    rig.write("tokens.yaml", &rules("jwks: 'no keys'"));
    answers(&rig, "/", &[("authorization", &renewed)], 401).await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

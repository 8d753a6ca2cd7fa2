//! A server of webhooks that answers what it is told to, and remembers what it was asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

#[derive(Default)]
struct State {
    /// By path.
    answers: HashMap<String, Value>,
    asked: Vec<(String, Value)>,
}

/// The server.
pub(crate) struct Hooks {
    pub(crate) address: SocketAddr,
    /// Its CA, as configurations have it.
    pub(crate) bundle: String,
    /// A CA that has issued nothing.
    pub(crate) other: String,
    state: Arc<Mutex<State>>,
}

impl Hooks {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (bundle, config) = certificates();
        let state = Arc::new(Mutex::new(State::default()));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), shared.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = hyper::service::service_fn(move |request| {
                        let state = state.clone();
                        async move { Ok::<_, Infallible>(answer(request, &state).await) }
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self {
            address,
            bundle,
            other: certificates().0,
            state,
        }
    }

    pub(crate) fn answer(&self, path: &str, answer: Value) {
        let mut state = self.state.lock().unwrap();
        state.answers.insert(path.to_owned(), answer);
    }

    /// What was asked of paths that begin like this, in order; each is told once.
    pub(crate) fn asked(&self, prefix: &str) -> Vec<(String, Value)> {
        let mut state = self.state.lock().unwrap();
        let all = std::mem::take(&mut state.asked);
        let (own, others) = all
            .into_iter()
            .partition(|(path, _)| path.starts_with(prefix));
        state.asked = others;
        own
    }
}

fn certificates() -> (String, ServerConfig) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "localhost", "hooks.default.svc"].map(str::to_owned);
    let leaf = CertificateParams::new(names.to_vec()).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    (STANDARD.encode(ca.pem()), config)
}

async fn answer(request: http::Request<Incoming>, state: &Mutex<State>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = {
        let mut state = state.lock().unwrap();
        state.asked.push((path.clone(), review.clone()));
        state.answers.get(&path).cloned().unwrap_or(json!({}))
    };
    if let Some(ms) = said["wait"].as_u64() {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    for (field, value) in said.as_object().into_iter().flatten() {
        match field.as_str() {
            "patch" if value.is_array() => {
                response["patch"] = STANDARD.encode(value.to_string()).into();
                response["patchType"] = "JSONPatch".into();
            }
            "wait" | "http" | "raw" | "review" | "type" => {}
            _ => response[field] = value.clone(),
        }
    }
    if let Some(map) = response.as_object_mut() {
        map.retain(|_, value| *value != "ABSENT");
    }
    let mut whole = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response});
    for (field, value) in said["review"].as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    let body = said["raw"]
        .as_str()
        .map_or(whole.to_string(), str::to_owned);
    let code = said["http"].as_u64().unwrap_or(200);
    let code = StatusCode::from_u16(u16::try_from(code).unwrap()).unwrap();
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = code;
    let kind = said["type"].as_str().unwrap_or("application/json");
    let headers = answer.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, kind.parse().unwrap());
    answer
}

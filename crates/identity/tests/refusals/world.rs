//! A control plane with every way in, over a store that judges tokens.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request};
use apiserver::audit::Audit;
use apiserver::store::{Keep, Store};
use fetch::jwks::Fetcher;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt;
use model::node::{Node, Role};
use pilothouse_identity::{
    Authenticator, Authenticators, Claimant, ClientCertificate, Clusters, Domains,
    ForwardedCertificates, IdTokens, KubernetesTokens, Observer, Reason, Refusal, ReviewError,
    Reviewed, Reviewer, TrustDomains,
};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use crate::certificate::Ca;
use crate::token::{ISSUER, Keys};

/// What was counted of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) refused: Vec<Reason>,
    pub(crate) asked: usize,
}

#[derive(Default)]
struct Counter {
    refused: Mutex<Vec<Reason>>,
    asked: AtomicUsize,
}

impl Observer for Counter {
    fn proven(&self, _: &'static str) {}

    fn refused(&self, refusal: &Refusal, claimant: &Claimant) {
        assert!(claimant.claims.len() <= 200 && claimant.claims.is_ascii());
        self.refused.lock().unwrap().push(refusal.reason);
    }
}

/// The clusters: our own store, and API servers that are of no use.
struct Cluster {
    api: Arc<Api>,
    counter: Arc<Counter>,
}

enum Judge {
    Store(Arc<Api>, Arc<Counter>),
    Silent,
    Answers(Reviewed),
}

impl Clusters for Cluster {
    fn reviewer(&self, cluster: &str) -> Option<Arc<dyn Reviewer>> {
        let user = "system:serviceaccount:shop:web".to_owned();
        Some(Arc::new(match cluster {
            "" | "Kubernetes" => Judge::Store(self.api.clone(), self.counter.clone()),
            "silent" => Judge::Silent,
            "old" => Judge::Answers(Reviewed {
                user,
                is_service_account: true,
                ..Reviewed::default()
            }),
            "users" => Judge::Answers(Reviewed {
                user,
                audiences: vec!["istio-ca".to_owned()],
                ..Reviewed::default()
            }),
            _ => return None,
        }))
    }
}

impl Reviewer for Judge {
    fn review<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        from: IpAddr,
    ) -> BoxFuture<'a, Result<Reviewed, ReviewError>> {
        match self {
            Self::Store(api, counter) => {
                counter.asked.fetch_add(1, Ordering::SeqCst);
                api.review(token, audiences, from)
            }
            Self::Silent => Box::pin(async { Err(ReviewError::Unavailable("silence".into())) }),
            Self::Answers(reviewed) => Box::pin(async { Ok(reviewed.clone()) }),
        }
    }
}

/// What a case shows.
pub(crate) struct Shown {
    pub(crate) peer: SocketAddr,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) headers: HeaderMap,
}

pub(crate) struct World {
    authenticators: Authenticators,
    /// The same without an API server that judges tokens.
    alone: Authenticators,
    api: Arc<Api>,
    counter: Arc<Counter>,
    ca: Ca,
    keys: Keys,
    token: Mutex<String>,
    _dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let store = Store::open(&data, Keep::default()).unwrap();
        let api = Api::start(
            store,
            Access::default(),
            Audit::default(),
            &["shop", "else"],
        );
        let api = api.await.unwrap();
        for account in ["web", "db"] {
            create(&api, &format!("serviceaccounts/{account}")).await;
        }
        // The first token makes the key.
        issued(&api, "web", None).await;
        let pem = std::fs::read_to_string(data.join("pki/sa.key")).unwrap();
        let keys = Keys::new(&pem);
        let counter = Arc::new(Counter::default());
        let of = |cluster| {
            let all = authenticators(&api, &counter, &keys, cluster);
            Authenticators::new(all, counter.clone())
        };
        Self {
            authenticators: of(true),
            alone: of(false),
            api,
            counter,
            ca: Ca::new(),
            keys,
            token: Mutex::default(),
            _dir: dir,
        }
    }

    /// What a case shows, if TLS takes its certificate. Counting begins anew.
    pub(crate) async fn shown(&self, case: &Value) -> Result<Shown, rustls::Error> {
        self.counter.refused.lock().unwrap().clear();
        self.counter.asked.store(0, Ordering::SeqCst);
        let account = case["account"].as_str().unwrap_or("web");
        let pod = case["pod"].as_str();
        create(&self.api, &format!("serviceaccounts/{account}")).await;
        if let Some(pod) = pod {
            create(&self.api, &format!("pods/{pod}")).await;
        }
        let mut token = String::new();
        let mut headers = HeaderMap::new();
        if !case["token"].is_null() {
            let issued = issued(&self.api, account, pod).await;
            token = self.keys.token(&case["token"], &issued);
            let value = format!("Bearer {token}").try_into().unwrap();
            headers.insert(http::header::AUTHORIZATION, value);
        }
        for (name, values) in case["headers"].as_object().into_iter().flatten() {
            let name = HeaderName::try_from(name).unwrap();
            headers.remove(&name);
            for value in values.as_array().unwrap() {
                let value = value.as_str().unwrap().replace("TOKEN", &token);
                headers.append(&name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
        }
        *self.token.lock().unwrap() = token;
        for step in case["before"].as_array().into_iter().flatten() {
            match (step["delete"].as_str(), step["create"].as_str()) {
                (Some(what), None) => {
                    let path = format!("/api/v1/namespaces/shop/{what}");
                    assert!(
                        ask(&self.api, Method::DELETE, &path, json!({})).await.0,
                        "{path}"
                    );
                }
                (None, Some(what)) => create(&self.api, what).await,
                _ => panic!("unknown step {step}"),
            }
        }
        let certificate = &case["certificate"];
        let certificates = match certificate.is_null() {
            true => Vec::new(),
            false => vec![self.ca.shown(certificate)?],
        };
        let peer: IpAddr = case["peer"].as_str().unwrap_or("10.0.0.1").parse().unwrap();
        Ok(Shown {
            peer: (peer, 4000).into(),
            certificates,
            headers,
        })
    }

    pub(crate) fn counted(&self) -> Counts {
        Counts {
            refused: self.counter.refused.lock().unwrap().clone(),
            asked: self.counter.asked.load(Ordering::SeqCst),
        }
    }

    /// Those that judge a case.
    pub(crate) fn authenticators(&self, case: &Value) -> &Authenticators {
        match case["cluster"] == false {
            true => &self.alone,
            false => &self.authenticators,
        }
    }

    /// The token of the last case.
    pub(crate) fn last_token(&self) -> String {
        self.token.lock().unwrap().clone()
    }
}

fn authenticators(
    api: &Arc<Api>,
    counter: &Arc<Counter>,
    keys: &Keys,
    cluster: bool,
) -> Vec<Box<dyn Authenticator>> {
    let domains = Domains::constant(TrustDomains {
        own: "mesh.test".into(),
        aliases: vec!["old.test".to_owned()],
    });
    let rule =
        json!({"issuer": ISSUER, "audiences": ["istio-ca"], "jwks": keys.of_rule().to_string()});
    let rule = rule.to_string().parse().unwrap();
    let clusters = Arc::new(Cluster {
        api: api.clone(),
        counter: counter.clone(),
    });
    let audiences = Arc::from(["istio-ca".to_owned()]);
    let fetcher = Fetcher::trusting(None).unwrap();
    let trusted = "10.9.0.0/16".parse().unwrap();
    let mut all: Vec<Box<dyn Authenticator>> = vec![
        Box::new(ClientCertificate::new(domains.clone())),
        Box::new(IdTokens::new(rule, fetcher, domains.clone())),
    ];
    if cluster {
        let tokens = KubernetesTokens::new(clusters, audiences, domains.clone());
        all.push(Box::new(tokens));
    }
    all.push(Box::new(ForwardedCertificates::new(trusted, domains)));
    all
}

/// The proxy that a case says it is.
pub(crate) fn node(case: &Value) -> Node {
    let of = |field: &str, usual: &str| case["node"][field].as_str().unwrap_or(usual).to_owned();
    let metadata = json!({"SERVICE_ACCOUNT": of("account", "web")});
    let Value::Object(metadata) = metadata else {
        panic!("it is an object");
    };
    Node {
        id: "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local".into(),
        role: Role::Sidecar,
        name: "web".into(),
        namespace: of("namespace", "shop").into(),
        dns_domain: "shop.svc.cluster.local".into(),
        addresses: Arc::from([]),
        labels: Default::default(),
        locality: Default::default(),
        network: "".into(),
        cluster: "".into(),
        service_cluster: "".into(),
        metadata: Arc::new(metadata),
        version: None,
        extensions: None,
        identity: None,
        envoy_version: None,
    }
}

async fn ask(api: &Arc<Api>, method: Method, path: &str, body: Value) -> (bool, Value) {
    let request = Request::new(method, path, Who::local());
    let request = request.with_body("application/json", body.to_string());
    let response = api.handle(request).await;
    let good = response.status().is_success() || response.status() == http::StatusCode::CONFLICT;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (good, serde_json::from_slice(&body).unwrap_or_default())
}

/// Makes what is not there.
async fn create(api: &Arc<Api>, what: &str) {
    let (plural, name) = what.split_once('/').unwrap();
    let mut object = json!({"metadata": {"name": name}});
    if plural == "pods" {
        object["spec"] = json!({"serviceAccountName": "web", "nodeName": "one", "containers": [{"name": "a", "image": "b"}]});
    }
    let path = format!("/api/v1/namespaces/shop/{plural}");
    let (good, answer) = ask(api, Method::POST, &path, object).await;
    assert!(good, "{what}: {answer}");
}

/// A token that the store issues.
async fn issued(api: &Arc<Api>, account: &str, pod: Option<&str>) -> String {
    let mut spec = json!({"audiences": ["istio-ca"]});
    if let Some(pod) = pod {
        spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": pod});
    }
    let path = format!("/api/v1/namespaces/shop/serviceaccounts/{account}/token");
    let (good, answer) = ask(api, Method::POST, &path, json!({"spec": spec})).await;
    assert!(good, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

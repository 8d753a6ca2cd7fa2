//! An ACME directory for tests: nonces, signatures, orders and challenges as RFC 8555 has them. It proves hosts by asking for
//! their tokens, at an address that the test names, and fails on demand.

mod issue;
mod jws;
mod prove;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use issue::Authority;
use jws::Signed;

/// What goes wrong with one request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The nonce is refused, although it is good.
    BadNonce,
    /// Too much is asked for; ask again after so many seconds.
    Limited(u64),
    /// The answer is no JSON.
    Garbage,
    /// The answer is larger than anybody reads.
    Oversize,
    /// The answer takes this long.
    Slow(Duration),
    /// An error without an explanation.
    Broken,
    /// The connection is closed.
    Closed,
    /// A certificate for another host.
    OtherHost,
}

/// How the directory is.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where the hosts are asked for their tokens.
    pub http: SocketAddr,
    /// A file with records of DNS, a name and a value on each line.
    pub dns: Option<PathBuf>,
    /// How long certificates are valid.
    pub life: Duration,
    /// The key that accounts have to be bound to, by name.
    pub external: Option<(String, Vec<u8>)>,
    /// How long looking at answers takes.
    pub looking: Duration,
}

impl Setting {
    /// Asks hosts at an address; certificates are valid for 90 days.
    pub fn new(http: SocketAddr) -> Self {
        Self {
            http,
            dns: None,
            life: Duration::from_secs(90 * 86_400),
            external: None,
            looking: Duration::ZERO,
        }
    }
}

/// What was asked of the directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Accounts made.
    pub accounts: usize,
    /// Orders made.
    pub orders: usize,
    /// Hosts proven.
    pub proven: usize,
    /// Hosts not proven.
    pub refused: usize,
    /// Certificates issued.
    pub issued: usize,
    /// Serial numbers of certificates revoked, in hexadecimal digits.
    pub revoked: BTreeSet<String>,
    /// Requests of any kind.
    pub requests: usize,
}

/// A directory that runs until it is dropped.
pub struct Directory {
    shared: Arc<Shared>,
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    base: String,
    authority: Authority,
    setting: Mutex<Setting>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    nonces: BTreeSet<String>,
    /// Public keys by the number of the account.
    accounts: BTreeMap<u64, Vec<u8>>,
    orders: BTreeMap<u64, Order>,
    hosts: BTreeMap<u64, Host>,
    faults: BTreeMap<&'static str, VecDeque<Fault>>,
    counts: Counts,
}

struct Order {
    account: u64,
    names: Vec<String>,
    hosts: Vec<u64>,
    chain: Option<String>,
    failed: Option<String>,
}

/// An authorization.
struct Host {
    account: u64,
    name: String,
    wildcard: bool,
    token: String,
    /// `pending`, `processing`, `valid` or `invalid`.
    status: &'static str,
    error: Option<String>,
}

type Page = Response<Full<Bytes>>;

impl Directory {
    /// Starts one on this machine.
    pub async fn start(setting: Setting) -> Self {
        Self::start_at(setting, "127.0.0.1:0").await
    }

    /// Starts one at an address.
    pub async fn start_at(setting: Setting, at: &str) -> Self {
        let listener = TcpListener::bind(at).await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            base: format!("http://{address}"),
            authority: Authority::new(),
            setting: Mutex::new(setting),
            state: Mutex::default(),
        });
        let serving = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = serving.clone();
                let service = hyper::service::service_fn(move |request| {
                    let shared = shared.clone();
                    async move { shared.answer(request).await }
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        Self {
            shared,
            address,
            task,
        }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}/directory", self.shared.base)
    }

    /// The root of its certificates, in PEM.
    pub fn root(&self) -> String {
        self.shared.authority.pem()
    }

    /// What was asked of it.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts.clone()
    }

    /// Changes how it is.
    pub fn set(&self, change: impl FnOnce(&mut Setting)) {
        let mut setting = self.shared.setting.lock();
        change(setting.as_mut().expect("nobody panics with it"));
    }

    /// Forgets every account, as a directory of tests that is started again.
    pub fn forget_accounts(&self) {
        self.shared.state().accounts.clear();
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has the next request of a kind go wrong: `directory`, `nonce`, `account`, `order` (a new one), `look` (at an order), `authz`,
    /// `challenge`, `finalize`, `certificate` or `revoke`.
    pub fn fail(&self, kind: &'static str, fault: Fault) {
        let mut state = self.shared.state();
        state.faults.entry(kind).or_default().push_back(fault);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A problem, as the type and what is said of it.
struct Problem(StatusCode, &'static str, String);

impl Problem {
    fn malformed(said: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, "malformed", said.into())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn setting(&self) -> Setting {
        let setting = self.setting.lock();
        setting.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn nonce(&self) -> String {
        let mut state = self.state();
        state.next += 1;
        let nonce = format!("nonce-{}", state.next);
        state.nonces.insert(nonce.clone());
        nonce
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Page, std::io::Error> {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let kind = match parts[..] {
            ["directory"] => "directory",
            ["nonce"] => "nonce",
            ["account"] => "account",
            ["order"] => "order",
            ["order", _] => "look",
            ["authz", _] => "authz",
            ["challenge", ..] => "challenge",
            ["finalize", _] => "finalize",
            ["certificate", _] => "certificate",
            ["revoke"] => "revoke",
            _ => "",
        };
        let fault = {
            let mut state = self.state();
            state.counts.requests += 1;
            state.faults.get_mut(kind).and_then(VecDeque::pop_front)
        };
        let mut other_host = false;
        match fault {
            None | Some(Fault::BadNonce) => {}
            Some(Fault::Limited(seconds)) => {
                let said = "too many requests".to_owned();
                let limited = Problem(StatusCode::TOO_MANY_REQUESTS, "rateLimited", said);
                let mut page = self.problem(limited);
                page.headers_mut().insert("retry-after", seconds.into());
                return Ok(page);
            }
            Some(Fault::Garbage) => return Ok(self.page(StatusCode::OK, "{\"status\": [", &[])),
            Some(Fault::Oversize) => {
                let much = " ".repeat(1 << 20);
                return Ok(self.page(StatusCode::OK, much, &[]));
            }
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            Some(Fault::Broken) => {
                let mut page = Response::new(Full::from("<html>bad gateway</html>"));
                *page.status_mut() = StatusCode::BAD_GATEWAY;
                return Ok(page);
            }
            Some(Fault::Closed) => return Err(std::io::Error::other("closed")),
            Some(Fault::OtherHost) => other_host = true,
        }
        let done = match (request.method(), &parts[..]) {
            (&Method::GET, ["directory"]) => Ok(self.directory()),
            (&Method::HEAD | &Method::GET, ["nonce"]) => Ok(self.page(StatusCode::OK, "", &[])),
            (&Method::POST, _) => {
                let refused = matches!(fault, Some(Fault::BadNonce));
                self.post(request, &path, &parts, refused, other_host).await
            }
            _ => Err(Problem(StatusCode::NOT_FOUND, "malformed", path.clone())),
        };
        Ok(done.unwrap_or_else(|problem| self.problem(problem)))
    }

    fn directory(&self) -> Page {
        let url = |part: &str| format!("{}/{part}", self.base);
        let external = self.setting().external.is_some();
        self.json(
            StatusCode::OK,
            &json!({
                "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order"),
                "revokeCert": url("revoke"), "keyChange": url("key"),
                "meta": {"externalAccountRequired": external},
            }),
            &[],
        )
    }

    async fn post(
        self: &Arc<Self>,
        request: Request<Incoming>,
        path: &str,
        parts: &[&str],
        refuse_nonce: bool,
        other_host: bool,
    ) -> Result<Page, Problem> {
        let body = Limited::new(request.into_body(), 1 << 20).collect().await;
        let body = body.map_err(|error| Problem::malformed(error.to_string()))?;
        let url = format!("{}{path}", self.base);
        let signed = self.verify(&body.to_bytes(), &url, refuse_nonce)?;
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        match parts {
            ["account"] => self.new_account(&signed),
            ["order"] => self.new_order(&signed),
            ["order", n] => self.look(number(n)),
            ["authz", n] => self.authorization(number(n)),
            ["challenge", n, kind] => self.challenge(number(n), kind),
            ["finalize", n] => self.finalize(number(n), &signed, other_host),
            ["certificate", n] => self.certificate(number(n)),
            ["revoke"] => self.revoke(&signed),
            _ => Err(Problem(StatusCode::NOT_FOUND, "malformed", path.to_owned())),
        }
    }

    fn new_account(&self, signed: &Signed) -> Result<Page, Problem> {
        let setting = self.setting();
        if let Some((id, key)) = &setting.external {
            jws::check_binding(
                &signed.payload["externalAccountBinding"],
                id,
                key,
                &signed.jwk,
            )?;
        }
        if signed.payload["termsOfServiceAgreed"] != true {
            let said = "the terms of service are not agreed to".to_owned();
            return Err(Problem(StatusCode::FORBIDDEN, "userActionRequired", said));
        }
        let mut state = self.state();
        let known = state.accounts.iter().find(|(_, key)| **key == signed.key);
        let number = match known {
            Some((number, _)) => *number,
            None => {
                state.next += 1;
                let number = state.next;
                state.accounts.insert(number, signed.key.clone());
                state.counts.accounts += 1;
                number
            }
        };
        drop(state);
        let url = format!("{}/accounts/{number}", self.base);
        let made = json!({"status": "valid"});
        Ok(self.json(StatusCode::CREATED, &made, &[("location", url)]))
    }

    fn new_order(&self, signed: &Signed) -> Result<Page, Problem> {
        let names = signed.payload["identifiers"]
            .as_array()
            .into_iter()
            .flatten();
        let names = names.filter_map(|n| Some(n["value"].as_str()?.to_owned()));
        let names: Vec<String> = names.collect();
        if names.is_empty() || names.len() > 100 {
            return Err(Problem::malformed("no identifiers, or too many"));
        }
        let mut state = self.state();
        state.counts.orders += 1;
        let mut hosts = Vec::new();
        for name in &names {
            state.next += 1;
            let number = state.next;
            let bare = name.strip_prefix("*.").unwrap_or(name);
            let host = Host {
                account: signed.account,
                name: bare.to_owned(),
                wildcard: bare != name,
                token: format!("token-{number}-{}", state.nonces.len()),
                status: "pending",
                error: None,
            };
            state.hosts.insert(number, host);
            hosts.push(number);
        }
        state.next += 1;
        let number = state.next;
        let order = Order {
            account: signed.account,
            names,
            hosts,
            chain: None,
            failed: None,
        };
        let shown = self.order(number, &order, &state);
        state.orders.insert(number, order);
        drop(state);
        let url = format!("{}/order/{number}", self.base);
        Ok(self.json(StatusCode::CREATED, &shown, &[("location", url)]))
    }

    fn order(&self, number: u64, order: &Order, state: &State) -> Value {
        let all = |status: &str| {
            let mut hosts = order.hosts.iter();
            hosts.all(|h| state.hosts.get(h).is_some_and(|h| h.status == status))
        };
        let any_invalid = order
            .hosts
            .iter()
            .any(|h| state.hosts.get(h).is_some_and(|h| h.status == "invalid"));
        let status = match () {
            () if order.chain.is_some() => "valid",
            () if any_invalid || order.failed.is_some() => "invalid",
            () if all("valid") => "ready",
            () => "pending",
        };
        let url = |part: &str, n: u64| format!("{}/{part}/{n}", self.base);
        let names = order.names.iter();
        let mut shown = json!({
            "status": status,
            "identifiers": names.map(|n| json!({"type": "dns", "value": n})).collect::<Vec<_>>(),
            "authorizations": order.hosts.iter().map(|h| url("authz", *h)).collect::<Vec<_>>(),
            "finalize": url("finalize", number),
        });
        if status == "valid" {
            shown["certificate"] = url("certificate", number).into();
        }
        if let Some(failed) = &order.failed {
            shown["error"] =
                json!({"type": "urn:ietf:params:acme:error:unauthorized", "detail": failed});
        }
        shown
    }

    fn look(&self, number: u64) -> Result<Page, Problem> {
        let state = self.state();
        let order = state.orders.get(&number);
        let order = order.ok_or_else(|| Problem::malformed("no such order"))?;
        let shown = self.order(number, order, &state);
        drop(state);
        Ok(self.json(StatusCode::OK, &shown, &[]))
    }

    fn authorization(&self, number: u64) -> Result<Page, Problem> {
        let state = self.state();
        let host = state.hosts.get(&number);
        let host = host.ok_or_else(|| Problem::malformed("no such authorization"))?;
        let kinds: &[&str] = match host.wildcard {
            true => &["dns-01"],
            false => &["http-01", "dns-01", "tls-alpn-01"],
        };
        let challenges = kinds.iter().map(|kind| self.shown(number, host, kind));
        let status = match host.status {
            "processing" => "pending",
            status => status,
        };
        let mut shown = json!({
            "identifier": {"type": "dns", "value": host.name},
            "status": status,
            "challenges": challenges.collect::<Vec<_>>(),
        });
        if host.wildcard {
            shown["wildcard"] = true.into();
        }
        drop(state);
        Ok(self.json(StatusCode::OK, &shown, &[]))
    }

    fn shown(&self, number: u64, host: &Host, kind: &str) -> Value {
        let mut shown = json!({
            "type": kind,
            "url": format!("{}/challenge/{number}/{kind}", self.base),
            "token": host.token,
            "status": host.status,
        });
        if let Some(error) = &host.error {
            shown["error"] =
                json!({"type": "urn:ietf:params:acme:error:unauthorized", "detail": error});
        }
        shown
    }

    fn certificate(&self, number: u64) -> Result<Page, Problem> {
        let state = self.state();
        let chain = state.orders.get(&number).and_then(|o| o.chain.clone());
        drop(state);
        let chain = chain.ok_or_else(|| Problem::malformed("no certificate"))?;
        let mut page = self.page(StatusCode::OK, chain, &[]);
        let of_type = http::HeaderValue::from_static("application/pem-certificate-chain");
        page.headers_mut().insert("content-type", of_type);
        Ok(page)
    }

    fn problem(&self, Problem(status, kind, said): Problem) -> Page {
        let kind = format!("urn:ietf:params:acme:error:{kind}");
        let shown = json!({"type": kind, "detail": said, "status": status.as_u16()});
        let mut page = self.json(status, &shown, &[]);
        let of_type = http::HeaderValue::from_static("application/problem+json");
        page.headers_mut().insert("content-type", of_type);
        page
    }

    fn json(&self, status: StatusCode, value: &Value, headers: &[(&'static str, String)]) -> Page {
        self.page(status, value.to_string(), headers)
    }

    fn page(
        &self,
        status: StatusCode,
        body: impl Into<Bytes>,
        headers: &[(&'static str, String)],
    ) -> Page {
        let mut response = Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .header("replay-nonce", self.nonce());
        for (name, value) in headers {
            response = response.header(*name, value);
        }
        let body = Full::new(body.into());
        response.body(body).expect("its headers are good")
    }
}

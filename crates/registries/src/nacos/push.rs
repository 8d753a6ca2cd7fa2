//! Reading a Nacos 2 or 3 over gRPC: services are listed from time to time, and each is subscribed to.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, MOST_SERVICES, Plan};
use super::channel::{CallError, Caller, Channel};
use super::credentials::{Credentials, Token};
use super::message::{self, Answer};
use super::names::Key;
use super::payload::Payload;
use super::{Options, PAGE};
use crate::outbox::Outbox;
use crate::report::Reports;
use crate::turns::End;

/// How many services are asked for at once. Each answer may be as large as is read.
const AT_ONCE: usize = 16;
/// How long nothing may come before the server is asked whether it is there.
const QUIET: Duration = Duration::from_secs(5);
/// How long a server may not know a connection that was just made.
const REGISTERING: Duration = Duration::from_secs(3);
/// How soon a list is read again that differed.
const AGAIN: Duration = Duration::from_secs(1);

/// What a call came to.
enum Done {
    Listed(Result<BTreeSet<Key>, CallError>),
    Followed(Key, Result<Answer, CallError>),
    Left,
    Healthy(Result<Answer, CallError>),
    Renewed(Result<Option<Token>, String>),
}

type Doing = Pin<Box<dyn Future<Output = Done> + Send>>;

/// A service that is to be subscribed to, or not any more.
struct Subscription {
    key: Key,
    is_wanted: bool,
}

/// One connection, until it ends.
pub(super) struct Session<'a> {
    options: &'a Arc<Options>,
    /// Where logins go.
    http: String,
    channel: Channel,
    token: Option<Token>,
    pub(super) catalog: Catalog,
    out: &'a mut Outbox,
    calls: FuturesUnordered<Doing>,
    subscriptions: VecDeque<Subscription>,
    list_at: Option<Instant>,
    check_at: Option<Instant>,
    renew_at: Option<Instant>,
}

impl<'a> Session<'a> {
    /// A session over a connection.
    pub(super) fn new(
        options: &'a Arc<Options>,
        http: String,
        channel: Channel,
        token: Option<Token>,
        out: &'a mut Outbox,
    ) -> Self {
        let now = Instant::now();
        Self {
            options,
            http,
            channel,
            renew_at: token.as_ref().map(|t| now + t.renew),
            token,
            catalog: Catalog::new(options.name_in_hosts()),
            out,
            calls: FuturesUnordered::new(),
            subscriptions: VecDeque::new(),
            list_at: Some(now),
            check_at: Some(now + QUIET),
        }
    }

    /// Reads until the connection ends, and says why it did.
    pub(super) async fn run(&mut self, to: &Reports, stop: &CancellationToken) -> End {
        tokio::select! {
            () = stop.cancelled() => return End::Stopped,
            known = registered(&self.channel.caller) => if let Err(error) = known {
                return lost(error);
            },
        }
        loop {
            self.subscribe();
            let timer = [self.list_at, self.check_at, self.renew_at];
            let timer = timer.into_iter().flatten().min();
            let next = tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                sent = self.out.send(to), if !self.out.is_empty() => match sent {
                    Ok(()) => continue,
                    Err(_) => return End::Stopped,
                },
                heard = self.channel.hear() => match heard {
                    Ok(message) => self.heard(&message),
                    Err(error) => Err(lost(error)),
                },
                Some(done) = self.calls.next() => self.done(done),
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {
                    self.due(Instant::now());
                    continue;
                }
            };
            if let Err(end) = next {
                return end;
            }
            if self.check_at.is_some() {
                self.check_at = Some(Instant::now() + QUIET);
            }
        }
    }

    /// Answers what the server asks.
    fn heard(&mut self, message: &Payload) -> Result<(), End> {
        let kind = message.kind();
        let request: message::Request = match message::read(message.json()) {
            Ok(request) => request,
            Err(error) => {
                // What it was about is not known; what was known before stays.
                tracing::warn!(
                    server = &*self.http,
                    kind,
                    error,
                    "A message of Nacos is not read."
                );
                return Ok(());
            }
        };
        let answer = match kind {
            "NotifySubscriberRequest" => "NotifySubscriberResponse",
            "ClientDetectionRequest" => "ClientDetectionResponse",
            "ConnectResetRequest" => "ConnectResetResponse",
            "SetupAckRequest" => "SetupAckResponse",
            _ => return Ok(()),
        };
        let id = request.request_id.as_deref().unwrap_or_default();
        let said = json!({"resultCode": 200, "errorCode": 0, "success": true, "requestId": id});
        self.channel.say(answer, &said).map_err(lost)?;
        if kind == "ConnectResetRequest" {
            return Err(End::Elsewhere(
                "the server asks to connect elsewhere".into(),
            ));
        }
        if let Some((key, instances)) = request.pushed() {
            self.catalog.pushed(&key, instances, self.out);
        }
        Ok(())
    }

    /// Takes in what a call came to.
    fn done(&mut self, done: Done) -> Result<(), End> {
        match done {
            Done::Listed(found) => {
                let Plan {
                    follow,
                    leave,
                    again,
                } = self.catalog.listed(&found.map_err(lost)?, self.out);
                let wait = match (again, self.catalog.is_whole()) {
                    (false, _) => self.options.refresh,
                    (true, true) => AGAIN,
                    (true, false) => Duration::ZERO,
                };
                self.list_at = Some(Instant::now() + wait);
                let follow = follow.into_iter().map(|key| (key, true));
                let leave = leave.into_iter().map(|key| (key, false));
                let all = leave.chain(follow);
                self.subscriptions
                    .extend(all.map(|(key, is_wanted)| Subscription { key, is_wanted }));
            }
            Done::Followed(key, Ok(answer)) => match answer.service_info {
                Some(service) => self.catalog.answered(&key, service.hosts, self.out),
                None => self.catalog.refused(&key, self.out),
            },
            Done::Followed(key, Err(CallError::Refused(why))) => {
                tracing::warn!(server = &*self.http, service = key.grouped(), %why, "A service of Nacos is not read.");
                self.catalog.refused(&key, self.out);
            }
            Done::Followed(_, Err(error)) => return Err(lost(error)),
            // What is gone needs no answer; a connection that is of no use says so elsewhere too.
            Done::Left => {}
            Done::Healthy(result) => {
                result.map_err(lost)?;
                self.check_at = Some(Instant::now() + QUIET);
            }
            Done::Renewed(Ok(token)) => {
                self.renew_at = token.as_ref().map(|t| Instant::now() + t.renew);
                self.token = token;
            }
            Done::Renewed(Err(why)) => {
                // The token holds for a while, and when it does not, calls say so.
                tracing::warn!(
                    server = &*self.http,
                    why,
                    "The token of Nacos is not renewed yet."
                );
                self.renew_at = self.token.as_ref().map(|t| Instant::now() + t.again());
            }
        }
        Ok(())
    }

    /// Starts what is due.
    fn due(&mut self, now: Instant) {
        let is_due = |at: &mut Option<Instant>| at.take_if(|at| *at <= now).is_some();
        if is_due(&mut self.renew_at) {
            let (options, http) = (self.options.clone(), self.http.clone());
            let login = async move { Done::Renewed(options.credentials.login(&http).await) };
            self.calls.push(Box::pin(login));
        }
        if is_due(&mut self.check_at) {
            let (caller, proof) = (
                self.channel.caller.clone(),
                self.options.credentials.prove(self.token.as_ref(), None),
            );
            self.calls.push(Box::pin(async move {
                Done::Healthy(caller.call("HealthCheckRequest", &json!({}), &proof).await)
            }));
        }
        if is_due(&mut self.list_at) {
            let (caller, options) = (self.channel.caller.clone(), self.options.clone());
            let token = self.token.clone();
            self.calls.push(Box::pin(async move {
                Done::Listed(list(&caller, &options, token.as_ref()).await)
            }));
        }
    }

    /// Subscribes to what waits, not to all at once.
    fn subscribe(&mut self) {
        while self.calls.len() < AT_ONCE {
            let Some(Subscription { key, is_wanted }) = self.subscriptions.pop_front() else {
                return;
            };
            let credentials: &Credentials = &self.options.credentials;
            let proof = credentials.prove(self.token.as_ref(), Some(&key.grouped()));
            let said = json!({
                "namespace": self.options.namespace_id(),
                "serviceName": key.service,
                "groupName": key.group,
                "subscribe": is_wanted,
                "clusters": "",
            });
            let caller = self.channel.caller.clone();
            self.calls.push(Box::pin(async move {
                let answer = caller.call("SubscribeServiceRequest", &said, &proof).await;
                if is_wanted {
                    Done::Followed(key, answer)
                } else {
                    Done::Left
                }
            }));
        }
    }
}

fn lost(error: CallError) -> End {
    End::Lost(error.to_string().into())
}

/// Waits until the server knows the connection.
async fn registered(caller: &Caller) -> Result<(), CallError> {
    let ask = async {
        loop {
            let none = super::credentials::Proof::none();
            match caller.call("HealthCheckRequest", &json!({}), &none).await {
                Err(CallError::Unregistered) => sleep(Duration::from_millis(20)).await,
                answer => return answer.map(|_| ()),
            }
        }
    };
    timeout(REGISTERING, ask)
        .await
        .unwrap_or(Err(CallError::Unregistered))
}

/// All services of the groups, page by page.
async fn list(
    caller: &Caller,
    options: &Options,
    token: Option<&Token>,
) -> Result<BTreeSet<Key>, CallError> {
    let mut found = BTreeSet::new();
    for group in options.groups() {
        let mut last = Vec::new();
        for page in 1..=MOST_SERVICES / PAGE {
            let proof = options
                .credentials
                .prove(token, Some(&format!("{group}@@")));
            let said: Value = json!({
                "namespace": options.namespace_id(),
                "groupName": group,
                "serviceName": "",
                "pageNo": page,
                "pageSize": PAGE,
                "selector": "",
            });
            let answer = caller.call("ServiceListRequest", &said, &proof).await?;
            let names = answer.service_names;
            found.extend(names.iter().filter_map(|name| Key::read(name, &group)));
            // A server that does not know pages says the same again.
            if names.len() < PAGE || names == last || found.len() >= MOST_SERVICES {
                break;
            }
            last = names;
        }
    }
    Ok(found)
}

//! Reading a Nacos 1 over HTTP: services are listed, and each is asked for again and again.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, MOST_SERVICES};
use super::channel::Channel;
use super::credentials::{Token, escaped};
use super::message::{self, Page, ServiceInfo};
use super::names::Key;
use super::payload::LARGEST;
use super::{GRPC, Options, PAGE};
use crate::address::Address;
use crate::http::{Ask, Connection};
use crate::outbox::Outbox;
use crate::report::{Instance, Reports};
use crate::turns::End;

/// How often each service is asked for: how long servers say that an answer holds.
const ROUND: Duration = Duration::from_secs(10);

/// What a request came to.
enum Answer {
    Body(Bytes),
    /// There is an answer, and it is not what was asked for.
    Refused(String),
}

/// A server that is asked until it does not answer.
pub(super) struct Poll<'a> {
    options: &'a Options,
    server: &'a Address,
    connection: Connection,
    token: Option<Token>,
    renew_at: Option<Instant>,
    pub(super) catalog: Catalog,
    /// What each service was, as a hash.
    known: BTreeMap<Key, u64>,
}

impl<'a> Poll<'a> {
    /// Connects.
    pub(super) async fn open(
        options: &'a Options,
        server: &'a Address,
        token: Option<Token>,
    ) -> Result<Self, Arc<str>> {
        let connection = Connection::open(&server.authority()).await;
        Ok(Self {
            options,
            server,
            connection: connection.map_err(|e| Arc::from(e.to_string()))?,
            renew_at: token.as_ref().map(|t| Instant::now() + t.renew),
            token,
            catalog: Catalog::new(options.name_in_hosts()),
            known: BTreeMap::new(),
        })
    }

    /// Reads until the server does not answer, or answers over gRPC, and says which.
    pub(super) async fn run(
        &mut self,
        out: &mut Outbox,
        to: &Reports,
        stop: &CancellationToken,
    ) -> End {
        tokio::select! {
            () = stop.cancelled() => End::Stopped,
            end = self.rounds(out, to) => end,
        }
    }

    async fn rounds(&mut self, out: &mut Outbox, to: &Reports) -> End {
        let mut list_at = Instant::now();
        loop {
            let round_at = Instant::now() + ROUND;
            if let Err(why) = self.round(&mut list_at, out, to).await {
                return End::Lost(why.into());
            }
            loop {
                tokio::select! {
                    sent = out.send(to), if !out.is_empty() => if sent.is_err() {
                        return End::Stopped;
                    },
                    () = sleep_until(round_at.min(list_at)) => break,
                }
            }
            if let Some(grpc) = self.server.above(GRPC)
                && Channel::open(&grpc).await.is_ok()
            {
                return End::Elsewhere("the server answers over gRPC".into());
            }
        }
    }

    /// Asks for the list where it is due, and for each service.
    async fn round(
        &mut self,
        list_at: &mut Instant,
        out: &mut Outbox,
        to: &Reports,
    ) -> Result<(), String> {
        if self.renew_at.is_some_and(|at| at <= Instant::now()) {
            let server = self.server.authority();
            match self.options.credentials.login(&server).await {
                Ok(token) => {
                    self.renew_at = token.as_ref().map(|t| Instant::now() + t.renew);
                    self.token = token;
                }
                // It is tried again in the next round. The token holds for a while.
                Err(why) => {
                    tracing::warn!(server, why, "The token of Nacos is not renewed yet.");
                }
            }
        }
        while *list_at <= Instant::now() {
            let found = self.list().await?;
            let plan = self.catalog.listed(&found, out);
            self.known.retain(|key, _| !plan.leave.contains(key));
            if !plan.again || self.catalog.is_whole() {
                *list_at = Instant::now() + self.options.refresh;
            }
        }
        let keys: Vec<Key> = self.catalog.keys().cloned().collect();
        for key in keys {
            self.service(&key, out).await?;
            // Whoever takes reports need not wait for the end of the round.
            while !out.is_empty()
                && let Ok(room) = to.try_reserve()
            {
                if let Some(report) = out.pop() {
                    room.send(report);
                }
            }
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<BTreeSet<Key>, String> {
        let mut found = BTreeSet::new();
        for group in self.options.groups() {
            let mut last = Vec::new();
            for page in 1..=MOST_SERVICES / PAGE {
                let target = format!(
                    "/nacos/v1/ns/service/list?pageNo={page}&pageSize={PAGE}&groupName={}&namespaceId={}",
                    escaped(&group),
                    escaped(self.options.namespace_id()),
                );
                let names = match self.ask(target, &format!("{group}@@")).await? {
                    Answer::Body(body) => message::read::<Page>(&body)?.doms,
                    Answer::Refused(why) => return Err(why),
                };
                found.extend(names.iter().filter_map(|name| Key::read(name, &group)));
                if names.len() < PAGE || names == last || found.len() >= MOST_SERVICES {
                    break;
                }
                last = names;
            }
        }
        Ok(found)
    }

    async fn service(&mut self, key: &Key, out: &mut Outbox) -> Result<(), String> {
        let grouped = key.grouped();
        let target = format!(
            "/nacos/v1/ns/instance/list?serviceName={}&namespaceId={}",
            escaped(&grouped),
            escaped(self.options.namespace_id()),
        );
        let read = match self.ask(target, &grouped).await? {
            // An answer without a list is not an empty list.
            Answer::Body(body) if has_hosts(&body) => message::read::<ServiceInfo>(&body),
            Answer::Body(_) => Err("an answer without instances".to_owned()),
            Answer::Refused(why) => Err(why),
        };
        match read {
            Ok(service) => {
                let now = hash(&service.hosts);
                if self.known.insert(key.clone(), now) != Some(now) {
                    self.catalog.pushed(key, service.hosts, out);
                }
            }
            Err(why) => {
                tracing::debug!(
                    server = self.server.authority(),
                    service = grouped,
                    why,
                    "A service of Nacos is not read."
                );
                self.catalog.refused(key, out);
            }
        }
        Ok(())
    }

    /// Asks, once more over another connection where this one was closed.
    async fn ask(&mut self, target: String, resource: &str) -> Result<Answer, String> {
        let proof = self
            .options
            .credentials
            .prove(self.token.as_ref(), Some(resource));
        let target = target + &proof.query();
        let ask = || Ask {
            target: &target,
            ..Ask::default()
        };
        let answer = match self.connection.ask(ask(), LARGEST).await {
            Ok(answer) => answer,
            Err(_) => {
                let again = Connection::open(&self.server.authority()).await;
                self.connection = again.map_err(|e| e.to_string())?;
                let answer = self.connection.ask(ask(), LARGEST).await;
                answer.map_err(|e| e.to_string())?
            }
        };
        match answer {
            (status, body) if status.is_success() => Ok(Answer::Body(body)),
            (status, _) if matches!(status.as_u16(), 401 | 403) => Err(format!(
                "{} refuses the credentials",
                self.server.authority()
            )),
            (status, _) => Ok(Answer::Refused(format!("HTTP status {}", status.as_u16()))),
        }
    }
}

fn has_hosts(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Hosts {
        hosts: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Hosts>(body).is_ok_and(|h| h.hosts.is_some())
}

/// Instances as a number. They come in any order.
fn hash(instances: &[Instance]) -> u64 {
    let each = instances.iter().map(|i| {
        let mut hasher = DefaultHasher::new();
        (
            &i.address,
            i.port,
            i.healthy,
            i.weight.to_bits(),
            &i.metadata,
        )
            .hash(&mut hasher);
        hasher.finish()
    });
    each.fold(instances.len() as u64, u64::wrapping_add)
}

//! Asking a Nacos for its documents about servers of MCP.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use model::outside::Outside;

use super::document::{self, Server, Version, Versions};
use super::{LARGEST, MOST, Reading};
use crate::address::Address;
use crate::http::{Ask, Connection};
use crate::nacos::credentials::{Proof, Token, escaped};
use crate::nacos::{Nacos, PAGE, message};
use crate::turns::Servers;

/// Which API answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Api {
    /// That of Nacos 3.
    New,
    /// That of Nacos 1 and 2.
    Old,
}

/// What a registry says.
#[derive(Default, PartialEq, Debug)]
pub(super) struct Listed {
    /// Servers by their ids.
    pub(super) servers: BTreeMap<Arc<str>, Server>,
    /// Those that are there and not served, and why.
    pub(super) refused: BTreeMap<Arc<str>, Arc<str>>,
    /// Those that are there and not meant to be served.
    pub(super) off: BTreeSet<Arc<str>>,
    /// Those of which nothing new is known: their documents were not read.
    pub(super) unknown: BTreeSet<Arc<str>>,
}

/// Asks the servers of a Nacos in turn, until one answers.
pub(super) async fn list(reading: &Reading) -> Result<Listed, String> {
    let nacos = Nacos::new(reading.nacos.clone());
    let mut last = "no servers are named".to_owned();
    for server in nacos.servers().await? {
        match Asking::of(reading, &server).await {
            Ok(listed) => return Ok(listed),
            Err(why) => last = why,
        }
    }
    Err(last)
}

/// What a request came to.
enum Answer {
    Body(Bytes),
    /// There is no such document, or no such API.
    Absent,
}

/// A server that is asked.
struct Asking<'a> {
    reading: &'a Reading,
    authority: String,
    connection: Connection,
    token: Option<Token>,
    api: Api,
}

impl<'a> Asking<'a> {
    async fn of(reading: &'a Reading, server: &Address) -> Result<Listed, String> {
        let authority = server.authority();
        let token = reading.nacos.credentials.login(&authority).await?;
        let connection = Connection::open(&authority).await;
        let mut asking = Self {
            reading,
            connection: connection.map_err(|e| e.to_string())?,
            authority,
            token,
            api: Api::New,
        };
        let ids = asking.ids().await?;
        let mut listed = Listed::default();
        let (mut names, mut objects) = (BTreeSet::new(), BTreeSet::new());
        for id in ids {
            match asking.server(&id).await? {
                Found::Server(server) if !asking.is_wanted(&server) => {
                    listed.off.insert(id);
                }
                Found::Server(server) => {
                    // The path is the name's, and the object is the id's in lower case.
                    let object = reading.making.name(&id);
                    if names.insert(server.name.clone()) && objects.insert(object) {
                        listed.servers.insert(id, server);
                    } else {
                        let why = format!(
                            "has the name {:?}, or the id, of another server",
                            server.name
                        );
                        listed.refused.insert(id, why.into());
                    }
                }
                Found::Off => {
                    listed.off.insert(id);
                }
                Found::Refused(why) => {
                    listed.refused.insert(id, why.into());
                }
                Found::Unread(why) => {
                    tracing::warn!(
                        server = &*asking.authority,
                        id = &*id,
                        why,
                        "A server of MCP in Nacos is not read."
                    );
                    listed.unknown.insert(id);
                }
            }
        }
        Ok(listed)
    }

    fn is_wanted(&self, server: &Server) -> bool {
        let only = self.reading.only.as_ref();
        only.is_none_or(|only| only.contains(&server.name))
    }

    /// The ids of all servers.
    async fn ids(&mut self) -> Result<BTreeSet<Arc<str>>, String> {
        let mut found = BTreeSet::new();
        let mut page = 1;
        while page <= MOST / PAGE {
            let body = match self.page(page).await? {
                Answer::Body(body) => body,
                Answer::Absent if self.api == Api::New => {
                    self.api = Api::Old;
                    continue;
                }
                Answer::Absent => return Err(format!("{} has no configuration", self.authority)),
            };
            let (count, ids) = document::page(&body)?;
            let before = found.len();
            found.extend(ids);
            if count < PAGE || found.len() == before || found.len() >= MOST {
                break;
            }
            page += 1;
        }
        while found.len() > MOST {
            found.pop_last();
        }
        Ok(found)
    }

    async fn page(&mut self, page: usize) -> Result<Answer, String> {
        let (pattern, group) = (escaped(document::PATTERN), escaped(document::VERSIONS));
        let namespace = self.reading.nacos.namespace_id();
        let target = match self.api {
            Api::New => format!(
                "/nacos/v3/admin/cs/config/list?search=blur&pageNo={page}&pageSize={PAGE}&dataId={pattern}&groupName={group}&namespaceId={}",
                escaped(namespace)
            ),
            Api::Old => format!(
                "/nacos/v1/cs/configs?search=blur&pageNo={page}&pageSize={PAGE}&dataId={pattern}&group={group}&tenant={}",
                escaped(tenant(namespace))
            ),
        };
        self.ask(target, document::VERSIONS).await
    }

    /// A document, where there is one.
    async fn document(&mut self, name: &str, group: &str) -> Result<Option<Vec<u8>>, String> {
        let namespace = self.reading.nacos.namespace_id();
        let (name, in_group) = (escaped(name), escaped(group));
        let target = match self.api {
            Api::New => format!(
                "/nacos/v3/client/cs/config?dataId={name}&groupName={in_group}&namespaceId={}",
                escaped(namespace)
            ),
            Api::Old => format!(
                "/nacos/v1/cs/configs?dataId={name}&group={in_group}&tenant={}",
                escaped(tenant(namespace))
            ),
        };
        let content = match (self.ask(target, group).await?, self.api) {
            (Answer::Absent, _) => return Ok(None),
            (Answer::Body(body), Api::Old) => body.into(),
            (Answer::Body(body), Api::New) => document::content(&body)?,
        };
        let text = Outside::new(String::from_utf8_lossy(&content).into_owned());
        Ok(Some(text.into_inner().into_bytes()))
    }

    async fn server(&mut self, id: &Arc<str>) -> Result<Found, String> {
        let Some(versions) = self
            .document(&document::of_versions(id), document::VERSIONS)
            .await?
        else {
            return Ok(Found::Unread("its document is gone".to_owned()));
        };
        let versions: Versions = match message::read(&versions) {
            Ok(versions) => versions,
            Err(why) => return Ok(Found::Unread(why)),
        };
        // What it is called stands in its list's name as well.
        let published = versions.published().filter(|(stated, _)| stated == id);
        let Some((_, version)) = published else {
            return Ok(Found::Off);
        };
        let name = document::of_version(id, &version);
        let Some(version) = self.document(&name, document::SERVERS).await? else {
            return Ok(Found::Unread(format!("there is no document {name}")));
        };
        let version: Version = match message::read(&version) {
            Ok(version) => version,
            Err(why) => return Ok(Found::Unread(why)),
        };
        let nacos = &self.reading.nacos;
        let server = version.server(nacos.namespace_id(), &nacos.groups());
        Ok(match server {
            None => Found::Off,
            Some(Ok(server)) => Found::Server(server),
            Some(Err(why)) => Found::Refused(why),
        })
    }

    /// Asks for something of a group, once more over another connection where this one was closed.
    async fn ask(&mut self, target: String, group: &str) -> Result<Answer, String> {
        let nacos = &self.reading.nacos;
        let target = target + &Proof::of(self.token.as_ref()).query();
        let signed = nacos.credentials.sign(tenant(nacos.namespace_id()), group);
        let headers: Vec<_> = signed.iter().map(|(k, v)| (k.clone(), &**v)).collect();
        let ask = || Ask {
            target: &target,
            headers: &headers,
            ..Ask::default()
        };
        let answer = match self.connection.ask(ask(), LARGEST).await {
            Ok(answer) => answer,
            Err(_) => {
                let again = Connection::open(&self.authority).await;
                self.connection = again.map_err(|e| e.to_string())?;
                let answer = self.connection.ask(ask(), LARGEST).await;
                answer.map_err(|e| e.to_string())?
            }
        };
        match answer {
            (status, body) if status.is_success() => Ok(Answer::Body(body)),
            (status, _) if matches!(status.as_u16(), 404 | 410 | 501) => Ok(Answer::Absent),
            (status, _) if matches!(status.as_u16(), 401 | 403) => {
                Err(format!("{} refuses the credentials", self.authority))
            }
            (status, _) => Err(format!("{} answers {}", self.authority, status.as_u16())),
        }
    }
}

/// What a server of MCP is found to be.
enum Found {
    Server(Server),
    /// It is not meant to be served.
    Off,
    Refused(String),
    /// Its documents cannot be read.
    Unread(String),
}

/// The public namespace has no name in the configuration of Nacos 1 and 2.
fn tenant(namespace: &str) -> &str {
    match namespace {
        "public" => "",
        other => other,
    }
}

//! Documents about servers of MCP, as Nacos keeps them in its configuration: which versions there are of one
//! (`ID-mcp-versions.json`), and what a version is (`ID-VERSION-mcp-server.json`).

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ENDPOINTS;
use crate::lenient::text;
use crate::nacos::message;

/// The group of documents about versions.
pub(super) const VERSIONS: &str = "mcp-server-versions";
/// The group of documents about a version.
pub(super) const SERVERS: &str = "mcp-server";
/// What the names of documents about versions end with.
const ENDING: &str = "-mcp-versions.json";
/// What the names of documents about versions are like.
pub(super) const PATTERN: &str = "*mcp-versions.json";
/// The longest id, version or name of a server.
const LONGEST: usize = 128;

/// A document about versions.
#[derive(Deserialize, Default, PartialEq, Debug)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Versions {
    #[serde(deserialize_with = "text")]
    id: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    front_protocol: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    latest_published_version: Option<Arc<str>>,
    enabled: Option<bool>,
}

impl Versions {
    /// The server of a document, where gateways are meant to serve it: what it is called, and the version that is published.
    pub(super) fn published(&self) -> Option<(Arc<str>, Arc<str>)> {
        let front = self.front_protocol.as_deref();
        let is_for_gateways = matches!(front, Some("mcp-sse" | "mcp-streamable"));
        let id = self.id.clone().filter(|id| is_word(id));
        let version = self.latest_published_version.clone();
        let version = version.filter(|version| is_word(version));
        let served = is_for_gateways && self.enabled != Some(false);
        id.zip(version).filter(|_| served)
    }
}

/// A document about a version of a server.
#[derive(Deserialize, Default, PartialEq, Debug)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Version {
    #[serde(deserialize_with = "text")]
    name: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    protocol: Option<Arc<str>>,
    enabled: Option<bool>,
    remote_server_config: Option<Remote>,
}

#[derive(Deserialize, Default, PartialEq, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Remote {
    service_ref: Option<ServiceRef>,
}

#[derive(Deserialize, Default, PartialEq, Debug)]
#[serde(rename_all = "camelCase", default)]
struct ServiceRef {
    #[serde(deserialize_with = "text")]
    namespace_id: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    group_name: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    service_name: Option<Arc<str>>,
}

/// How a server speaks MCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    /// By a stream of events.
    Events,
    /// By streamable HTTP.
    Streamable,
}

/// A server that is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Server {
    /// What it is called in paths.
    pub(super) name: Arc<str>,
    pub(super) transport: Transport,
    /// The group of its service.
    pub(super) group: Arc<str>,
    /// Its service.
    pub(super) service: Arc<str>,
}

impl Version {
    /// The server, where these groups of a namespace are read; otherwise why it is not served, as a sentence about it. `None`
    /// where it is off.
    pub(super) fn server(
        &self,
        namespace: &str,
        groups: &[Arc<str>],
    ) -> Option<Result<Server, String>> {
        if self.enabled == Some(false) {
            return None;
        }
        Some(self.read(namespace, groups))
    }

    fn read(&self, namespace: &str, groups: &[Arc<str>]) -> Result<Server, String> {
        let transport = match self.protocol.as_deref().unwrap_or_default() {
            "mcp-sse" => Transport::Events,
            "mcp-streamable" => Transport::Streamable,
            "http" | "https" => {
                let why = "speaks HTTP and not MCP: who answers in its place is a plugin of Higress, which is not made";
                return Err(why.to_owned());
            }
            other => return Err(format!("has the protocol {other:?}, which is not served")),
        };
        let name = self.name.clone().filter(|name| is_word(name));
        let name = name.ok_or("has no name that can stand in a path")?;
        let remote = self.remote_server_config.as_ref();
        let stated = remote.and_then(|remote| remote.service_ref.as_ref());
        let stated = stated.ok_or("names no service")?;
        let of = stated.namespace_id.as_deref().unwrap_or_default();
        if !of.is_empty() && of != namespace {
            return Err(format!(
                "names a service of the namespace {of:?}, which this registry does not read"
            ));
        }
        let part = |part: &Option<Arc<str>>| {
            let fits = |text: &&Arc<str>| {
                let is_word =
                    |c: char| !c.is_whitespace() && !c.is_control() && !"*/|,;%".contains(c);
                !text.is_empty() && text.len() <= 512 && text.chars().all(is_word)
            };
            part.as_ref().filter(fits).cloned()
        };
        let (group, service) = (part(&stated.group_name), part(&stated.service_name));
        let (group, service) = group.zip(service).ok_or("names no service")?;
        if !groups.contains(&group) {
            return Err(format!(
                "names a service of the group {group:?}, which is not among nacosGroups"
            ));
        }
        Ok(Server {
            name,
            transport,
            group,
            service,
        })
    }
}

/// The names of documents in a page of a list, of Nacos 1 and 2, and of Nacos 3.
#[derive(Deserialize, Default, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Page {
    page_items: Vec<Item>,
    data: Option<Items>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Items {
    page_items: Vec<Item>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(rename_all = "camelCase", default)]
struct Item {
    #[serde(deserialize_with = "text")]
    data_id: Option<Arc<str>>,
}

/// How many documents a page has, and the ids of servers among them.
pub(super) fn page(json: &[u8]) -> Result<(usize, Vec<Arc<str>>), String> {
    let page: Page = message::read(json)?;
    let items = page.data.map_or(page.page_items, |data| data.page_items);
    let count = items.len();
    let ids = items.into_iter().filter_map(|item| {
        let name = item.data_id?;
        let id: Arc<str> = name.strip_suffix(ENDING)?.into();
        is_word(&id).then_some(id)
    });
    Ok((count, ids.collect()))
}

/// The name of the document about the versions of a server.
pub(super) fn of_versions(id: &str) -> String {
    format!("{id}{ENDING}")
}

/// The name of the document about a version.
pub(super) fn of_version(id: &str, version: &str) -> String {
    format!("{id}-{version}-mcp-server.json")
}

/// What a document is in an answer of Nacos 3.
pub(super) fn content(json: &[u8]) -> Result<Vec<u8>, String> {
    #[derive(Deserialize)]
    struct Answer {
        data: Option<Data>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Data {
        Text(String),
        Object { content: String },
        Other(IgnoredAny),
    }
    match message::read::<Answer>(json)?.data {
        Some(Data::Text(text) | Data::Object { content: text }) => Ok(text.into_bytes()),
        Some(Data::Other(_)) | None => Err("an answer without a document".to_owned()),
    }
}

/// Whether a text can stand in paths, names of objects and names of documents.
fn is_word(text: &str) -> bool {
    let is_char = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let dots = text.bytes().all(|b| b == b'.');
    !dots && text.len() <= LONGEST && text.bytes().all(is_char)
}

/// What is read of octets as each kind of document: ids, versions and names, which stand in paths and in names of objects.
pub fn replay(octets: &[u8]) -> Vec<Arc<str>> {
    let mut words = Vec::new();
    if let Ok((_, ids)) = page(octets) {
        words.extend(ids);
    }
    let inner = content(octets).unwrap_or_default();
    for octets in [octets, &inner] {
        if let Ok(versions) = message::read::<Versions>(octets) {
            words.extend(versions.published().map(|(id, _)| id));
        }
        if let Ok(version) = message::read::<Version>(octets)
            && let Some(Ok(server)) = version.server("public", &[ENDPOINTS.into()])
        {
            words.push(server.name);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gateways_serve_is_published_and_on() {
        let of = |more: &str| {
            let json = format!(
                r#"{{"id":"a1","name":"n","frontProtocol":"mcp-sse","protocol":"http","latestPublishedVersion":"1.0.0"{more}}}"#
            );
            message::read::<Versions>(json.as_bytes())
                .unwrap()
                .published()
        };
        assert_eq!(of(""), Some(("a1".into(), "1.0.0".into())));
        assert!(
            of(r#","enabled":true,"versionDetails":[{"version":"1.0.0","is_latest":true}]"#)
                .is_some()
        );
        assert!(of(r#","enabled":false"#).is_none());
        for wrong in [
            r#"{"id":"a1","latestPublishedVersion":"1"}"#,
            r#"{"id":"a1","frontProtocol":"stdio","latestPublishedVersion":"1"}"#,
            r#"{"id":"a/1","frontProtocol":"mcp-sse","latestPublishedVersion":"1"}"#,
            r#"{"id":"..","frontProtocol":"mcp-sse","latestPublishedVersion":"1"}"#,
            r#"{"id":"a1","frontProtocol":"mcp-sse"}"#,
        ] {
            let read: Versions = message::read(wrong.as_bytes()).unwrap();
            assert_eq!(read.published(), None, "{wrong}");
        }
    }

    #[test]
    fn a_version_says_what_it_is_or_why_it_is_not_served() {
        let of = |protocol: &str, more: &str, reference: &str| {
            let json = format!(
                r#"{{"name":"maps","protocol":"{protocol}"{more},"remoteServerConfig":{{"serviceRef":{reference}}}}}"#
            );
            let groups = [ENDPOINTS.into(), "g".into()];
            message::read::<Version>(json.as_bytes())
                .unwrap()
                .server("public", &groups)
        };
        let service =
            r#"{"namespaceId":"public","groupName":"mcp-endpoints","serviceName":"maps"}"#;
        let wanted = Server {
            name: "maps".into(),
            transport: Transport::Events,
            group: "mcp-endpoints".into(),
            service: "maps".into(),
        };
        assert_eq!(of("mcp-sse", "", service), Some(Ok(wanted.clone())));
        assert_eq!(
            of("mcp-sse", r#","enabled":true"#, service),
            Some(Ok(wanted))
        );
        assert_eq!(of("mcp-sse", r#","enabled":false"#, service), None);
        let streamable = of("mcp-streamable", "", service).unwrap().unwrap();
        assert_eq!(streamable.transport, Transport::Streamable);
        for (protocol, service, why) in [
            ("http", service, "speaks HTTP"),
            ("https", service, "speaks HTTP"),
            ("stdio", service, "\"stdio\""),
            (
                "mcp-sse",
                r#"{"groupName":"h","serviceName":"a"}"#,
                "\"h\", which is not among nacosGroups",
            ),
            ("mcp-sse", "null", "names no service"),
            ("mcp-sse", r#"{"serviceName":"a"}"#, "names no service"),
            (
                "mcp-sse",
                r#"{"groupName":"g","serviceName":"a b"}"#,
                "names no service",
            ),
            (
                "mcp-sse",
                r#"{"namespaceId":"x","groupName":"g","serviceName":"a"}"#,
                "\"x\"",
            ),
        ] {
            let found = of(protocol, "", service).unwrap().unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn lists_and_documents_are_read_as_each_nacos_writes_them() {
        let old = br#"{"totalCount":2,"pageItems":[{"id":"1","dataId":"a-mcp-versions.json","content":"x"},{"dataId":"b.json"}]}"#;
        assert_eq!(page(old), Ok((2, vec!["a".into()])));
        let new = br#"{"code":0,"data":{"pageItems":[{"dataId":"a-mcp-versions.json"}]}}"#;
        assert_eq!(page(new), Ok((1, vec!["a".into()])));
        assert!(page(b"<html>").is_err());
        assert_eq!(content(br#"{"code":0,"data":"{}"}"#).unwrap(), b"{}");
        assert_eq!(
            content(br#"{"data":{"content":"{}","md5":"x"}}"#).unwrap(),
            b"{}"
        );
        assert!(content(br#"{"code":404,"data":null}"#).is_err());
        assert!(content(br#"{"data":[1]}"#).is_err());
    }
}

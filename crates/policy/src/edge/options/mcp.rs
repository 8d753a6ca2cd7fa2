//! The section `mcpServer`: servers of MCP inside of the gateway, and which requests are for others.
//!
//! Filters of Higress's Envoy do what it says ([`crate::edge::library_configs`]). No other Envoy has them: there what only they
//! can do is closed ([`closed`]).
//!
//! Higress: pkg/ingress/kube/configmap/mcp_server.go, 2.1. What its library refuses besides, so that proxies would keep what they
//! had before, is refused here: plugins/golang-filter/mcp-session/config.go and mcp-server/config.go, 2.1.

pub(crate) mod closed;

use std::collections::BTreeMap;

use incr::Cx;
use model::kinds::Kind;
use model::names::Namespace;
use model::object::ObjectName;
use model::redacted::Redacted;
use model::template::{Asker, Gateways, Mark, SecretRef};
use serde_json::Value;
use store::{Reads, Snapshot};

use super::fields::{Fields, Wrong};
use super::{CONFIG_MAP, KEY};

/// Ways to match a path.
const MATCHES: [&str; 5] = ["exact", "prefix", "suffix", "contains", "regex"];
/// Kinds of backends.
const UPSTREAMS: [&str; 3] = ["rest", SSE, STREAMABLE];
/// The kind of backends whose paths can be rewritten.
const SSE: &str = "sse";
/// Another that speaks MCP.
const STREAMABLE: &str = "streamable";

/// Servers of MCP.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct McpServers {
    /// Whether there are any.
    pub enable: bool,
    /// Where sessions are kept.
    pub redis: Option<Redis>,
    /// What is added to the paths of servers for events.
    pub sse_path_suffix: String,
    /// The servers inside of the gateway.
    pub servers: Vec<Server>,
    /// Which requests are for servers.
    pub match_list: Vec<MatchRule>,
    /// Whether users have servers of their own.
    pub enable_user_level_server: bool,
    /// How many requests are let through.
    pub rate_limit: Option<RateLimit>,
}

/// Where sessions are kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Redis {
    /// `host:port`.
    pub address: String,
    /// Who logs in.
    pub username: String,
    /// With which password, where that is stated.
    pub password: Redacted,
    /// The Secret that has it.
    pub password_secret: Option<SecretKey>,
    /// Which of its databases.
    pub db: u32,
}

/// A value of a Secret.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SecretKey {
    /// The Secret's namespace; that of the gateway where none is stated.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The name of the value.
    pub key: String,
}

/// A server inside of the gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// The path that it answers.
    pub path: String,
    /// What it is.
    pub kind: String,
    /// What it is told, as JSON by names: it may hold passwords.
    pub config: BTreeMap<String, Redacted>,
    /// The hosts that it answers.
    pub domain_list: Vec<String>,
}

/// Which requests are for servers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct MatchRule {
    /// Of which hosts.
    pub domain: String,
    /// For which paths.
    pub path: String,
    /// How the path is matched.
    pub path_match: String,
    /// What the backend is; `rest` where that is not stated.
    pub upstream: String,
    /// Whether the path is rewritten.
    pub rewrites: bool,
    /// To what.
    pub rewrite_prefix: String,
}

/// How many requests are let through.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RateLimit {
    /// So many.
    pub limit: u32,
    /// In so many seconds.
    pub window: u32,
    /// Who is not counted.
    pub white_list: Vec<String>,
}

impl McpServers {
    pub(super) fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let mut servers = Vec::new();
        for part in fields.parts("servers")? {
            servers.push(Server::read(part, unknown)?);
        }
        let mut match_list = Vec::new();
        for part in fields.parts("match_list")? {
            match_list.push(MatchRule::read(part, unknown)?);
        }
        let redis = fields.part("redis")?;
        let rate_limit = fields.part("rate_limit")?;
        let read = Self {
            enable: fields.flag("enable", false)?,
            redis: redis.map(|part| Redis::read(part, unknown)).transpose()?,
            sse_path_suffix: fields.text("sse_path_suffix")?,
            servers,
            match_list,
            enable_user_level_server: fields.flag("enable_user_level_server", false)?,
            rate_limit: rate_limit
                .map(|part| RateLimit::read(part, unknown))
                .transpose()?,
        };
        if read.enable_user_level_server && read.redis.is_none() {
            return Err(fields.wrong("redis", "is not stated: servers of users need it"));
        }
        fields.end(unknown);
        Ok(read)
    }

    /// What is wrong with the Secret that has the password.
    pub(super) fn no_password(&self, cx: &Cx<'_, Snapshot>) -> Option<Wrong> {
        let redis = self.redis.as_ref().filter(|_| self.enable)?;
        let mark = redis
            .password_secret
            .as_ref()?
            .mark(&cx.settings().features.edge_namespace)?;
        let wanted = mark.secret()?;
        let why = store::template::value(cx, wanted).err()?;
        let why = format!(
            "has no value, the key {:?} of Secret {}: {why}; until then nobody logs in",
            &*wanted.key, wanted.secret
        );
        Some(Wrong::new("mcpServer.redis.passwordSecret", why))
    }
}

impl Redis {
    fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let secret = match fields.part("passwordSecret")? {
            None => None,
            Some(part) => Some(SecretKey::read(part, unknown)?),
        };
        let read = Self {
            address: fields.text("address")?,
            username: fields.text("username")?,
            password: Redacted::new(fields.text("password")?),
            password_secret: secret,
            db: fields.number("db", 0, 0..=i32::MAX.unsigned_abs())?,
        };
        if read.address.is_empty() {
            return Err(fields.wrong("address", "is not stated"));
        }
        fields.end(unknown);
        Ok(read)
    }
}

impl SecretKey {
    fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let read = Self {
            namespace: fields.text("namespace")?,
            name: fields.text("name")?,
            key: fields.text("key")?,
        };
        for (name, stated) in [("name", &read.name), ("key", &read.key)] {
            if stated.is_empty() {
                return Err(fields.wrong(name, "is not stated"));
            }
        }
        if read.mark(&Namespace::from("default")).is_none() {
            let why = "cannot be named: a namespace and a name have lower-case letters, digits and dashes, a key may have dots";
            return Err(fields.wrong("name", why));
        }
        fields.end(unknown);
        Ok(read)
    }

    /// What gateways of a namespace ask for; `None` where nothing has such a name.
    fn mark(&self, asking: &Namespace) -> Option<Mark> {
        let asker = Asker {
            kind: Kind::ConfigMap,
            name: ObjectName::new(asking.clone(), CONFIG_MAP),
            path: format!("data.{KEY}").into(),
            gateways: Gateways::Edge,
        };
        let namespace = match &*self.namespace {
            "" => asking,
            stated => stated,
        };
        let stated = format!("{namespace}/{}.{}", self.name, self.key);
        let wanted = SecretRef {
            asking: asking.clone(),
            secret: ObjectName::new(namespace, &*self.name),
            key: self.key.as_str().into(),
        };
        Mark::field(&asker, &stated).filter(|mark| mark.secret() == Some(&wanted))
    }

    /// The text in whose place the value comes, for gateways of a namespace; `None` where no text names it.
    pub(crate) fn placeholder(&self, asking: &Namespace) -> Option<String> {
        self.mark(asking)?.sealed()
    }
}

impl Server {
    fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let config = match fields.value("config") {
            None => BTreeMap::new(),
            Some(Value::Object(map)) => {
                let entries = map.iter();
                entries
                    .map(|(name, value)| (name.clone(), Redacted::new(value.to_string())))
                    .collect()
            }
            Some(_) => return Err(fields.wrong("config", "is no map")),
        };
        let read = Self {
            name: fields.text("name")?,
            path: fields.text("path")?,
            kind: fields.text("type")?,
            config,
            domain_list: fields.texts("domain_list")?.unwrap_or_default(),
        };
        if !read.path.starts_with('/') {
            return Err(fields.wrong("path", "does not begin with a slash"));
        }
        if read.kind.is_empty() {
            return Err(fields.wrong("type", "is not stated"));
        }
        fields.end(unknown);
        Ok(read)
    }
}

impl MatchRule {
    fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let read = Self {
            domain: fields.text("match_rule_domain")?,
            path: fields.text("match_rule_path")?,
            path_match: fields.text("match_rule_type")?,
            upstream: fields.text("upstream_type")?,
            rewrites: fields.flag("enable_path_rewrite", false)?,
            rewrite_prefix: fields.text("path_rewrite_prefix")?,
        };
        let among = |names: &[&str]| format!("is none of {}", names.join(", "));
        if !MATCHES.contains(&&*read.path_match) {
            return Err(fields.wrong("match_rule_type", among(&MATCHES)));
        }
        if !read.upstream.is_empty() && !UPSTREAMS.contains(&&*read.upstream) {
            return Err(fields.wrong("upstream_type", among(&UPSTREAMS)));
        }
        if read.rewrites && read.upstream != SSE {
            let why = "is for backends of the type sse alone";
            return Err(fields.wrong("enable_path_rewrite", why));
        }
        if let Err(why) = closed::is_sound(&read) {
            let why = format!("cannot be compared with: {why}");
            return Err(fields.wrong("match_rule_path", why));
        }
        fields.end(unknown);
        Ok(read)
    }
}

impl RateLimit {
    fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let read = Self {
            limit: fields.number("limit", 0, 0..=u32::MAX)?,
            window: fields.number("window", 0, 0..=u32::MAX)?,
            white_list: fields.texts("white_list")?.unwrap_or_default(),
        };
        fields.end(unknown);
        Ok(read)
    }
}

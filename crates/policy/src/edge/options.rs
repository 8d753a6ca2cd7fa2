//! The options of gateways that serve Ingresses with annotations, as Higress has them in the ConfigMap `higress-config`.
//!
//! Each section is judged by itself. One that breaks a rule says what it said when it could be used last, which is an input
//! ([`EdgeDocuments`]): nothing here remembers. One that never could be used, or is not stated, says what it does by default.
//!
//! Higress: pkg/ingress/kube/configmap, 2.1, which refuses all of a document that breaks a rule.

mod connections;
mod fields;
mod gzip;
mod mcp;
mod tracing;

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::finding::{about, code};
use mesh::gateways::{GatewayKey, MergedGatewayOf};
use model::diagnostic::{Diagnostic, Severity};
use model::edge::EdgeDocuments;
use model::kinds::kube::ConfigMap;
use model::object::{Object, ObjectName, Origin};
use model::parse::{nearest, to_json};
use model::redacted::Redacted;
use model::settings::Features;
use serde_json::{Map, Value};
use store::{Reads, Snapshot};

use fields::{Fields, NAME, short};

pub use fields::Wrong;

pub use connections::{Downstream, Http2, Upstream};
pub use gzip::{EXTENSION as GZIP_EXTENSION, Gzip};
pub(crate) use mcp::closed;
pub use mcp::{MatchRule, McpServers, RateLimit, Redis, SecretKey, Server};
pub use tracing::{Collector, Tracing};

/// The name of the ConfigMap, in the namespace of the gateways.
pub const CONFIG_MAP: &str = "higress-config";
/// The key that options are under.
pub const KEY: &str = "higress";
/// The largest document that is read, in bytes. No API has a larger ConfigMap.
pub const LARGEST: usize = 1 << 20;
/// How much is told of why a text cannot be read.
const MOST_QUOTED: usize = 200;
/// How much is told of one document.
const MOST_FOUND: usize = 32;

/// The sections, by name.
const SECTIONS: [&str; 7] = [
    "tracing",
    "gzip",
    "downstream",
    "upstream",
    "addXRealIpHeader",
    "disableXEnvoyHeaders",
    "mcpServer",
];

/// What gateways of an edge do beside what routes say.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// Which requests are traced.
    pub tracing: Tracing,
    /// How answers are compressed.
    pub gzip: Gzip,
    /// Connections of clients.
    pub downstream: Downstream,
    /// Connections to backends.
    pub upstream: Upstream,
    /// Whether backends are told the address of clients outside in `x-real-ip`.
    pub adds_real_ip: bool,
    /// Whether routing adds no `x-envoy-` headers.
    pub hides_envoy_headers: bool,
    /// Servers of MCP.
    pub mcp_servers: McpServers,
}

/// What a document says.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Document {
    /// The options.
    pub options: Options,
    /// What is wrong, and how bad that is.
    pub found: Vec<(Severity, Wrong)>,
    /// What each section said when it could be used last, as JSON.
    pub good: BTreeMap<Arc<str>, Redacted>,
}

impl Document {
    /// Reads a document; `last` is what sections said when they could be used last.
    pub fn read(text: &str, last: &BTreeMap<Arc<str>, Redacted>) -> Self {
        let mut document = Self::default();
        let stated = match parse(text) {
            Ok(stated) => stated,
            Err(why) => {
                document.unreadable(&why, last);
                return document;
            }
        };
        for name in stated.keys() {
            if !SECTIONS.contains(&&**name) {
                let near = nearest(name, SECTIONS.iter().copied());
                document.tell(Severity::Warning, Wrong::unknown(short(name, NAME), near));
            }
        }
        for name in SECTIONS {
            let value = stated.get(name).filter(|value| !value.is_null());
            document.section(name, value, last.get(name));
        }
        document.told_in_bounds();
        document
    }

    /// What is said by a document that cannot be read.
    pub fn of_unreadable(why: &str, last: &BTreeMap<Arc<str>, Redacted>) -> Self {
        let mut document = Self::default();
        document.unreadable(why, last);
        document
    }

    fn unreadable(&mut self, why: &str, last: &BTreeMap<Arc<str>, Redacted>) {
        for name in SECTIONS {
            self.keep(name, last.get(name));
        }
        let why = short(why, MOST_QUOTED);
        let why = format!("cannot be read: {why}; every section keeps its last good value");
        self.tell(Severity::Error, Wrong::new("", why));
    }

    fn section(&mut self, name: &'static str, value: Option<&Value>, last: Option<&Redacted>) {
        let Some(value) = value else {
            return;
        };
        let mut unknown = Vec::new();
        match self.options.set(name, value, &mut unknown) {
            Ok(()) => {
                let good = Redacted::new(value.to_string());
                self.good.insert(name.into(), good);
            }
            Err(mut wrong) => {
                self.keep(name, last);
                let kept = match last {
                    Some(_) => "keeps its last good value",
                    None => "has its default, as it never was good",
                };
                wrong.why = format!("{}: the section {kept}", wrong.why);
                self.tell(Severity::Error, wrong);
            }
        }
        for unknown in unknown {
            self.tell(Severity::Warning, unknown);
        }
    }

    /// Sets a section to what it said last.
    fn keep(&mut self, name: &'static str, last: Option<&Redacted>) {
        let Some(last) = last else {
            return;
        };
        let value = serde_json::from_str::<Value>(last.reveal());
        let set = value.map(|value| self.options.set(name, &value, &mut Vec::new()));
        // What another version of this program took may be none any more.
        if matches!(set, Ok(Ok(()))) {
            self.good.insert(name.into(), last.clone());
        }
    }

    fn tell(&mut self, severity: Severity, what: Wrong) {
        self.found.push((severity, what));
    }

    fn told_in_bounds(&mut self) {
        // What is worse comes first.
        self.found
            .sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
        self.found.truncate(MOST_FOUND);
    }
}

impl Options {
    /// Sets a section; one that breaks a rule changes nothing.
    fn set(&mut self, name: &str, value: &Value, unknown: &mut Vec<Wrong>) -> Result<(), Wrong> {
        let fields = || Fields::of(name, value);
        let flag = || {
            let flag = value.as_bool();
            flag.ok_or_else(|| Wrong::new(name, "is neither true nor false"))
        };
        match name {
            "tracing" => self.tracing = Tracing::read(fields()?, unknown)?,
            "gzip" => self.gzip = Gzip::read(fields()?, unknown)?,
            "downstream" => self.downstream = Downstream::read(fields()?, unknown)?,
            "upstream" => self.upstream = Upstream::read(fields()?, unknown)?,
            "addXRealIpHeader" => self.adds_real_ip = flag()?,
            "disableXEnvoyHeaders" => self.hides_envoy_headers = flag()?,
            "mcpServer" => self.mcp_servers = McpServers::read(fields()?, unknown)?,
            _ => {}
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if text.len() > LARGEST {
        return Err(format!("it has {} bytes, more than {LARGEST}", text.len()));
    }
    match to_json(text).into_iter().next() {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(sections))) => Ok(sections),
        Some(Ok(_)) => Err("it is no map of sections".to_owned()),
        Some(Err(why)) => Err(why),
    }
}

/// The name of the ConfigMap with the options, where Ingresses with annotations are served.
pub fn config_map(features: &Features) -> Option<ObjectName> {
    let served = !features.edge_classes.is_empty() || !features.knative_classes.is_empty();
    served.then(|| ObjectName::new(features.edge_namespace.clone(), CONFIG_MAP))
}

/// Whether gateways have Higress's defaults where nothing states options: where a class of Higress's is served.
fn has_defaults(features: &Features) -> bool {
    let mut classes = features.edge_classes.iter();
    features.edge_dialect.as_str() == "higress" || classes.any(|c| matches!(&**c, "higress" | "*"))
}

/// The options of gateways of an edge, with what is wrong with what states them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EdgeOptions;

/// See [`EdgeOptions`].
#[derive(PartialEq, Debug, Default)]
pub struct Stated {
    /// The options; none where Envoy's and Istio's defaults are left alone.
    pub options: Option<Arc<Options>>,
    /// The ConfigMap that states them.
    pub object: Option<ObjectName>,
    /// What is wrong.
    pub found: Vec<Diagnostic>,
}

impl Query<Snapshot> for EdgeOptions {
    type Value = Stated;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Stated {
        let features = &cx.settings().features;
        let Some(name) = config_map(features) else {
            return Stated::default();
        };
        let beside = cx.edge_documents();
        if beside.file.is_some() {
            return of_file(cx, &beside);
        }
        let map = cx.get::<ConfigMap>(&name);
        let text = map.as_ref().and_then(|map| map.spec.data.get(KEY));
        let (Some(map), Some(text)) = (&map, text) else {
            return Stated {
                options: has_defaults(features).then(Arc::default),
                ..Stated::default()
            };
        };
        let mut document = Document::read(text, &beside.good);
        document.judge_password(cx);
        let found = document.findings(|severity, what| of_object(map, severity, what));
        Stated {
            options: Some(Arc::new(document.options)),
            object: Some(name),
            found,
        }
    }
}

impl Document {
    fn judge_password(&mut self, cx: &Cx<'_, Snapshot>) {
        let wrong = self.options.mcp_servers.no_password(cx);
        self.found.extend(wrong.map(|what| (Severity::Error, what)));
    }

    fn findings(&self, made: impl Fn(Severity, &Wrong) -> Diagnostic) -> Vec<Diagnostic> {
        let found = self.found.iter();
        found.map(|(how, what)| made(*how, what)).collect()
    }
}

fn of_object(map: &Object<ConfigMap>, severity: Severity, what: &Wrong) -> Diagnostic {
    let told = about(map, code::UNUSABLE_SECTION, severity, what.to_string());
    told.at(format!("data.{KEY}"))
}

fn of_file(cx: &Cx<'_, Snapshot>, beside: &EdgeDocuments) -> Stated {
    let Some(file) = &beside.file else {
        return Stated::default();
    };
    let mut document = match &file.text {
        Ok(text) => Document::read(text.reveal(), &beside.good),
        Err(why) => Document::of_unreadable(why, &beside.good),
    };
    document.judge_password(cx);
    let found = document.findings(|severity, what| {
        let mut told = Diagnostic::new(code::UNUSABLE_SECTION, severity, what.why.as_str());
        told.origin = Some(Origin::File {
            path: file.path.clone(),
            line: 1,
        });
        told.at(what.at.as_str())
    });
    Stated {
        options: Some(Arc::new(document.options)),
        object: None,
        found,
    }
}

/// The options of the proxies that serve these Gateways: none where no Gateway is of an edge.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OptionsOf(pub GatewayKey);

impl Query<Snapshot> for OptionsOf {
    type Value = Option<Arc<Options>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let merged = cx.query(&MergedGatewayOf(self.0.clone()));
        let edge = merged.as_ref().as_ref().is_some_and(|merged| merged.edge);
        cx.query(&EdgeOptions).options.clone().filter(|_| edge)
    }
}

#[cfg(test)]
mod tests;

//! What a request asks for.
//!
//! Path, verb and dry run are read once. Authorization, audit and handlers go by what was read, and never by the text, so
//! that they cannot understand it in different ways.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::access::{Verb, Who};
use crate::forward::Upgrade;
use crate::status::Failure;

/// The largest body that is read, as kube-apiserver's.
pub const LARGEST_BODY: usize = 3 << 20;

/// A request whose body was read and whose sender is known.
#[derive(Debug)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The path as it was sent. What it means is `target`.
    pub path: String,
    /// Where the path leads, or why nowhere.
    pub target: Result<Target, Failure>,
    /// The query.
    pub query: Query,
    /// `Accept`.
    pub accept: String,
    /// `Content-Type`.
    pub content_type: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub who: Who,
    /// The address it came from; none on the socket of the data folder.
    pub from: Option<IpAddr>,
    /// How the connection is to go on in another protocol, if it asks for that.
    pub upgrade: Option<Upgrade>,
}

impl Request {
    /// A request of somebody, for tests and for commands that work on the store of a folder.
    pub fn new(method: Method, uri: &str, who: Who) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        Self {
            method,
            target: Target::parse(path),
            path: path.to_owned(),
            query: Query::parse(query),
            accept: String::new(),
            content_type: "application/json".to_owned(),
            user_agent: "pilothouse".to_owned(),
            body: Bytes::new(),
            who,
            from: None,
            upgrade: None,
        }
    }

    /// With a body.
    pub fn with_body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.content_type = content_type.to_owned();
        self.body = body.into();
        self
    }

    /// The name of the program that asks, as managed fields record it.
    pub fn manager(&self) -> &str {
        match self.query.get("fieldManager") {
            "" => self.user_agent.split('/').next().unwrap_or_default(),
            manager => manager,
        }
    }

    /// What is to be done with objects; none where the path leads to no objects.
    ///
    /// # Errors
    ///
    /// When there is no such method.
    pub fn verb(&self) -> Option<Result<Verb, Failure>> {
        let Ok(Target::Object(object)) = &self.target else {
            return None;
        };
        let watch = self.query.flag("watch");
        let on_status = object.subresource.is_some();
        Some(Ok(match (self.method.as_str(), &object.name) {
            ("GET" | "HEAD", Some(_)) => Verb::Get,
            ("GET", None) if watch => Verb::Watch,
            ("GET" | "HEAD", None) => Verb::List,
            ("POST", None) => Verb::Create,
            ("PUT", Some(_)) => Verb::Update,
            ("PATCH", Some(_)) => Verb::Patch,
            ("DELETE", Some(_)) if !on_status => Verb::Delete,
            ("DELETE", None) => Verb::DeleteCollection,
            _ => return Some(Err(Failure::method_not_allowed())),
        }))
    }

    /// Whether nothing is to be written, by the query and by the body of a deletion.
    ///
    /// # Errors
    ///
    /// When it is said in words that mean nothing: to write all the same could be what was not wanted.
    pub fn dry_run(&self) -> Result<bool, Failure> {
        if matches!(self.method, Method::GET | Method::HEAD) {
            return Ok(false);
        }
        let mut said: Vec<String> = self.query.all("dryRun").map(str::to_owned).collect();
        if self.method == Method::DELETE && !self.body.is_empty() {
            match &super::read_delete_options(self)?["dryRun"] {
                serde_json::Value::Null => {}
                serde_json::Value::Array(all) => {
                    said.extend(all.iter().map(|v| match v.as_str() {
                        Some(text) => text.to_owned(),
                        None => v.to_string(),
                    }))
                }
                other => said.push(other.to_string()),
            }
        }
        match said.iter().find(|value| *value != "All") {
            None => Ok(!said.is_empty()),
            Some(other) => {
                let message =
                    format!("dryRun: Unsupported value: {other:?}: supported values: \"All\"");
                let code = StatusCode::UNPROCESSABLE_ENTITY;
                Err(Failure::new(code, "Invalid", message))
            }
        }
    }
}

/// The parameters of a query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part behind the question mark.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|p| !p.is_empty());
        let pairs = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter; empty where it is absent.
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Every value of a parameter.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let found = self.0.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }

    /// Whether a parameter is given.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Whether a parameter is set and not to `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.get(name), "false" | "0")
    }
}

/// Undoes the encoding of a query; what is no text becomes what stands for it.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = || {
            let mut ahead = rest.clone();
            let high = char::from(ahead.next()?).to_digit(16)?;
            let low = char::from(ahead.next()?).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        };
        match byte {
            b'%' => match escaped() {
                Some(value) => {
                    bytes.push(value);
                    rest.nth(1);
                }
                None => bytes.push(byte),
            },
            b'+' => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is asked of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Whether it lives: `/livez`, `/healthz`.
    Live,
    /// Whether it can read and write: `/readyz`.
    Ready,
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `/livez`, `/readyz`, `/healthz`.
    Health(Health),
    /// `/version`.
    Version,
    /// `/api`, `/apis` and the groups and versions below.
    Discovery(Vec<String>),
    /// `/openapi/v2`.
    OldOpenApi,
    /// `/openapi/v3` and what is below.
    OpenApi(Option<String>),
    /// `/.well-known/openid-configuration`: the issuer of tokens of service accounts.
    IssuerMetadata,
    /// `/openid/v1/jwks`: its keys.
    IssuerKeys,
    /// The ledger of the store.
    Ledger(String),
    /// Objects of a kind.
    Object(ObjectTarget),
}

/// A path to objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectTarget {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// The name of the kind in paths.
    pub plural: String,
    /// The namespace, where the path has one.
    pub namespace: Option<String>,
    /// The object, where the path has one.
    pub name: Option<String>,
    /// What is behind the object.
    pub subresource: Option<String>,
}

impl Target {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// When it leads nowhere, or is not written in the one way that is read: no empty segments, no `.` or `..`, and nothing
    /// escaped that needs no escape. A slash may end what leads to no objects, as some clients write it.
    pub fn parse(path: &str) -> Result<Self, Failure> {
        let not_canonical = || {
            Failure::bad_request(
                "the path is not canonical: it has empty segments, \".\", \"..\" or escapes that are not needed",
            )
        };
        let inner = path.strip_prefix('/').ok_or_else(not_canonical)?;
        let (inner, slash) = match inner.strip_suffix('/') {
            Some(inner) => (inner, true),
            None => (inner, false),
        };
        let mut parts = Vec::new();
        for part in inner.split('/').filter(|_| !inner.is_empty()) {
            parts.push(segment(part).ok_or_else(not_canonical)?);
        }
        if parts.iter().any(|p| p.contains(['\0', '/'])) {
            return Err(Failure::no_path());
        }
        let target = Self::of(parts)?;
        match target {
            Self::Object(_) | Self::Ledger(_) if slash => Err(not_canonical()),
            _ => Ok(target),
        }
    }

    /// Whether it is for everybody, whoever they are.
    pub fn is_open(&self) -> bool {
        matches!(
            self,
            Self::Health(_) | Self::Version | Self::IssuerMetadata | Self::IssuerKeys
        )
    }

    /// The one way to write the path to objects or to the ledger; none for what leads elsewhere.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::Ledger(what) => Some(format!("/pilothouse/{}", escape(what))),
            Self::Object(object) => Some(object.path()),
            _ => None,
        }
    }

    fn of(parts: Vec<String>) -> Result<Self, Failure> {
        let words: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["livez" | "healthz", ..] => Self::Health(Health::Live),
            ["readyz", ..] => Self::Health(Health::Ready),
            ["version"] => Self::Version,
            ["openapi", "v2"] => Self::OldOpenApi,
            ["openapi", "v3"] => Self::OpenApi(None),
            ["openapi", "v3", rest @ ..] => Self::OpenApi(Some(rest.join("/"))),
            [".well-known", "openid-configuration"] => Self::IssuerMetadata,
            ["openid", "v1", "jwks"] => Self::IssuerKeys,
            ["pilothouse", what] => Self::Ledger((*what).to_owned()),
            ["api"] | ["api", "v1"] | ["apis"] | ["apis", _] | ["apis", _, _] => {
                Self::Discovery(parts)
            }
            ["api", version, rest @ ..] => Self::Object(object("", version, rest)?),
            ["apis", group, version, rest @ ..] => Self::Object(object(group, version, rest)?),
            _ => return Err(Failure::no_path()),
        })
    }
}

impl ObjectTarget {
    fn path(&self) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", escape(&self.version)),
            group => format!("/apis/{}/{}", escape(group), escape(&self.version)),
        };
        let namespace = self.namespace.iter().flat_map(|n| ["namespaces", n]);
        let rest = [
            Some(&self.plural),
            self.name.as_ref(),
            self.subresource.as_ref(),
        ];
        let rest = rest.into_iter().flatten().map(String::as_str);
        for part in namespace.chain(rest) {
            path.push('/');
            path.push_str(&escape(part));
        }
        path
    }
}

/// Whether a byte of a path never needs an escape (RFC 3986, 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// The text of a segment; `None` where it is not written as it has to be.
fn segment(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = u8::try_from(digit()? * 16 + digit()?).ok()?;
        if is_unreserved(value) {
            return None;
        }
        bytes.push(value);
    }
    let text = String::from_utf8(bytes).ok()?;
    (!matches!(text.as_str(), "" | "." | "..")).then_some(text)
}

/// A segment as it is written.
fn escape(text: &str) -> String {
    let one = |b: u8| match b {
        b if is_unreserved(b) || b"!$&'()*+,;=:@".contains(&b) => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

fn object(group: &str, version: &str, rest: &[&str]) -> Result<ObjectTarget, Failure> {
    let own = |text: &str| text.to_owned();
    let mut target = ObjectTarget {
        group: own(group),
        version: own(version),
        ..ObjectTarget::default()
    };
    match rest {
        // A namespace itself, or what is behind it.
        ["namespaces", name, sub @ ("status" | "finalize")] => {
            target.plural = own("namespaces");
            target.name = Some(own(name));
            target.subresource = Some(own(sub));
        }
        ["namespaces", namespace, plural, rest @ ..] if rest.len() <= 2 => {
            target.namespace = Some(own(namespace));
            target.plural = own(plural);
            target.name = rest.first().map(|n| own(n));
            target.subresource = rest.get(1).map(|s| own(s));
        }
        [plural, rest @ ..] if rest.len() <= 2 => {
            target.plural = own(plural);
            target.name = rest.first().map(|n| own(n));
            target.subresource = rest.get(1).map(|s| own(s));
        }
        _ => return Err(Failure::no_path()),
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> ObjectTarget {
        match Target::parse(path) {
            Ok(Target::Object(target)) => target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_objects() {
        let found = target("/apis/networking.istio.io/v1/namespaces/shop/virtualservices/a/status");
        assert_eq!(
            (&*found.group, &*found.version, &*found.plural),
            ("networking.istio.io", "v1", "virtualservices")
        );
        assert_eq!(
            (
                found.namespace.as_deref(),
                found.name.as_deref(),
                found.subresource.as_deref()
            ),
            (Some("shop"), Some("a"), Some("status"))
        );
        let found = target("/api/v1/namespaces/shop");
        assert_eq!(
            (&*found.plural, found.namespace, found.name.as_deref()),
            ("namespaces", None, Some("shop"))
        );
        let found = target("/api/v1/namespaces/shop/finalize");
        assert_eq!(
            (&*found.plural, found.subresource.as_deref()),
            ("namespaces", Some("finalize"))
        );
        assert_eq!(target("/api/v1/configmaps").name, None);
        assert!(Target::parse("/api/v1/namespaces/a/b/c/d/e").is_err());
        assert!(Target::parse("/api/v1/configmaps/a%00b").is_err());
        assert!(Target::parse("/elsewhere").is_err());
    }

    #[test]
    fn a_path_is_written_in_one_way() {
        for path in [
            "//api/v1/namespaces/default/secrets",
            "/api//v1/secrets",
            "/%61pi/v1/secrets",
            "/api/v1/./secrets",
            "/api/v1/configmaps/../secrets",
            "/api/v1/configmaps/%2e%2e/secrets",
            "/api/v1/secrets/",
            "/pilothouse/export/",
            "//pilothouse/export",
            "/api/v1/secrets/%zz",
            "/api/v1/secrets/%",
            "/api/v1/secrets/%ff",
            "api/v1/secrets",
            "",
        ] {
            let failure = Target::parse(path).unwrap_err();
            assert_eq!(failure.code, StatusCode::BAD_REQUEST, "{path}");
        }
        for path in ["/api/", "/apis/apps/v1/", "/version/", "/healthz/"] {
            assert!(Target::parse(path).is_ok(), "{path}");
        }
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node";
        for written in [
            role.to_owned(),
            role.replace(':', "%3A"),
            role.replace(':', "%3a"),
        ] {
            assert_eq!(Target::parse(&written).unwrap().path().unwrap(), role);
        }
    }

    #[test]
    fn a_dry_run_is_said_clearly_or_refused() {
        let of = |method: Method, uri: &str, body: &'static str| {
            let request = Request::new(method, uri, Who::local());
            request.with_body("application/json", body).dry_run().ok()
        };
        let path = "/api/v1/namespaces/default/configmaps/a";
        assert_eq!(of(Method::PUT, path, "{}"), Some(false));
        assert_eq!(
            of(Method::PUT, &format!("{path}?dryRun=All"), ""),
            Some(true)
        );
        for bad in [
            "dryRun=",
            "dryRun",
            "dryRun=all",
            "dryRun=All&dryRun=",
            "dryRun=&dryRun=All",
        ] {
            assert_eq!(of(Method::PUT, &format!("{path}?{bad}"), ""), None, "{bad}");
        }
        assert_eq!(
            of(Method::DELETE, path, r#"{"dryRun": ["All"]}"#),
            Some(true)
        );
        assert_eq!(of(Method::DELETE, path, r#"{"dryRun": []}"#), Some(false));
        for bad in [
            r#"{"dryRun": [""]}"#,
            r#"{"dryRun": "All"}"#,
            r#"{"dryRun": [1]}"#,
            r#"{"dryRun": ["All"], "dryRun": []}"#,
            r#"{"dryRun": [], "dryRun": ["All"]}"#,
        ] {
            assert_eq!(of(Method::DELETE, path, bad), None, "{bad}");
        }
        assert_eq!(
            of(Method::GET, &format!("{path}?dryRun=x"), ""),
            Some(false)
        );
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+(d)&watch&force=false&bad=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch") && !query.flag("force") && !query.flag("absent"));
        assert_eq!(query.get("bad"), "%zz");
    }
}

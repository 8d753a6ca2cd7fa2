//! What a request asks for.

use bytes::Bytes;
use http::Method;

use crate::access::Who;
use crate::status::Failure;

/// The largest body that is read, as kube-apiserver's.
pub const LARGEST_BODY: usize = 3 << 20;

/// A request whose body was read and whose sender is known.
#[derive(Debug)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The path, still encoded.
    pub path: String,
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
}

impl Request {
    /// A request of somebody, for tests and for commands that work on the store of a folder.
    pub fn new(method: Method, uri: &str, who: Who) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        Self {
            method,
            path: path.to_owned(),
            query: Query::parse(query),
            accept: String::new(),
            content_type: "application/json".to_owned(),
            user_agent: "pilothouse".to_owned(),
            body: Bytes::new(),
            who,
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
            (decode(key, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter; empty where it is absent.
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
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

/// Undoes percent-encoding; what is no text becomes what stands for it.
fn decode(text: &str, plus: bool) -> String {
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
            b'+' if plus => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `/livez`, `/readyz`, `/healthz`.
    Health,
    /// `/version`.
    Version,
    /// `/api`, `/apis` and the groups and versions below.
    Discovery(Vec<String>),
    /// `/openapi/v2`.
    OldOpenApi,
    /// `/openapi/v3` and what is below.
    OpenApi(Option<String>),
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
    /// When it leads nowhere.
    pub fn parse(path: &str) -> Result<Self, Failure> {
        let parts: Vec<String> = path
            .split('/')
            .filter(|p| !p.is_empty())
            .map(|p| decode(p, false))
            .collect();
        if parts.iter().any(|p| p.contains(['\0', '/'])) {
            return Err(Failure::no_path());
        }
        let words: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["livez" | "readyz" | "healthz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["openapi", "v2"] => Self::OldOpenApi,
            ["openapi", "v3"] => Self::OpenApi(None),
            ["openapi", "v3", rest @ ..] => Self::OpenApi(Some(rest.join("/"))),
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
    fn queries_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+(d)&watch&force=false&bad=%zz");
        assert_eq!(query.get("labelSelector"), "a=b,c in (d)");
        assert!(query.flag("watch") && !query.flag("force") && !query.flag("absent"));
        assert_eq!(query.get("bad"), "%zz");
    }
}

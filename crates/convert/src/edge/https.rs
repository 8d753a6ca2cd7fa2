//! The ConfigMap `higress-https`: which Secret a host has whose Ingress names none, and which certificates are ordered.
//!
//! Every entry stands for itself: one that is wrong is left out, with a finding. Higress takes none where one is wrong.
//!
//! Higress: pkg/cert/config.go, 2.1.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::kube::{ANY_HOST, ConfigMap, is_host};
use model::{Diagnostic, Kind, Namespace, ObjectKey, ObjectName, Severity};
use serde_json::Value;

use super::class::is_on;
use super::rules::ends;
use crate::outcome::{Outcome, code, finding};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The name of the ConfigMap, in the namespace of Ingresses.
pub const CONFIG_MAP: &str = "higress-https";
/// The key in it.
const KEY: &str = "cert";
/// The issuer that certificates are ordered from.
const ISSUER: &str = "letsencrypt";
/// Days before the end of a certificate at which it is renewed.
const RENEW_BEFORE: u32 = 30;
/// The most entries that are read.
const MOST: usize = 10_000;
/// The most hosts of a certificate that is ordered.
const MOST_HOSTS: usize = 100;

/// The fields of the text, of an entry, and of an issuer.
const FIELDS: [&str; 6] = [
    "automaticHttps",
    "fallbackForInvalidSecret",
    "renewBeforeDays",
    "credentialConfig",
    "acmeIssuer",
    "version",
];
const OF_ENTRY: [&str; 4] = ["domains", "tlsIssuer", "tlsSecret", "cacertSecret"];
const OF_ISSUER: [&str; 4] = ["name", "email", "ak", "sk"];

/// What the ConfigMap says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Https {
    /// Whether certificates are ordered.
    pub automatic: bool,
    /// Whether a Secret stands in for one that an Ingress names and that is not there.
    pub fallback: bool,
    /// How many days before its end a certificate is renewed.
    pub renew_before_days: u32,
    /// Whom the issuer writes to.
    pub email: Option<Arc<str>>,
    /// In the order in which they count.
    pub credentials: Vec<Credential>,
    /// The first entry of each domain.
    by_domain: BTreeMap<Arc<str>, usize>,
    /// The same of each wildcard, by what follows the `*.`.
    by_end: BTreeMap<Arc<str>, usize>,
    faults: Vec<Fault>,
}

/// The Secret of domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// In small letters.
    pub domains: Vec<Arc<str>>,
    /// The Secret.
    pub secret: ObjectName,
    /// Whether its certificate is ordered.
    pub ordered: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Fault {
    path: String,
    severity: Severity,
    message: String,
}

impl Https {
    /// Reads the text; Secrets without a namespace are of this one.
    ///
    /// # Errors
    ///
    /// When it is no YAML of an object.
    pub fn read(text: &str, namespace: &Namespace) -> Result<Self, String> {
        let documents = model::parse::to_json(text);
        let document = documents.into_iter().next().unwrap_or(Ok(Value::Null))?;
        if !document.is_object() && !document.is_null() {
            return Err("is no object".to_owned());
        }
        let mut https = Self {
            automatic: true,
            fallback: false,
            renew_before_days: RENEW_BEFORE,
            email: None,
            credentials: Vec::new(),
            by_domain: BTreeMap::new(),
            by_end: BTreeMap::new(),
            faults: Vec::new(),
        };
        https.unknown(&document, "", &FIELDS);
        https.automatic = https.flag(&document, "automaticHttps", true);
        https.fallback = https.flag(&document, "fallbackForInvalidSecret", false);
        https.renewal(&document["renewBeforeDays"]);
        https.issuers(&document["acmeIssuer"]);
        https.entries(&document["credentialConfig"], namespace);
        Ok(https)
    }

    /// The Secret of a host, by the first entry with a domain that covers it.
    pub fn secret(&self, host: &str) -> Option<&ObjectName> {
        let host = host.to_ascii_lowercase();
        let own = self.by_domain.get(host.as_str());
        let wildcards = ends(&host).filter_map(|end| self.by_end.get(end));
        let any = self.by_domain.get(ANY_HOST);
        let first = own.into_iter().chain(wildcards).chain(any).min()?;
        let entry = self.credentials.get(*first)?;
        Some(&entry.secret)
    }

    fn fault(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.tell(path, Severity::Warning, message);
    }

    fn tell(&mut self, path: impl Into<String>, severity: Severity, message: impl Into<String>) {
        self.faults.push(Fault {
            path: path.into(),
            severity,
            message: message.into(),
        });
    }

    /// Finds fields that nobody reads.
    fn unknown(&mut self, value: &Value, path: &str, known: &[&str]) {
        let fields = value
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys());
        for field in fields.filter(|field| !known.contains(&field.as_str())) {
            let at: String = field.chars().filter(|c| !c.is_control()).take(64).collect();
            let message = format!("is no field that is known: {}", known.join(", "));
            self.fault(format!("{path}{at}"), message);
        }
    }

    fn flag(&mut self, document: &Value, field: &str, default: bool) -> bool {
        match &document[field] {
            Value::Null => default,
            Value::Bool(value) => *value,
            _ => {
                self.fault(field, format!("is not true or false; {default} is used"));
                default
            }
        }
    }

    fn renewal(&mut self, stated: &Value) {
        let days = stated.as_u64().and_then(|days| u32::try_from(days).ok());
        match (stated, days) {
            (Value::Null, _) => {}
            (_, Some(days)) if (1..90).contains(&days) => self.renew_before_days = days,
            _ => {
                let message = format!("is no number from 1 to 89; {RENEW_BEFORE} is used");
                self.fault("renewBeforeDays", message);
            }
        }
    }

    fn issuers(&mut self, stated: &Value) {
        for (at, issuer) in self.list(stated, "acmeIssuer").iter().enumerate() {
            let path = format!("acmeIssuer[{at}]");
            self.unknown(issuer, &format!("{path}."), &OF_ISSUER);
            if issuer["name"] != ISSUER {
                let message = format!("is no issuer that is known: {ISSUER} is");
                self.fault(format!("{path}.name"), message);
                continue;
            }
            for unused in ["ak", "sk"] {
                if issuer[unused].as_str().is_some_and(|text| !text.is_empty()) {
                    let message = "has no effect";
                    self.tell(format!("{path}.{unused}"), Severity::Info, message);
                }
            }
            match issuer["email"].as_str() {
                None | Some("") => {}
                Some(email) if is_email(email) => self.email = Some(email.into()),
                Some(_) => self.fault(format!("{path}.email"), "is no address of mail"),
            }
        }
    }

    /// The elements of a list; none where it is not one, which is found.
    fn list<'v>(&mut self, stated: &'v Value, path: &str) -> &'v [Value] {
        match stated {
            Value::Null => &[],
            Value::Array(list) => list,
            _ => {
                self.fault(path, "is no list");
                &[]
            }
        }
    }

    fn entries(&mut self, stated: &Value, namespace: &Namespace) {
        let list = self.list(stated, "credentialConfig");
        if list.len() > MOST {
            let message = format!("has more than {MOST} entries; those after them are not used");
            self.fault("credentialConfig", message);
        }
        let mut ordered: BTreeMap<ObjectName, usize> = BTreeMap::new();
        for (at, entry) in list.iter().take(MOST).enumerate() {
            let path = format!("credentialConfig[{at}]");
            self.unknown(entry, &format!("{path}."), &OF_ENTRY);
            let Some(credential) = self.entry(entry, &path, namespace) else {
                continue;
            };
            if credential.ordered
                && let Some(other) = ordered.insert(credential.secret.clone(), at)
            {
                let message = format!(
                    "is the Secret of credentialConfig[{other}] as well, for which a certificate is ordered, so this entry is not used"
                );
                self.fault(format!("{path}.tlsSecret"), message);
                ordered.insert(credential.secret, other);
                continue;
            }
            let at = self.credentials.len();
            for domain in &credential.domains {
                self.by_domain.entry(domain.clone()).or_insert(at);
                if let Some(end) = domain.strip_prefix("*.") {
                    self.by_end.entry(end.into()).or_insert(at);
                }
            }
            self.credentials.push(credential);
        }
    }

    fn entry(&mut self, entry: &Value, path: &str, home: &Namespace) -> Option<Credential> {
        let ordered = match &entry["tlsIssuer"] {
            Value::Null => false,
            Value::String(issuer) if issuer.is_empty() => false,
            Value::String(issuer) if issuer == ISSUER => true,
            _ => {
                let message =
                    format!("is no issuer that is known: {ISSUER} is, so the entry is not used");
                self.fault(format!("{path}.tlsIssuer"), message);
                return None;
            }
        };
        let Some(secret) = entry["tlsSecret"].as_str().and_then(|t| secret(t, home)) else {
            let message = "is neither the name of a Secret nor a namespace and a name, so the entry is not used";
            self.fault(format!("{path}.tlsSecret"), message);
            return None;
        };
        if entry["cacertSecret"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
        {
            let at = format!("{path}.cacertSecret");
            self.tell(at, Severity::Info, "has no effect, as in Higress");
        }
        let mut domains = Vec::new();
        let stated = self.list(&entry["domains"], &format!("{path}.domains"));
        for (at, domain) in stated.iter().enumerate() {
            let lower = domain.as_str().unwrap_or_default().to_ascii_lowercase();
            let open = lower == ANY_HOST;
            if !is_host(&lower) || lower.is_empty() || open && ordered {
                let message = match open {
                    true => "is no domain that a certificate is issued for",
                    false => "is no domain",
                };
                self.fault(format!("{path}.domains[{at}]"), message);
                continue;
            }
            domains.push(Arc::from(lower));
        }
        if domains.is_empty() {
            let message = "has no domain, so the entry is not used";
            self.fault(format!("{path}.domains"), message);
            return None;
        }
        if ordered && domains.len() > MOST_HOSTS {
            let message =
                format!("has more than {MOST_HOSTS} domains, so no certificate is ordered");
            self.fault(format!("{path}.domains"), message);
        }
        Some(Credential {
            ordered: ordered && domains.len() <= MOST_HOSTS,
            domains,
            secret,
        })
    }
}

/// `NAME` or `NAMESPACE/NAME`.
///
/// Higress: pkg/cert/config.go ParseTLSSecret, 2.1.
fn secret(text: &str, home: &Namespace) -> Option<ObjectName> {
    let is_name = |text: &str| {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        !text.is_empty() && text.len() <= 253 && text.bytes().all(known)
    };
    let (namespace, name) = match text.split_once('/') {
        Some((namespace, name)) => (namespace, name),
        None => (&**home, text),
    };
    (is_name(namespace) && is_name(name)).then(|| ObjectName::new(namespace, name))
}

fn is_email(text: &str) -> bool {
    let plain = |part: &str| {
        let known = |c: char| !c.is_whitespace() && !c.is_control() && !"<>,;:\\\"".contains(c);
        !part.is_empty() && part.chars().all(known)
    };
    match text.rsplit_once('@') {
        Some((who, at)) => text.len() <= 254 && plain(who) && plain(at) && at.contains('.'),
        None => false,
    }
}

/// What the ConfigMap says; none where there is none, or it cannot be read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HttpsConfig;

#[derive(PartialEq, Debug)]
enum Stated {
    Nothing,
    Unreadable(String),
    Read(Box<Https>),
}

fn name(read: &Reader<'_, '_, Routes>) -> ObjectName {
    ObjectName::new(read.settings().features.edge_namespace.clone(), CONFIG_MAP)
}

impl Derive for HttpsConfig {
    type Stratum = Routes;
    type Value = Stated;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Stated {
        let map = read.get::<ConfigMap>(&name(read));
        let Some(map) = &map else {
            return Stated::Nothing;
        };
        let Some(text) = map.spec.data.get(KEY) else {
            return Stated::Unreadable(format!("has no key {KEY:?}, so it is not used"));
        };
        match Https::read(text, map.namespace()) {
            Ok(https) => Stated::Read(Box::new(https)),
            Err(why) => Stated::Unreadable(format!("is not used: {why}")),
        }
    }
}

/// What the ConfigMap says of a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct HttpsFor(pub(super) Arc<str>);

/// The Secret of a host whose Ingress names none.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OfHost {
    pub(super) secret: ObjectName,
    /// Whether it stands in for one that is not there, too.
    pub(super) fallback: bool,
}

impl Derive for HttpsFor {
    type Stratum = Routes;
    type Value = Option<OfHost>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<OfHost> {
        match &*read.derived(HttpsConfig) {
            Stated::Read(https) => https.secret(&self.0).map(|secret| OfHost {
                secret: secret.clone(),
                fallback: https.fallback,
            }),
            Stated::Nothing | Stated::Unreadable(_) => None,
        }
    }
}

/// The ConfigMap as an object that something is made from.
pub(super) fn object(read: &Reader<'_, '_, Routes>) -> ObjectKey {
    ObjectKey {
        kind: Kind::ConfigMap,
        name: name(read),
    }
}

/// What is wrong with the ConfigMap; makes nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FindingsOfHttps(pub ObjectName);

impl Derive for FindingsOfHttps {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        if !is_on(read) || self.0 != name(read) {
            return Outcome::default();
        }
        let key = object(read);
        let at = |severity, path: String, message: &str| {
            finding(&key, code::HTTPS, severity, path, message)
        };
        let data = format!("data[{KEY}]");
        let findings: Vec<Diagnostic> = match &*read.derived(HttpsConfig) {
            Stated::Nothing => Vec::new(),
            Stated::Unreadable(why) => vec![at(Severity::Error, data, why)],
            Stated::Read(https) => {
                let faults = https.faults.iter();
                faults
                    .map(|f| at(f.severity, format!("{data}.{}", f.path), &f.message))
                    .collect()
            }
        };
        Outcome {
            objects: Vec::new(),
            findings: findings.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Https {
        Https::read(text, &"edge".into()).unwrap()
    }

    fn faults(https: &Https) -> Vec<&str> {
        https.faults.iter().map(|fault| &*fault.path).collect()
    }

    #[test]
    fn what_is_not_stated_has_higresss_defaults() {
        let https = read("");
        assert!(https.automatic && !https.fallback);
        assert_eq!(https.renew_before_days, 30);
        assert_eq!(https.secret("a.example"), None);
        assert!(https.faults.is_empty());
    }

    #[test]
    fn an_entry_that_is_wrong_is_left_out_alone() {
        let https = read(
            "renewBeforeDays: 90\nautomaticHttps: yes please\nacmeIssuer:\n- {name: other}\n\
             - {name: letsencrypt, email: ops@example.com, ak: x}\ncredentialConfig:\n\
             - {domains: [a.example], tlsSecret: a/b/c}\n\
             - {domains: [], tlsSecret: empty}\n\
             - {domains: ['*'], tlsIssuer: letsencrypt, tlsSecret: all}\n\
             - {domains: [b.example], tlsIssuer: aliyunssl, tlsSecret: b}\n\
             - {domains: [C.example, 'not a host'], tlsIssuer: letsencrypt, tlsSecret: shop/c, cacertSecret: x}\n\
             - {domains: [d.example], tlsIssuer: letsencrypt, tlsSecret: shop/c}\n",
        );
        assert_eq!(https.email.as_deref(), Some("ops@example.com"));
        let names: Vec<String> = https
            .credentials
            .iter()
            .map(|c| c.secret.to_string())
            .collect();
        assert_eq!(names, ["shop/c"]);
        assert!(https.credentials[0].ordered);
        assert_eq!(
            https.secret("c.example"),
            Some(&ObjectName::new("shop", "c"))
        );
        let expected = [
            "automaticHttps",
            "renewBeforeDays",
            "acmeIssuer[0].name",
            "acmeIssuer[1].ak",
            "credentialConfig[0].tlsSecret",
            "credentialConfig[1].domains",
            "credentialConfig[2].domains[0]",
            "credentialConfig[2].domains",
            "credentialConfig[3].tlsIssuer",
            "credentialConfig[4].cacertSecret",
            "credentialConfig[4].domains[1]",
            "credentialConfig[5].tlsSecret",
        ];
        assert_eq!(faults(&https), expected);
    }

    #[test]
    fn fields_that_nobody_reads_are_found() {
        let https = read(
            "{version: '1', credentialConfigs: [], acmeIssuer: [{name: letsencrypt, mail: x}], credentialConfig: [\
             {domain: a.example, domains: [b.example], tlsSecret: b}]}",
        );
        let expected = [
            "credentialConfigs",
            "acmeIssuer[0].mail",
            "credentialConfig[0].domain",
        ];
        assert_eq!(faults(&https), expected);
        assert!(https.secret("b.example").is_some());
    }

    #[test]
    fn what_is_no_object_is_not_read() {
        for text in ["[]", "text", "{", "a: b: c"] {
            assert!(Https::read(text, &"edge".into()).is_err(), "{text}");
        }
    }
}

//! The rules of one Ingress, by host and by who reaches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::knative::{Ingress, IngressPath, IngressRule, IngressSplit, Visibility};
use model::kinds::kube::is_host;
use model::{Age, Diagnostic, Object, ObjectName};

use super::{BYTES, Place, class, hash, owner, told};
use crate::outcome::code;
use crate::owner::{AboutHost, Claims};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The rules of an Ingress; none where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RulesOf(pub(super) ObjectName);

/// The rules of an Ingress about one host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RulesAbout {
    pub(super) ingress: ObjectName,
    pub(super) place: Place,
}

/// What an Ingress says.
#[derive(PartialEq, Debug)]
pub(super) struct Rules {
    pub(super) findings: Vec<Diagnostic>,
    pub(super) by_place: BTreeMap<Place, Arc<HostRules>>,
}

/// What an Ingress says about one host.
#[derive(PartialEq, Debug)]
pub(super) struct HostRules {
    /// Where it names the host first.
    pub(super) at: String,
    pub(super) created: Age,
    /// The hash of the whole Ingress.
    pub(super) hash: Arc<str>,
    /// Whether it sends clients to HTTPS.
    pub(super) redirected: bool,
    /// The Secret with the certificate, and where it is named.
    pub(super) certificate: Option<(String, ObjectName)>,
    pub(super) paths: Vec<Arc<Path>>,
    /// About the bytes of its routes.
    pub(super) weight: usize,
}

/// A path and where it leads.
#[derive(PartialEq, Debug)]
pub(super) struct Path {
    /// Where in the Ingress it stands.
    pub(super) at: String,
    /// How paths begin; `/` stands for all.
    pub(super) path: Arc<str>,
    /// The headers of requests, in lower case.
    pub(super) headers: BTreeMap<String, Arc<str>>,
    pub(super) rewrite_host: Arc<str>,
    pub(super) splits: Vec<IngressSplit>,
    pub(super) append: BTreeMap<Arc<str>, Arc<str>>,
}

impl Derive for RulesOf {
    type Stratum = Routes;
    type Value = Option<Arc<Rules>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let settings = read.settings();
        if !class::is_on(&settings.features) || self.0.cluster.is_some() {
            return None;
        }
        let ingress = read.get::<Ingress>(&self.0)?;
        if !class::is_served(&settings.features, &ingress.meta.annotations) {
            return None;
        }
        let mut reading = Reading {
            ingress: &ingress,
            domain: &settings.domain,
            room: BYTES,
            findings: Vec::new(),
            by_place: BTreeMap::new(),
        };
        reading.read();
        Some(Arc::new(Rules {
            findings: reading.findings,
            by_place: reading.by_place,
        }))
    }
}

impl Derive for RulesAbout {
    type Stratum = Routes;
    type Value = Option<Arc<HostRules>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let rules = read.derived(RulesOf(self.ingress.clone()));
        rules.as_ref().as_ref()?.by_place.get(&self.place).cloned()
    }
}

impl AboutHost for HostRules {
    fn created(&self) -> Age {
        self.created
    }

    fn at(&self) -> &str {
        &self.at
    }
}

/// The hosts that an Ingress claims of those that everybody reaches; none where it is not served.
pub(crate) fn claims(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> Option<Claims> {
    let rules = read.derived(RulesOf(ingress.clone()));
    let places = rules.as_ref().as_ref()?.by_place.iter();
    let mut claims = Claims::default();
    for (place, rules) in places.filter(|(place, _)| place.visibility == Visibility::ExternalIp) {
        claims.created = rules.created;
        claims.hosts.insert(place.host.clone());
    }
    Some(claims)
}

/// The paths of a host, and where it is named first.
type Stated = BTreeMap<Place, (String, Vec<Arc<Path>>)>;

/// An Ingress being read.
struct Reading<'a> {
    ingress: &'a Object<Ingress>,
    domain: &'a str,
    /// What its routes may weigh still.
    room: usize,
    findings: Vec<Diagnostic>,
    by_place: BTreeMap<Place, Arc<HostRules>>,
}

impl Reading<'_> {
    fn read(&mut self) {
        let ingress = self.ingress;
        let mut stated = Stated::new();
        for (index, rule) in ingress.spec.rules.iter().enumerate() {
            if !self.rule(rule, &format!("spec.rules[{index}]"), &mut stated) {
                let message = format!(
                    "makes routes of more than {} MiB, so nothing of it is served",
                    BYTES >> 20
                );
                self.tell(code::OVER_LIMIT, "spec.rules".to_owned(), message);
                return;
            }
        }
        if stated.is_empty() && self.findings.is_empty() {
            self.leave_out("spec.rules".to_owned(), "has no rule, so nothing is served");
        }
        let hash: Arc<str> = hash::of(&ingress.spec, &ingress.meta.name).into();
        let certificates = self.certificates();
        for (place, (at, paths)) in stated {
            let certificate = certificates.get(&*place.host).or(certificates.get(""));
            // What is not known is taken for what keeps more back.
            let redirected = !matches!(&*ingress.spec.http_option, "" | "Enabled");
            let weight = paths.iter().map(|path| weight(path)).sum();
            let rules = HostRules {
                at,
                created: ingress.meta.created,
                hash: hash.clone(),
                redirected: redirected && place.visibility == Visibility::ExternalIp,
                certificate: certificate.cloned(),
                paths,
                weight,
            };
            self.by_place.insert(place, Arc::new(rules));
        }
    }

    /// Takes in a rule; false if it weighs too much.
    fn rule(&mut self, rule: &IngressRule, at: &str, stated: &mut Stated) -> bool {
        let Some(visibility) = rule.reached_by() else {
            let message = "is not known, so nobody reaches the hosts of the rule";
            self.leave_out(format!("{at}.visibility"), message);
            return true;
        };
        let paths = rule.http.iter().flat_map(|http| &http.paths).enumerate();
        let paths: Vec<Arc<Path>> = paths
            .filter_map(|(n, path)| self.path(path, format!("{at}.http.paths[{n}]")))
            .collect();
        if rule.http.as_ref().is_none_or(|http| http.paths.is_empty()) {
            self.leave_out(
                format!("{at}.http"),
                "states no paths, so the rule is not served",
            );
            return true;
        }
        if rule.hosts.is_empty() {
            self.leave_out(
                format!("{at}.hosts"),
                "names no host, so the rule is not served",
            );
        }
        let each: usize = paths.iter().map(|path| weight(path)).sum();
        for (n, host) in rule.hosts.iter().enumerate() {
            let Some(room) = self.room.checked_sub(each + host.len()) else {
                return false;
            };
            self.room = room;
            let at = format!("{at}.hosts[{n}]");
            if let Some(fault) = self.fault(visibility, host) {
                self.leave_out(at, &fault);
                continue;
            }
            let place = Place {
                visibility,
                host: host.clone(),
            };
            let (_, all) = stated.entry(place).or_insert_with(|| (at, Vec::new()));
            all.extend(paths.iter().cloned());
        }
        true
    }

    /// Why a host cannot be served, as a sentence about it.
    fn fault(&self, visibility: Visibility, host: &str) -> Option<String> {
        if host.starts_with('*') || !is_host(host) {
            return Some("is not the name of one host, so it is not served".to_owned());
        }
        if visibility == Visibility::ExternalIp {
            return None;
        }
        let namespace = owner::namespace(host, self.domain)?;
        let home = self.ingress.namespace();
        (namespace != home.as_str()).then(|| {
            format!("is a host of the namespace {namespace}, so it is not served for an Ingress of {home}")
        })
    }

    /// The Secrets by host, each with where it is named; the first of a host counts. One for all hosts stands under none.
    fn certificates(&self) -> BTreeMap<Arc<str>, (String, ObjectName)> {
        let mut certificates = BTreeMap::new();
        for (index, tls) in self.ingress.spec.tls.iter().enumerate() {
            let namespace = match &*tls.secret_namespace {
                "" => self.ingress.namespace().as_str(),
                stated => stated,
            };
            let secret = ObjectName::new(namespace, &*tls.secret_name);
            let every = [Arc::from("")];
            let hosts = match tls.hosts.is_empty() {
                true => &every[..],
                false => &tls.hosts,
            };
            for host in hosts {
                let at = format!("spec.tls[{index}].secretName");
                let entry = certificates.entry(host.clone());
                entry.or_insert_with(|| (at, secret.clone()));
            }
        }
        certificates
    }

    fn path(&mut self, stated: &IngressPath, at: String) -> Option<Arc<Path>> {
        let path = match &*stated.path {
            "" => "/".into(),
            _ => stated.path.clone(),
        };
        let forbidden = |c: char| c.is_control() || matches!(c, '?' | '#');
        if !path.starts_with('/') || path.contains(forbidden) {
            let message = "is not a path that proxies can match, so it is not served";
            self.leave_out(format!("{at}.path"), message);
            return None;
        }
        let mut headers = BTreeMap::new();
        for (name, value) in &stated.headers {
            let known = validate::text::header_name_to_match(name);
            let again = headers.insert(name.to_ascii_lowercase(), value.exact.clone());
            let fault = match (known, again) {
                (Err(fault), _) => fault,
                (Ok(()), Some(_)) => "is stated twice".to_owned(),
                (Ok(()), None) => continue,
            };
            let message = format!("{fault}, so the path is not served");
            self.leave_out(format!("{at}.headers.{name}"), &message);
            return None;
        }
        Some(Arc::new(Path {
            at,
            path,
            headers,
            rewrite_host: stated.rewrite_host.clone(),
            splits: stated.splits.clone(),
            append: stated.append_headers.clone(),
        }))
    }

    fn leave_out(&mut self, at: String, message: &str) {
        self.tell(code::NOT_SERVED, at, message.to_owned());
    }

    fn tell(&mut self, code: &'static str, at: String, message: String) {
        let found = told(&self.ingress.meta.name, code, at, message);
        self.findings.push(found);
    }
}

/// About the bytes of the two routes of a path.
fn weight(path: &Path) -> usize {
    /// What a route costs beside what it says, and what a destination does.
    const EACH: usize = 512;
    let texts = |map: &BTreeMap<Arc<str>, Arc<str>>| -> usize {
        map.iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    };
    let headers: usize = path.headers.iter().map(|(n, v)| n.len() + v.len()).sum();
    let appended = texts(&path.append);
    let splits = path.splits.iter().map(|split| {
        let service = split.service_name.len() + split.service_namespace.len();
        EACH + service + texts(&split.append_headers) + appended
    });
    let one = path.path.len() + path.rewrite_host.len() + headers + appended;
    2 * (EACH + one + splits.sum::<usize>())
}

//! Services that decide about requests and stand behind a host that Ingresses serve, as oauth2-proxy does with `auth-url:
//! https://$host/oauth2/auth`.
//!
//! nginx sends such a question to itself, and the rules of the host lead it on. Here the rules are looked at when routes are made, and
//! the service is asked directly, so what protects its own path does not stand in the way.
//!
//! Who may add paths to a host must not decide whom the others let in: only rules of the namespace that asks count, and on its own host
//! those of the namespace that the host belongs to. Whether the service may be named is for [`refer`](crate::refer).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::edge::ExternalAuth;
use model::{Namespace, ObjectKey, ObjectName};
use proto_istio::networking::string_match::MatchType;
use regex::RegexBuilder;

use super::access::outside;
use super::draft::Draft;
use super::host::{Drafts, DraftsOf, warn};
use super::matching::matched;
use super::policy::Policy;
use super::rules::PathKind;
use super::{expression, key, limits, refer};
use crate::outcome::code;
use crate::reader::{Derive, Reader};
use crate::refer::Named;
use crate::strata::Routes;

/// Why routes are closed whose service is not known; short, for a header.
pub(super) const UNKNOWN_SERVICE: &str = "auth-url cannot be asked";

/// A service that decides about requests, where the rules of a host say where it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Asked {
    /// The Ingress that asks.
    pub(super) ingress: ObjectName,
    /// Where it says so.
    pub(super) at: String,
    /// Whether the URL is of https.
    pub(super) is_secure: bool,
    /// The port of the URL, where it states one.
    pub(super) port: Option<u16>,
    /// The host; that of the rule where absent.
    pub(super) host: Option<Arc<str>>,
    /// What is asked of it.
    pub(super) service: ExternalAuth,
}

/// The rules of a host with the services that decide about their requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SettledOf(pub(super) Arc<str>);

impl Derive for SettledOf {
    type Stratum = Routes;
    type Value = Arc<Drafts>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Arc<Drafts> {
        let drafts = read.derived(DraftsOf(self.0.clone()));
        if drafts.drafts.iter().all(|d| d.policy.asked.is_none()) {
            return (*drafts).clone();
        }
        let mut settled = Drafts::clone(&drafts);
        let mut known: BTreeMap<ObjectName, Option<Arc<Policy>>> = BTreeMap::new();
        let mut answers = Answers::new();
        for draft in &mut settled.drafts {
            let policy = draft.policy.clone();
            let Some(asked) = &policy.asked else { continue };
            let found = known.entry(asked.ingress.clone()).or_insert_with(|| {
                let found = settle(read, &self.0, &drafts, &policy, asked, &mut answers);
                let why = match found {
                    Ok(policy) => return Some(Arc::new(policy)),
                    Err(why) => why,
                };
                let message = format!("{why}, so requests for its paths of {:?} get 503", self.0);
                let at = asked.at.clone();
                let finding = warn(&asked.ingress, code::CLOSED, at, message);
                settled.findings.push(finding);
                None
            });
            match found {
                Some(policy) => draft.policy = policy.clone(),
                None => {
                    draft.closed.get_or_insert_with(|| UNKNOWN_SERVICE.into());
                }
            }
        }
        Arc::new(settled)
    }
}

/// What decides where a URL leads behind a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    /// That of the Ingress that asks.
    namespace: Namespace,
    /// The host, where it is not that of the rule.
    host: Option<Arc<str>>,
    port: Option<u16>,
    method: Option<Arc<str>>,
    path: Arc<str>,
}

/// Where the URLs of a host lead: Ingresses of one host mostly ask the same.
type Answers = BTreeMap<Question, Result<Found, String>>;

/// A policy with the service that is found, or why there is none.
fn settle(
    read: &Reader<'_, '_, Routes>,
    own: &Arc<str>,
    drafts: &Drafts,
    policy: &Policy,
    asked: &Asked,
    answers: &mut Answers,
) -> Result<Policy, String> {
    let other = asked.host.as_ref().filter(|host| *host != own);
    let question = Question {
        namespace: asked.ingress.namespace.clone(),
        host: other.cloned(),
        port: asked.port,
        method: asked.service.method.clone(),
        path: asked.service.path.clone(),
    };
    let found = match answers.get(&question) {
        Some(found) => found.clone(),
        None if answers.len() >= limits::QUESTIONS => {
            return Err(format!(
                "more than {} different URLs ask behind the host {own:?}",
                limits::QUESTIONS
            ));
        }
        None => {
            let found = match other {
                None => find(read, own, drafts, true, asked),
                Some(host) => {
                    let drafts = read.derived(DraftsOf(host.clone()));
                    find(read, host, &drafts, false, asked)
                }
            };
            answers.entry(question).or_insert(found).clone()
        }
    };
    let mut settled = policy.clone();
    let external = match (found, other) {
        (Ok(found), _) => {
            settled.others.extend(found.others);
            ExternalAuth {
                host: found.host,
                port: found.port,
                authority: found
                    .authority
                    .unwrap_or_else(|| asked.service.authority.clone()),
                ..asked.service.clone()
            }
        }
        // As nginx does: the host is looked up, and answers for itself.
        (Err(_), Some(host)) if asked.is_secure => ExternalAuth {
            host: outside(read, &asked.ingress, host, asked.service.port)?,
            tls: true,
            ..asked.service.clone()
        },
        (Err(why), _) => return Err(why),
    };
    settled.edge.external = Some(external);
    settled.asked = None;
    Ok(settled)
}

/// A service that is found.
#[derive(Clone)]
struct Found {
    host: Arc<str>,
    port: u16,
    /// The host that it is asked for, where a rule says another one than the URL.
    authority: Option<Arc<str>>,
    /// The objects without which it would not be.
    others: Vec<ObjectKey>,
}

/// The service to which the rules of a host lead.
fn find(
    read: &Reader<'_, '_, Routes>,
    host: &str,
    drafts: &Drafts,
    is_own_host: bool,
    asked: &Asked,
) -> Result<Found, String> {
    let features = &read.settings().features;
    let ports = [
        80,
        443,
        features.edge_http_port.get(),
        features.edge_https_port.get(),
    ];
    if let Some(port) = asked.port.filter(|port| !ports.contains(port)) {
        return Err(format!(
            "the URL names the port {port} of {host:?}, on which no Ingress is served"
        ));
    }
    let path = path_of(&asked.service.path).ok_or("has a variable in its path before the query")?;
    let is_trusted = |draft: &&Draft| {
        let namespace = &draft.ingress.namespace;
        *namespace == asked.ingress.namespace
            || is_own_host && drafts.home.as_ref() == Some(namespace)
            || features.edge_cross_namespace
    };
    let method = asked.service.method.as_deref().unwrap_or("GET");
    let mut expressions = Expressions::default();
    let mut trusted = drafts.drafts.iter().filter(is_trusted);
    let draft = trusted.find(|draft| takes(draft, method, &path, &mut expressions));
    if expressions.undecided {
        return Err(format!(
            "rules of the host {host:?} have more than {} expressions to try for {path:?}, or one that is too large",
            limits::TRIED_EXPRESSIONS
        ));
    }
    let draft = draft
        .ok_or_else(|| format!("no rule of the host {host:?} that counts for it takes {path:?}"))?;
    let to = destination(draft, host, &path)?;
    let mut others = vec![key(&draft.ingress)];
    let target = refer::target(read, &asked.ingress, Named::Host(&to.host), &mut others)?;
    others.extend(target.object().cloned());
    let authority = draft.route.rewrite.as_ref().map(|r| r.authority.as_str());
    let authority = authority.filter(|authority| !authority.is_empty());
    Ok(Found {
        host: target.host().clone(),
        port: to.port,
        authority: authority.map(Arc::from),
        others,
    })
}

/// Where a rule sends questions.
struct To {
    host: String,
    port: u16,
}

/// The first destination of a rule, or why it is not the service.
fn destination(draft: &Draft, host: &str, path: &str) -> Result<To, String> {
    let by = key(&draft.ingress);
    if draft.policy.asked.is_some() && is_root(draft) {
        return Err(format!(
            "the URL leads back to what it protects: no rule of the host {host:?} but that for everything takes {path:?}"
        ));
    }
    if draft.closed.is_some() {
        return Err(format!(
            "the URL leads to {path:?} of the host {host:?}, which {by} closes"
        ));
    }
    let rewrite = draft.route.rewrite.as_ref();
    if rewrite.is_some_and(|r| !r.uri.is_empty() || r.uri_regex_rewrite.is_some()) {
        return Err(format!(
            "the URL leads to {path:?} of the host {host:?}, which {by} rewrites: name the Service and its path in place of the host"
        ));
    }
    let to = draft.route.route.first();
    let to = to.and_then(|to| to.destination.as_ref());
    let port = to.and_then(|to| u16::try_from(to.port.as_ref()?.number).ok());
    match (to, port) {
        (Some(to), Some(port)) => Ok(To {
            host: to.host.clone(),
            port,
        }),
        _ => Err(format!(
            "the URL leads to {path:?} of the host {host:?}, which {by} sends to no port of a Service"
        )),
    }
}

/// Whether a rule may be for everything of its host.
fn is_root(draft: &Draft) -> bool {
    match draft.asks.kind {
        PathKind::Exact => false,
        PathKind::Prefix => &*draft.asks.path == "/",
        PathKind::PrefixRegex | PathKind::FullRegex => {
            &*expression::beginning(&draft.asks.path) == "/"
        }
    }
}

/// Whether a rule takes a request with that path, whatever else the request has. Where that is undecided, as `expressions` say, the
/// answer is of no use.
fn takes(draft: &Draft, method: &str, path: &str, expressions: &mut Expressions) -> bool {
    let asks = &draft.asks;
    if !asks.headers.is_empty() || !asks.query.is_empty() {
        return false;
    }
    if !asks.methods.is_empty() && !asks.methods.iter().any(|stated| **stated == *method) {
        return false;
    }
    let asked = matched(asks);
    let ignore_case = asked.ignore_uri_case;
    let cased = |text: &str| match ignore_case {
        true => text.to_ascii_lowercase(),
        false => text.to_owned(),
    };
    let is_taken = match asked.uri.and_then(|uri| uri.match_type) {
        Some(MatchType::Exact(whole)) => cased(&whole) == cased(path),
        Some(MatchType::Prefix(prefix)) => {
            let prefix = cased(prefix.strip_suffix('/').unwrap_or(&prefix));
            let path = cased(path);
            let rest = path.strip_prefix(&prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Some(MatchType::Regex(pattern)) => expressions.is_match(&pattern, path),
        None => true,
    };
    let excepted = asked.without_headers.into_values();
    let mut excepted = excepted.filter_map(|value| match value.match_type {
        Some(MatchType::Regex(pattern)) => Some(pattern),
        _ => None,
    });
    is_taken && !excepted.any(|pattern| expressions.is_match(&pattern, path))
}

/// Counts the expressions that are tried: each is compiled for it.
#[derive(Default)]
struct Expressions {
    tried: usize,
    /// There were too many, or one was too large.
    undecided: bool,
}

impl Expressions {
    /// Whether an expression takes all of a text.
    fn is_match(&mut self, pattern: &str, text: &str) -> bool {
        self.tried += 1;
        if self.tried > limits::TRIED_EXPRESSIONS {
            self.undecided = true;
            return true;
        }
        let whole = format!("^(?:{pattern})$");
        let regex = RegexBuilder::new(&whole)
            .size_limit(limits::TRIED_BYTES)
            .build();
        match regex {
            Ok(regex) => regex.is_match(text),
            Err(_) => {
                self.undecided = true;
                true
            }
        }
    }
}

/// The path of a format of substitution without its query, where nothing is put into it.
fn path_of(format: &str) -> Option<String> {
    let end = format.find('?').unwrap_or(format.len());
    let plain = format[..end].replace("%%", "\0");
    (!plain.contains('%')).then(|| plain.replace('\0', "%"))
}

#[cfg(test)]
mod tests {
    use super::{Expressions, limits, path_of};

    #[test]
    fn the_path_is_known_where_no_variable_is_in_it() {
        for (format, wanted) in [
            ("/oauth2/auth", Some("/oauth2/auth")),
            ("/a%%20b?rd=%REQ(:path)%", Some("/a%20b")),
            ("/%REQ(:path)%", None),
            ("/%%%REQ(:path)%", None),
        ] {
            assert_eq!(path_of(format).as_deref(), wanted, "{format}");
        }
    }

    #[test]
    fn expressions_take_whole_paths() {
        let is_match = |pattern: &str, path: &str| Expressions::default().is_match(pattern, path);
        assert!(is_match("/oauth2.*", "/oauth2/auth"));
        assert!(!is_match("/oauth2", "/oauth2/auth"));
        assert!(is_match("/a|/oauth2.*", "/oauth2/auth"));
    }

    #[test]
    fn expressions_are_tried_up_to_a_limit() {
        let mut expressions = Expressions::default();
        for _ in 0..limits::TRIED_EXPRESSIONS {
            assert!(!expressions.is_match("/a", "/b"));
        }
        assert!(!expressions.undecided);
        assert!(expressions.is_match("/a", "/b") && expressions.undecided);
        let mut expressions = Expressions::default();
        assert!(expressions.is_match("(a{1000}){1000}", "/b") && expressions.undecided);
    }
}

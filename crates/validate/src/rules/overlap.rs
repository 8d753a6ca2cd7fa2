//! Routes and matches that can never be reached, because earlier ones take everything.
// Istio: pkg/config/validation/validation.go analyzeUnreachableHTTPRules, coveredValidation, 1.32.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use model::Severity;
use prost::Message;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, HttpRoute, StringMatch};

use crate::report::{At, Report};

/// A rule that no request reaches. istioctl's VirtualServiceUnreachableRule.
pub(super) const UNREACHABLE: &str = "IST0130";
/// A match that no request reaches. istioctl's VirtualServiceIneffectiveMatch.
pub(super) const INEFFECTIVE: &str = "IST0131";

/// So many prefixes are compared with one another. Beyond that, nobody reads the routes either.
const MOST_COMPARED: usize = 1000;

/// Routes that match by more than equality.
pub(super) fn http(routes: &[HttpRoute], at: &At<'_>, report: &mut Report) {
    // What a match is called does not matter.
    let encode = |m: &HttpMatchRequest| match m.name.as_str() {
        "" => m.encode_to_vec(),
        _ => {
            let mut m = m.clone();
            m.name.clear();
            m.encode_to_vec()
        }
    };
    let kept = unreachable(
        routes,
        |i| name(&routes[i].name, i),
        |r| r.r#match.as_slice(),
        encode,
        at,
        report,
    );
    let prefixes: Vec<Prefix<'_>> = kept
        .into_iter()
        .filter_map(|(route, one)| Prefix::of(route, one, &routes[route].r#match[one]))
        .take(MOST_COMPARED)
        .collect();
    for (index, earlier) in prefixes.iter().enumerate() {
        for later in &prefixes[index + 1..] {
            if earlier.prefix != later.prefix && earlier.covers(later) {
                let at = at.item(later.route);
                let message = format!(
                    "requests with the prefix {:?} are taken by {:?} of route {} before",
                    later.prefix,
                    earlier.prefix,
                    name(&routes[earlier.route].name, earlier.route)
                );
                let at = at.field("match");
                report.say(&at.item(later.one), Severity::Warning, INEFFECTIVE, message);
                report.help("put the route with the longer prefix first");
            }
        }
    }
}

/// Routes without names.
pub(super) fn routes<'a, R, M: Message + 'a>(
    routes: &'a [R],
    matches: impl Fn(&'a R) -> &'a [M],
    at: &At<'_>,
    report: &mut Report,
) {
    unreachable(
        routes,
        |i| name("", i),
        matches,
        M::encode_to_vec,
        at,
        report,
    );
}

fn name(name: &str, index: usize) -> String {
    match name {
        "" => format!("#{index}"),
        _ => format!("{name:?}"),
    }
}

/// Finds what can never be reached; returns the matches that can, as far as equality tells.
fn unreachable<'a, R, M: 'a>(
    routes: &'a [R],
    name: impl Fn(usize) -> String,
    matches: impl Fn(&'a R) -> &'a [M],
    encode: impl Fn(&M) -> Vec<u8>,
    at: &At<'_>,
    report: &mut Report,
) -> Vec<(usize, usize)> {
    let mut kept: Vec<(usize, usize)> = Vec::new();
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut takes_all: Option<usize> = None;
    for (index, route) in routes.iter().enumerate() {
        let (at, of) = (at.item(index), matches(route));
        if of.is_empty() {
            if takes_all.is_some() {
                let message = "never reached: only the last route can be without `match`";
                report.say(&at, Severity::Warning, UNREACHABLE, message);
            }
            takes_all = Some(index);
            continue;
        }
        let mut doubled = 0;
        let at_match = at.field("match");
        for (one, value) in of.iter().enumerate() {
            if let Some(before) = takes_all {
                let message = format!("never reached: route {} takes everything", name(before));
                report.say(&at, Severity::Warning, UNREACHABLE, message);
                continue;
            }
            match seen.entry(encode(value)) {
                Entry::Occupied(known) => {
                    doubled += 1;
                    let message = format!("the same match stands in route {}", name(*known.get()));
                    report.say(&at_match.item(one), Severity::Warning, INEFFECTIVE, message);
                }
                Entry::Vacant(free) => {
                    free.insert(index);
                    kept.push((index, one));
                }
            }
        }
        if doubled == of.len() {
            let message = "never reached: earlier routes have all its matches";
            report.say(&at, Severity::Warning, UNREACHABLE, message);
        }
    }
    kept
}

/// A match by a prefix of the path, and what else must hold.
struct Prefix<'a> {
    route: usize,
    one: usize,
    prefix: &'a str,
    port: u32,
    method: String,
    authority: String,
    maps: [BTreeMap<&'a str, String>; 3],
}

impl<'a> Prefix<'a> {
    fn of(route: usize, one: usize, of: &'a HttpMatchRequest) -> Option<Self> {
        let Some(MatchType::Prefix(prefix)) = of.uri.as_ref()?.match_type.as_ref() else {
            return None;
        };
        if prefix.is_empty() {
            return None;
        }
        let method = pattern(of.method.as_ref());
        let map = |map: &'a BTreeMap<String, StringMatch>| {
            let pairs = map.iter();
            pairs.map(|(k, v)| (k.as_str(), pattern(Some(v)))).collect()
        };
        Some(Self {
            route,
            one,
            prefix,
            port: of.port,
            method: if method.is_empty() {
                "=GET".to_owned()
            } else {
                method
            },
            authority: pattern(of.authority.as_ref()),
            maps: [
                map(&of.headers),
                map(&of.query_params),
                map(&of.without_headers),
            ],
        })
    }

    /// Whether every request that `later` matches is matched by this one.
    fn covers(&self, later: &Prefix<'_>) -> bool {
        let pairs = self.maps.iter().zip(&later.maps);
        later.prefix.starts_with(self.prefix)
            && later.port == self.port
            && self.method.starts_with(&*later.method)
            && self.authority.starts_with(&*later.authority)
            && pairs.into_iter().all(|(a, b)| {
                a.len() == b.len()
                    && a.iter()
                        .all(|(k, v)| b.get(k).is_some_and(|other| v.starts_with(&**other)))
            })
    }
}

/// What is matched, exact or by prefix; empty for anything else.
fn pattern(value: Option<&StringMatch>) -> String {
    match value.and_then(|v| v.match_type.as_ref()) {
        Some(MatchType::Exact(text)) if !text.is_empty() => format!("={text}"),
        Some(MatchType::Prefix(text)) if !text.is_empty() => format!("^{text}"),
        _ => String::new(),
    }
}

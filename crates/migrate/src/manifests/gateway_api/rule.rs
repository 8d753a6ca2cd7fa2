//! A rule of a route on its way: what it asks of requests, and what it does with them.

use model::Namespace;
use model::re2::quote;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, StringMatch};
use serde_json::{Value, json};

use super::lost;
use crate::manifests::lost::Lost;

/// The methods that the API knows.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// The longest path.
pub(super) const LONGEST_PATH: usize = 1024;

/// How many conditions of a kind a match has at most.
const CONDITIONS: usize = 16;

/// How a path is matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// The whole path.
    Exact(String),
    /// By elements.
    Prefix(String),
    /// By an expression of all of it.
    Regex(String),
}

/// What is asked beside the path: one of several possibilities.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Asked {
    pub(super) method: Option<String>,
    pub(super) headers: Vec<Value>,
    pub(super) query: Vec<Value>,
}

/// What is done with requests; nothing in a rule that is closed.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Does {
    pub(super) filters: Vec<Value>,
    pub(super) backends: Vec<Value>,
    pub(super) timeouts: Option<Value>,
    pub(super) retry: Option<Value>,
    pub(super) session: Option<Value>,
    /// Its path can be matched by a prefix only, which is replaced.
    pub(super) by_prefix: bool,
}

/// A rule.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rule {
    /// The name and path of what it is made of, for people.
    pub(super) name: String,
    /// The namespace of the Ingress.
    pub(super) namespace: Namespace,
    pub(super) path: Path,
    pub(super) asked: Vec<Asked>,
    pub(super) does: Does,
    pub(super) lost: Vec<Lost>,
    /// It keeps requests from rules behind it that are not for them; without such it is of no use.
    pub(super) is_guard: bool,
    /// It is of an Ingress for gRPC.
    pub(super) is_grpc: bool,
}

impl Rule {
    /// Closes the rule, which would do something else than is wanted.
    pub(super) fn close(&mut self, why: Lost) {
        self.does = Does::default();
        if !self.lost.contains(&why) {
            self.lost.push(why);
        }
    }

    /// Matches the same paths by an expression, which is asked after exact paths and prefixes.
    pub(super) fn by_regex(&mut self) {
        if matches!(self.path, Path::Regex(_)) {
            return;
        }
        if self.does.by_prefix {
            self.close(lost::REWRITE);
        }
        self.path = Path::Regex(self.path.pattern());
    }
}

impl Path {
    /// The path of a match, in a form that the API takes.
    pub(super) fn of(matched: &HttpMatchRequest) -> Self {
        let uri = matched.uri.as_ref().and_then(|uri| uri.match_type.as_ref());
        let path = match uri {
            None => Self::Prefix("/".to_owned()),
            Some(MatchType::Exact(text)) => Self::Exact(text.clone()),
            Some(MatchType::Prefix(text)) => match text.trim_end_matches('/') {
                "" => Self::Prefix("/".to_owned()),
                text => Self::Prefix(text.to_owned()),
            },
            Some(MatchType::Regex(text)) => Self::Regex(text.clone()),
        };
        let is_plain = match &path {
            Self::Exact(text) | Self::Prefix(text) => is_plain(text),
            Self::Regex(_) => true,
        };
        match (is_plain, matched.ignore_uri_case) {
            (true, false) => path,
            (_, ignore_case) => {
                let case = if ignore_case { "(?i)" } else { "" };
                Self::Regex(format!("{case}{}", path.pattern()))
            }
        }
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) | Self::Regex(text) => text,
        }
    }

    /// The same as an expression.
    fn pattern(&self) -> String {
        match self {
            Self::Exact(text) => quote(text),
            Self::Prefix(text) if text == "/" => "/.*".to_owned(),
            Self::Prefix(text) => format!("{}(/.*)?", quote(text)),
            Self::Regex(text) => text.clone(),
        }
    }

    /// As the API writes it.
    pub(super) fn json(&self) -> Value {
        let name = match self {
            Self::Exact(_) => "Exact",
            Self::Prefix(_) => "PathPrefix",
            Self::Regex(_) => "RegularExpression",
        };
        json!({ "type": name, "value": self.text() })
    }
}

/// Whether the API takes a text as a path or prefix.
pub(super) fn is_plain(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let odd = ["//", "/./", "/../", "%2f"];
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@%".contains(&b);
    text.starts_with('/')
        && text.len() <= LONGEST_PATH
        && text.bytes().all(good)
        && !odd.iter().any(|part| lower.contains(part))
        && !lower.ends_with("/..")
        && !lower.ends_with("/.")
}

/// What a match asks beside the path, and what of it is lost; nothing where it cannot be asked.
pub(super) fn asked(matched: &HttpMatchRequest, lost: &mut Vec<Lost>) -> Option<Vec<Asked>> {
    let headers = conditions(&matched.headers)?;
    let query = conditions(&matched.query_params)?;
    let with = |method| Asked {
        method,
        headers: headers.clone(),
        query: query.clone(),
    };
    let stated = matched.method.as_ref().and_then(|m| m.match_type.as_ref());
    let methods: Vec<&str> = match stated {
        None => return Some(vec![with(None)]),
        Some(MatchType::Exact(text) | MatchType::Prefix(text) | MatchType::Regex(text)) => {
            text.split('|').collect()
        }
    };
    let known: Vec<Asked> = methods
        .iter()
        .filter(|method| METHODS.contains(method))
        .map(|method| with(Some((*method).to_owned())))
        .collect();
    if known.len() < methods.len() {
        lost.push(lost::METHODS);
    }
    Some(known)
}

fn conditions<'a>(
    stated: impl IntoIterator<Item = (&'a String, &'a StringMatch)>,
) -> Option<Vec<Value>> {
    let mut all = Vec::new();
    for (name, text) in stated {
        let (kind, value) = match &text.match_type {
            None => ("RegularExpression", ".*".to_owned()),
            Some(MatchType::Exact(text)) => ("Exact", text.clone()),
            Some(MatchType::Prefix(text)) => ("RegularExpression", format!("{}.*", quote(text))),
            Some(MatchType::Regex(text)) => ("RegularExpression", text.clone()),
        };
        if !is_value(&value) {
            return None;
        }
        all.push(json!({ "type": kind, "name": name, "value": value }));
    }
    (all.len() <= CONDITIONS).then_some(all)
}

/// Whether the API takes a text as the value of a header: words of visible characters.
pub(super) fn is_value(text: &str) -> bool {
    let good = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_graphic());
    text.len() <= 1024 && text.split([' ', '\t']).all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_what_paths_do() {
        let table = [
            (Path::Exact("/a.b".to_owned()), r"/a\.b"),
            (Path::Prefix("/".to_owned()), "/.*"),
            (Path::Prefix("/a".to_owned()), "/a(/.*)?"),
        ];
        for (path, wanted) in table {
            assert_eq!(path.pattern(), wanted);
        }
    }

    #[test]
    fn odd_paths_become_expressions() {
        let path = |prefix: &str| {
            Path::of(&HttpMatchRequest {
                uri: Some(StringMatch {
                    match_type: Some(MatchType::Prefix(prefix.to_owned())),
                }),
                ..HttpMatchRequest::default()
            })
        };
        assert_eq!(path("/a/"), Path::Prefix("/a".to_owned()));
        assert_eq!(path("/a b"), Path::Regex("/a b(/.*)?".to_owned()));
    }
}

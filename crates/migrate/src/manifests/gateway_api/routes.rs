//! HTTPRoutes and GRPCRoutes: the rules of a host in as many objects as they need.

use model::kinds::kube::ANY_HOST;
use model::{Kind, Namespace, ObjectKey, ObjectName};
use serde_json::{Map, Value, json};

use super::super::Manifest;
use super::rule::{Asked, Rule};
use super::rules::Rules;
use super::{Writing, grpc, named};

/// How many rules a route has at most.
const RULES: usize = 16;

/// How many matches a rule has at most, and all rules of a route together.
const MATCHES: (usize, usize) = (64, 128);

/// What is of later versions of the API only.
const EXPERIMENTAL: &str = "retry and sessionPersistence are in the experimental channel of the API; with the standard one leave them out.";

/// A host whose routes are written.
pub(super) struct Host<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a str,
    /// The comments of each object.
    pub(super) from: &'a [String],
}

/// Rules that do the same, one behind the other.
struct Group {
    rules: Vec<Rule>,
}

/// A route.
struct Part {
    namespace: Namespace,
    groups: Vec<Group>,
}

impl Writing<'_> {
    /// Writes the rules of a host, which attach to listeners.
    pub(super) fn routes(&mut self, host: &Host<'_>, of: &str, parents: Vec<Value>, rules: Rules) {
        let is_grpc = !rules.rules.is_empty() && rules.rules.iter().all(grpc::suits);
        let kind = match is_grpc {
            true => Kind::GrpcRoute,
            false => Kind::HttpRoute,
        };
        let mut unsaid: Vec<String> = rules.notes;
        for (name, lost) in &rules.left_out {
            self.manifests.lose(host.name, name, lost, &mut unsaid);
        }
        let parts = parts(rules.rules);
        let many = parts.len() > 1;
        for (at, part) in parts.into_iter().enumerate() {
            let name = named(of, host.name);
            let name = match many {
                // Of two routes the one whose name is less goes first.
                true => format!("p{:03}-{name}", at + 1),
                false => name,
            };
            let key = ObjectKey {
                kind,
                name: ObjectName::new(part.namespace.clone(), name),
            };
            let mut comments = host.from.to_vec();
            comments.append(&mut unsaid);
            let rules = self.part(host, &key, &part, &mut comments);
            let mut spec = json!({ "parentRefs": parents, "rules": rules });
            if host.name != ANY_HOST {
                spec["hostnames"] = json!([host.name]);
            }
            self.manifests
                .put(host.file, Manifest::new(&key, spec, &comments));
        }
    }

    /// The rules of a route.
    fn part(
        &mut self,
        host: &Host<'_>,
        key: &ObjectKey,
        part: &Part,
        comments: &mut Vec<String>,
    ) -> Vec<Value> {
        let mut rules = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        let mut is_experimental = false;
        for group in &part.groups {
            for rule in &group.rules {
                if !rule.lost.is_empty() && (rule.is_guard || !told.contains(&&*rule.name)) {
                    let (name, lost) = (&rule.name, &rule.lost);
                    self.manifests.lose(host.name, name, lost, comments);
                    told.push(name);
                }
            }
            let Some(first) = group.rules.first() else {
                continue;
            };
            let does = &first.does;
            is_experimental |= does.retry.is_some() || does.session.is_some();
            self.permit(key, &does.backends);
            let mirrors = does.filters.iter();
            let mirrors = mirrors.map(|f| f["requestMirror"]["backendRef"].clone());
            self.permit(key, &mirrors.collect::<Vec<_>>());
            rules.push(written(group, key.kind));
        }
        if is_experimental {
            comments.push(EXPERIMENTAL.to_owned());
        }
        rules
    }
}

fn written(group: &Group, kind: Kind) -> Value {
    let mut rule = Map::new();
    let matches = group.rules.iter().flat_map(|rule| {
        let matches = rule.asked.iter();
        matches.filter_map(move |asked| match kind {
            Kind::GrpcRoute => grpc::matched(rule, asked),
            _ => Some(matched(rule, asked)),
        })
    });
    let matches: Vec<Value> = matches.collect();
    let Some(first) = group.rules.first() else {
        return rule.into();
    };
    let does = &first.does;
    let lists = [
        ("matches", &matches),
        ("filters", &does.filters),
        ("backendRefs", &does.backends),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            rule.insert(name.to_owned(), list.clone().into());
        }
    }
    let fields = [
        ("timeouts", &does.timeouts),
        ("retry", &does.retry),
        ("sessionPersistence", &does.session),
    ];
    for (name, field) in fields {
        if let Some(field) = field {
            rule.insert(name.to_owned(), field.clone());
        }
    }
    rule.into()
}

fn matched(rule: &Rule, asked: &Asked) -> Value {
    let mut matched = json!({ "path": rule.path.json() });
    if let Some(method) = &asked.method {
        matched["method"] = (&**method).into();
    }
    if !asked.headers.is_empty() {
        matched["headers"] = asked.headers.clone().into();
    }
    if !asked.query.is_empty() {
        matched["queryParams"] = asked.query.clone().into();
    }
    matched
}

/// Rules in routes: those of one namespace, within the API's limits, in their order.
fn parts(rules: Vec<Rule>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for rule in rules {
        let of_same = parts.iter_mut().rev();
        let mut of_same = of_same.filter(|part| part.namespace == rule.namespace);
        match of_same.next().filter(|part| part.has_room(&rule)) {
            Some(part) => part.add(rule),
            None => parts.push(Part {
                namespace: rule.namespace.clone(),
                groups: vec![Group { rules: vec![rule] }],
            }),
        }
    }
    parts
}

impl Group {
    fn matches(&self) -> usize {
        self.rules.iter().map(|rule| rule.asked.len()).sum()
    }

    /// Whether a rule does the same and finds room.
    fn takes(&self, rule: &Rule) -> bool {
        let same = |own: &Rule| own.does == rule.does && !rule.does.by_prefix;
        self.rules.first().is_some_and(same) && self.matches() + rule.asked.len() <= MATCHES.0
    }
}

impl Part {
    fn has_room(&self, rule: &Rule) -> bool {
        let matches: usize = self.groups.iter().map(Group::matches).sum();
        let joins = self.groups.last().is_some_and(|last| last.takes(rule));
        matches + rule.asked.len() <= MATCHES.1 && (joins || self.groups.len() < RULES)
    }

    fn add(&mut self, rule: Rule) {
        match self.groups.last_mut().filter(|last| last.takes(&rule)) {
            Some(last) => last.rules.push(rule),
            None => self.groups.push(Group { rules: vec![rule] }),
        }
    }
}

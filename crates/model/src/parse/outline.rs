//! What a text that is not YAML says of the objects that it should hold, found line by line: kind, name and namespace, and of
//! DestinationRules and Ingresses their hosts and whether they protect.
//!
//! This is a guess, good enough to close what a broken policy was to protect, and for nothing else: no object that can be used
//! is read in this way.

mod hosts;
mod scan;

use std::collections::BTreeSet;

use super::list::listed;
use super::nearest::distance;
use super::node::{Entry, Node, Span, Value};
use super::{head, unsaid};
use crate::kinds::Kind;
use crate::kinds::kube::{is_canary_annotation, is_protecting_annotation, is_true};

use scan::Field;

/// An annotation that protects, with which a document says that it has one.
const PROTECTING: &str = "nginx.ingress.kubernetes.io/auth-url";
/// What named the class of an Ingress before there was a field for it.
const CLASS: &str = "kubernetes.io/ingress.class";
/// The field of an object that holds its metadata.
const METADATA: &str = "metadata";
/// Stands for a value that cannot be read.
const UNREAD: Value<'static> = Value::Bool(false);

/// So many objects of one text are looked at: a text that is not YAML may hold several where a line between them is missing.
const MOST_OBJECTS: usize = 16;
/// So many fields that name a kind are looked at.
const MOST_KINDS: usize = 64;

/// A text, or an item of a list in it, with the fields that it states.
struct Outline<'a> {
    text: &'a str,
    fields: Vec<Field<'a>>,
    /// Which of the fields hold metadata.
    metadata: Vec<usize>,
}

/// Each object, as what it may be, the likeliest first: a kind, and a document with its metadata. A list holds several.
pub(super) fn read(text: &str) -> Vec<Vec<(Kind, Node<'_>)>> {
    let outline = Outline::of(text, false);
    let listed = outline
        .kinds()
        .into_iter()
        .find_map(|(_, name)| listed(name));
    let of_list = listed.map(head::named).unwrap_or_default();
    match listed {
        Some(name) if name.is_empty() || !of_list.is_empty() => {
            let items = items(text).into_iter();
            items.flat_map(|item| item.objects(&of_list)).collect()
        }
        _ => outline.objects(&[]),
    }
}

impl<'a> Outline<'a> {
    fn of(text: &'a str, is_flow: bool) -> Self {
        let fields = scan::fields(text, is_flow);
        let called = |is_meant: fn(&str) -> bool| {
            let all = fields.iter().enumerate();
            let meant = all.filter(|(_, field)| is_meant(field.key));
            meant.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let mut metadata = called(|key| key == METADATA);
        if metadata.is_empty() {
            metadata = called(|key| head::is_near(key, METADATA));
        }
        Self {
            text,
            fields,
            metadata,
        }
    }

    /// The values of fields of one name.
    fn values(&self, key: &str) -> impl Iterator<Item = (usize, &'a str)> {
        let fields = self.fields.iter().enumerate();
        let called = fields.filter(move |(_, field)| field.key.eq_ignore_ascii_case(key));
        called
            .filter(|(_, field)| !field.value.is_empty())
            .map(|(at, field)| (at, field.value))
    }

    fn indent(&self, at: usize) -> usize {
        self.fields.get(at).map_or(0, |field| field.indent)
    }

    fn within(&self, at: usize) -> Option<usize> {
        self.fields.get(at)?.within
    }

    /// The first of the values of one name that are indented the least.
    fn value(&self, key: &str) -> Option<&'a str> {
        let least = self.values(key).min_by_key(|(at, _)| self.indent(*at));
        least.map(|(_, value)| value)
    }

    /// The kinds that are named, of those that are indented the least: others are those of what it refers to.
    fn kinds(&self) -> Vec<(usize, &'a str)> {
        let least = self.values("kind").map(|(at, _)| self.indent(at)).min();
        let kinds = self.values("kind");
        let outer = kinds.filter(|(at, _)| Some(self.indent(*at)) == least);
        outer.collect()
    }

    /// The objects that are named; where none is, one of the kind of the list that it is an item of.
    fn objects(&self, of_list: &[Kind]) -> Vec<Vec<(Kind, Node<'a>)>> {
        let named = self
            .values("kind")
            .map(|(at, name)| (at, head::named(name)));
        let named = named.filter(|(_, kinds)| !kinds.is_empty());
        let mut named: Vec<(usize, Vec<Kind>)> = named.collect();
        let least = named.iter().map(|(at, _)| self.indent(*at)).min();
        named.retain(|(at, _)| Some(self.indent(*at)) == least);
        named.truncate(MOST_KINDS);
        let ends: Vec<usize> = named.iter().skip(1).map(|(at, _)| *at).collect();
        let mut named: Vec<(Option<usize>, Vec<Kind>)> = named
            .into_iter()
            .map(|(at, kinds)| (Some(at), kinds))
            .collect();
        if named.is_empty() {
            let unsaid = self.unsaid().filter(|_| of_list.is_empty());
            named.push((None, unsaid.into_iter().collect()));
        }
        let ends = ends.into_iter().chain([self.fields.len()]);
        let mut objects: Vec<Vec<(Kind, Node<'a>)>> = Vec::new();
        let mut seen = BTreeSet::new();
        for ((at, mut kinds), end) in named.into_iter().zip(ends) {
            kinds.extend_from_slice(of_list);
            let metadata = self.metadata_of(at);
            let text = |key: &str| self.stated(key, metadata, at, end);
            let (name, namespace) = (text("name"), text("namespace"));
            let is_new = seen.insert((kinds.first().copied(), name, namespace));
            if kinds.is_empty() || !is_new || objects.len() >= MOST_OBJECTS {
                continue;
            }
            let mut stated = vec![("name", name), ("namespace", namespace)];
            let created = metadata.and_then(|metadata| self.inner(metadata, "creationTimestamp"));
            stated.push(("creationTimestamp", created));
            let document = |kind| (kind, self.document(kind, metadata, &stated));
            objects.push(kinds.into_iter().map(document).collect());
        }
        objects
    }

    /// The kind that may be meant where none is named that is known.
    fn unsaid(&self) -> Option<Kind> {
        let states = |field: &str| self.fields.iter().any(|found| found.key == field);
        let mut groups = self
            .values("apiVersion")
            .map(|(_, version)| head::group_of(version));
        let found = groups.find_map(|group| unsaid::of_group(group, states));
        found.or_else(|| self.by_fields())
    }

    /// The kind of a text that names neither a kind nor a group, by fields that nothing else has. Its namespace has to be stated: no
    /// other one is closed because of such a guess.
    fn by_fields(&self) -> Option<Kind> {
        let names = |key: &str| self.values(key).next().is_some();
        let metadata = self.metadata_of(None)?;
        self.inner(metadata, "namespace")?;
        if names("kind") || names("apiVersion") {
            return None;
        }
        let path = |field: &Field<'a>| {
            let within = self.fields.get(field.within?)?;
            Some((within.key, within.within, field.key))
        };
        let states = |field: &str| {
            let mut paths = self.fields.iter().filter_map(path);
            paths.any(|path| path == ("spec", None, field))
        };
        let rules = self.fields.iter().position(|field| {
            field.key == "rules" && path(field).is_some_and(|path| path.0 == "spec")
        });
        let has_policy_rules = rules.is_some_and(|rules| {
            let mut inner = self.fields.iter().filter(|f| f.within == Some(rules));
            inner.any(|field| unsaid::OF_POLICY_RULES.contains(&field.key))
        });
        let found = unsaid::of_fields(states, has_policy_rules);
        let is_annotated = || {
            let mut fields = self.fields.iter();
            fields.any(|field| {
                is_protecting_annotation(field.key)
                    && path(field)
                        .is_some_and(|(of, at, _)| of == "annotations" && at == Some(metadata))
            })
        };
        found.or_else(|| is_annotated().then_some(Kind::Ingress))
    }

    /// The metadata of the object whose kind stands there: what follows beside it, or else precedes it there, or else is indented
    /// the least.
    fn metadata_of(&self, kind: Option<usize>) -> Option<usize> {
        let beside = |at: &&usize| kind.is_none_or(|kind| self.within(**at) == self.within(kind));
        let (before, after) = self
            .metadata
            .split_at(self.metadata.partition_point(|at| Some(*at) < kind));
        let found = after.iter().find(beside);
        let found = found.or_else(|| before.iter().rfind(beside)).copied();
        found.or_else(|| {
            let all = self.metadata.iter().copied();
            all.min_by_key(|at| self.indent(*at))
        })
    }

    /// What a field of metadata says, or one of that name that stands beside it.
    fn stated(
        &self,
        key: &str,
        metadata: Option<usize>,
        kind: Option<usize>,
        end: usize,
    ) -> Option<&'a str> {
        if let Some(found) = metadata.and_then(|metadata| self.inner(metadata, key)) {
            return Some(found);
        }
        let begin = metadata.or(kind).unwrap_or(0);
        let beside = kind.and_then(|kind| self.within(kind));
        let mut values = self.values(key);
        let found = values.find(|(at, _)| (begin..end).contains(at) && self.within(*at) == beside);
        found.map(|(_, value)| value)
    }

    /// What a field of metadata says, misspelt or not: of several the one that is indented the least.
    fn inner(&self, metadata: usize, key: &str) -> Option<&'a str> {
        let fields = || {
            let fields = self.fields.iter();
            fields.filter(move |f| f.within == Some(metadata) && !f.value.is_empty())
        };
        let exact = fields().filter(|field| field.key == key);
        let found = exact.min_by_key(|field| field.indent);
        let found = found.or_else(|| fields().find(|field| head::is_near(field.key, key)));
        found.map(|field| field.value)
    }

    /// A document of what a text states of an object of a kind.
    fn document(
        &self,
        kind: Kind,
        metadata: Option<usize>,
        stated: &[(&'static str, Option<&'a str>)],
    ) -> Node<'a> {
        let stated = stated.iter();
        let mut stated: Vec<(&'static str, Node<'a>)> = stated
            .filter_map(|(key, value)| Some((*key, string((*value)?))))
            .collect();
        if kind == Kind::Ingress {
            let class = self.value(CLASS).map(|class| (CLASS, string(class)));
            let is_protected = is_protected(self.text) && !self.is_canary(metadata);
            let protects = is_protected.then(|| (PROTECTING, string("")));
            let annotations = class.into_iter().chain(protects).collect();
            stated.push(("annotations", map(annotations)));
        }
        let mut fields = vec![(METADATA, map(stated))];
        match kind {
            Kind::DestinationRule => fields.extend(rule(self).map(|spec| ("spec", spec))),
            Kind::Ingress => fields.push(("spec", ingress(self))),
            _ => {}
        }
        map(fields)
    }

    /// Whether annotations make a canary: all that say whether they do.
    fn is_canary(&self, metadata: Option<usize>) -> bool {
        let is_annotation = |field: &&Field<'_>| {
            let annotations = field.within.and_then(|within| self.fields.get(within));
            annotations.is_some_and(|a| a.key == "annotations" && a.within == metadata)
        };
        let mut canaries = self
            .fields
            .iter()
            .filter(|field| is_canary_annotation(field.key))
            .peekable();
        metadata.is_some()
            && canaries.peek().is_some()
            && canaries.all(|field| is_annotation(&field) && is_true(field.value))
    }
}

/// The spec of a DestinationRule that may ask for TLS: its hosts, and TLS of which nothing is known.
fn rule<'a>(outline: &Outline<'a>) -> Option<Node<'a>> {
    let hosts = hosts::of(outline.text);
    let is_rule = !hosts.is_empty() && mentions_tls(outline);
    is_rule.then(|| {
        let policy = map(vec![("tls", node(UNREAD))]);
        map(vec![("host", list(hosts)), ("trafficPolicy", policy)])
    })
}

/// The spec of an Ingress: its class, and its hosts with paths of which nothing is known.
fn ingress<'a>(outline: &Outline<'a>) -> Node<'a> {
    let text = outline.text;
    let rule = |host| map(vec![("host", host), ("http", node(UNREAD))]);
    let hosts: Vec<Node<'a>> = hosts::of(text).into_iter().map(rule).collect();
    let is_default = text.contains("defaultBackend");
    let class = outline.value("ingressClassName");
    let mut spec = Vec::new();
    spec.extend(class.map(|class| ("ingressClassName", string(class))));
    spec.extend(is_default.then(|| ("defaultBackend", map(Vec::new()))));
    match hosts.is_empty() {
        true if is_default && !text.contains("rules") => {}
        true => spec.push(("rules", node(UNREAD))),
        false => spec.push(("rules", list(hosts))),
    }
    map(spec)
}

/// Whether annotations of an Ingress protect it, or may as they stand elsewhere.
fn is_protected(text: &str) -> bool {
    // JSON may have its slashes so.
    let text = text.replace("\\/", "/");
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/');
    let is_elsewhere = |line: &str| {
        let line = line.trim_start();
        line.starts_with("<<") || line.starts_with("annotations") && line.contains('*')
    };
    words(&text, is_part).any(is_protecting_annotation) || uncommented(&text).any(is_elsewhere)
}

/// Whether a DestinationRule may ask for TLS: other than to have none.
fn mentions_tls(outline: &Outline<'_>) -> bool {
    const MODES: [&str; 3] = ["SIMPLE", "MUTUAL", "ISTIO_MUTUAL"];
    const FIELDS: [&str; 6] = [
        "caCertificates",
        "clientCertificate",
        "credentialName",
        "privateKey",
        "sni",
        "subjectAltNames",
    ];
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = || words(outline.text, is_part);
    let asks = |word: &str| MODES.contains(&word) || FIELDS.contains(&word);
    let is_tls =
        |word: &str| word.to_ascii_lowercase().contains("tls") || distance(word, "tls") == 1;
    let mut modes = outline.values("mode").map(|(_, mode)| mode).peekable();
    let is_off = modes.peek().is_some() && modes.all(|mode| mode == "DISABLE");
    words().any(asks) || !is_off && words().any(is_tls)
}

/// The items of a list: each from its dash to the next, or, where they are written on lines with others, from one kind
/// to the next.
fn items(text: &str) -> Vec<Outline<'_>> {
    let is_items = |line: &str| {
        let key = line.trim_end().strip_suffix(':');
        key.is_some_and(|key| distance(key, "items") <= 2)
    };
    let after = lines(text).find(|(_, line)| is_items(line));
    let after = after.map(|(at, line)| at + line.len());
    let mut begins: Vec<usize> = Vec::new();
    if let Some(after) = after {
        let dashes = lines(&text[after..]).filter(|(_, line)| line.trim_start().starts_with('-'));
        let dashes = dashes.filter(|(_, line)| !line.starts_with("---"));
        let dashes: Vec<(usize, usize)> = dashes
            .map(|(at, line)| (after + at, line.len() - line.trim_start().len()))
            .collect();
        let indent = dashes.first().map(|(_, indent)| *indent);
        begins = dashes
            .into_iter()
            .filter(|(_, of)| Some(*of) == indent)
            .map(|(at, _)| at)
            .collect();
    }
    if begins.is_empty() {
        begins = text.match_indices("kind").map(|(at, _)| at).collect();
    }
    // What stands inside of brackets begins behind one, or behind a comma.
    let is_flow = |at: usize| {
        let before =
            text[..at].trim_end_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
        before.ends_with(['{', ','])
    };
    let ends = begins.iter().copied().skip(1).chain([text.len()]);
    let all = begins
        .iter()
        .zip(ends)
        .map(|(from, to)| Outline::of(&text[*from..to], is_flow(*from)));
    let is_list = |item: &Outline<'_>| {
        let mut kinds = item.values("kind");
        kinds.next().is_some_and(|(_, kind)| listed(kind).is_some())
    };
    all.filter(|item| !is_list(item)).collect()
}

/// Lines with where they begin.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        at += line.len();
        (at - line.len(), line)
    })
}

/// Lines that are not comments.
fn uncommented(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines();
    lines.filter(|line| !line.trim_start().starts_with('#'))
}

/// The words of lines that are not comments, of these characters.
fn words(text: &str, is_part: fn(char) -> bool) -> impl Iterator<Item = &str> {
    uncommented(text).flat_map(move |line| line.split(move |c: char| !is_part(c)))
}

fn node(value: Value<'_>) -> Node<'_> {
    Node {
        value,
        span: Span::default(),
    }
}

fn string(text: &str) -> Node<'_> {
    node(Value::String(text.into()))
}

fn list(items: Vec<Node<'_>>) -> Node<'_> {
    node(Value::Seq(items))
}

fn map<'a>(fields: Vec<(&'static str, Node<'a>)>) -> Node<'a> {
    let entry = |(key, value): (&'static str, Node<'a>)| Entry {
        key: key.into(),
        at: Span::default(),
        value,
    };
    node(Value::Map(fields.into_iter().map(entry).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let objects = read(text)
            .into_iter()
            .filter_map(|kinds| kinds.into_iter().next());
        let told = objects.map(|(kind, document)| {
            let metadata = document.get("metadata").unwrap();
            let text = |key| metadata.get(key).and_then(Node::as_str).unwrap_or("-");
            format!("{} {}/{}", kind.name(), text("namespace"), text("name"))
        });
        told.collect()
    }

    #[test]
    fn kind_name_and_namespace_are_found_however_they_are_written() {
        let block = "apiVersion: a/v1\nkind: AuthorizationPolicy\nmetadata:\n  namespace: shop # ours\n  name: p\nspec: {a: [";
        let flow =
            "kind: \"AuthorizationPolicy\"\nmetadata: {name: p, namespace: 'shop'}\n\tspec: x";
        let json = "{\"kind\": \"AuthorizationPolicy\", \"metadata\": {\"name\": \"p\", \"namespace\": \"shop\"}, \"spec\": ";
        let last = "spec:\n  targetRefs:\n  - kind: Gateway\n    name: g\n  x: [\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}";
        for text in [block, flow, json, last] {
            assert_eq!(told(text), ["AuthorizationPolicy shop/p"], "{text}");
        }
        for text in ["", "kind:", "kind: Unheard", "a: {"] {
            assert!(read(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn each_item_of_a_list_is_found() {
        let wanted = ["AuthorizationPolicy shop/p", "PeerAuthentication shop/q"];
        let block = "kind: List\nitems:\n- kind: AuthorizationPolicy\n  metadata: {name: p, namespace: shop}\n  spec:\n    rules:\n    - {\n\
                     - metadata: {name: q, namespace: shop}\n  kind: PeerAuthentication\n";
        let flow = "{\"kind\": \"List\", \"items\": [{\"kind\": \"AuthorizationPolicy\", \"metadata\": {\"name\": \"p\", \"namespace\": \"shop\"}}, \
                    {\"kind\": \"PeerAuthentication\", \"metadata\": {\"namespace\": \"shop\", \"name\": \"q\"}, ";
        for text in [block, flow] {
            assert_eq!(told(text), wanted, "{text}");
        }
        let one = "kind: PeerAuthenticationList\nitems:\n  - metadata: {name: q, namespace: shop}\n    spec: [\n";
        assert_eq!(told(one), ["PeerAuthentication shop/q"]);
    }

    #[test]
    fn a_namespace_is_that_of_the_metadata_of_the_object() {
        let policy = |metadata: &str| {
            format!(
                "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n{metadata}spec: {{a: [\n"
            )
        };
        for metadata in [
            "metadata:\n  labels: {app: x, namespace: other}\n  namespace: shop\n  name: p\n",
            "metadata: {labels: {app: x, namespace: other}, namespace: shop, name: p}\n",
            "metadata:\n  labels:\n    namespace: other\n  namespace: shop\n  name: p\n",
            "metadata:\n  name: p # moved, namespace: other\n  namespace: shop\n",
            "metadata:\n  annotations: {note: \"was in a, namespace: other\"}\n  name: p\n  namespace: shop\n",
            "metadata:\n  annotations:\n    note: |\n      namespace: other\n  name: p\n  namespace: shop\n",
            "metadata:\n  labels: {namespace other: x}\n  name: p\n  namespace: shop\n",
            "metadata:\n  name: p\n  namespace: &n shop\n",
            "metadata: {name: !!str p, namespace: !!str shop}\n",
            "metadata:\n  name: p\n  namespace:\n    shop\n",
            "metadata:\nname: p\nnamespace: shop\n",
            "metadata:\n  name: p\n namespace: shop\n",
            "metdata:\n  name: p\n  namespce: shop\n",
        ] {
            let text = policy(metadata);
            assert_eq!(told(&text), ["AuthorizationPolicy shop/p"], "{text}");
        }
        let only_elsewhere = "metadata:\n  name: p\n  labels: {namespace: other}\n";
        assert_eq!(told(&policy(only_elsewhere)), ["AuthorizationPolicy -/p"]);
    }

    #[test]
    fn an_object_that_nothing_divides_from_another_has_a_namespace_of_its_own() {
        let first =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: other}\ndata: {}\n";
        let policy =
            "kind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\nspec: {a: [\n";
        let text = format!("{first}apiVersion: security.istio.io/v1\n{policy}");
        let wanted = ["ConfigMap other/c", "AuthorizationPolicy shop/p"];
        assert_eq!(told(&text), wanted);
        let before =
            "metadata: {name: p, namespace: shop}\nkind: AuthorizationPolicy\nspec: {a: [\n";
        assert_eq!(told(before), ["AuthorizationPolicy shop/p"]);
    }

    #[test]
    fn only_the_annotation_with_the_value_true_makes_a_canary() {
        let is_protected = |more: &str, path: &str| {
            let text = format!(
                "kind: Ingress\nmetadata:\n  name: a\n  labels: {{app.kubernetes.io/canary: \"true\"}}\n  annotations:\n    \
                 nginx.ingress.kubernetes.io/auth-url: http://auth/canary\n    {more}\nspec: # see /canary\n  rules:\n  - host: a.test\n    \
                 http: {{paths: [{{path: {path}\n"
            );
            let objects = read(&text);
            let annotations = objects[0][0].1.get("metadata").unwrap().get("annotations");
            annotations.unwrap().get(PROTECTING).is_some()
        };
        assert!(is_protected("x: y", "/canary"));
        assert!(is_protected(
            "nginx.ingress.kubernetes.io/canary: \"false\"",
            "/"
        ));
        assert!(!is_protected(
            "nginx.ingress.kubernetes.io/canary: \"true\"",
            "/"
        ));
        assert!(!is_protected("higress.io/canary: 'true'", "/v1/canary"));
    }
}

//! The substitutes of rejected objects that protect: which kinds protect, and how each closes.
//!
//! A substitute covers what the rejected object's selector or references cover. Where these cannot be read, a policy
//! covers its whole namespace, as one without a selector does. An object that protects nothing (a policy that only audits, a
//! dry run, a DestinationRule without TLS) has no substitute.
//!
//! An object that protects is rejected in every mode of validation where a field of it is unknown or stands twice: without
//! `rulez`, a policy that denies would deny nothing, and one that allows could allow everything.

mod destination_rule;
mod ingress;

use std::borrow::Cow;
use std::sync::Arc;

use super::check::{Fault, Finding};
use super::node::{Entry, Node, Path, Span, Step, Value};
use super::{DEFAULT_NAMESPACE, Reader, Remark, code, head, meta, read_kind, readings, yaml};
use crate::closed::{Closed, EVERY_SERVICE};
use crate::diagnostic::{Diagnostic, Severity};
use crate::kinds::kube::is_true;
use crate::kinds::{AnyObject, Kind};
use crate::labels::Labels;
use crate::object::{Meta, ObjectKey, ObjectName};

/// A name that no certificate of a public authority is for.
const NOBODY: &str = "closed.invalid";

/// What names of enums begin with that say nothing.
const UNSPECIFIED: &str = "UNSPECIFIED";

/// What may stand in place of an object.
pub(super) struct Substitutes<'a> {
    kind: Kind,
    meta: Meta,
    /// One for each host of a rule that names several, and else one. Of each the narrowest spec first: the first that is valid
    /// counts.
    specs: Vec<Vec<Node<'a>>>,
}

/// The specs of the substitutes of an object: of all readings of a document those that close the most, unless they close the same.
fn specs_of<'d, 'a: 'd>(
    kind: Kind,
    documents: impl Iterator<Item = &'d Node<'a>>,
) -> Vec<Node<'a>> {
    let all = documents.map(|document| specs(kind, document));
    let mut all: Vec<Vec<Node<'a>>> = all.filter(|specs| !specs.is_empty()).collect();
    let Some(first) = all.first() else {
        return Vec::new();
    };
    if kind == Kind::Ingress && all.len() > 1 {
        return ingress::joined(all);
    }
    let says_same = |specs: &Vec<Node<'a>>| {
        specs.len() == first.len() && specs.iter().zip(first).all(|(one, other)| one.says(other))
    };
    if all.iter().all(says_same) {
        return all.swap_remove(0);
    }
    all.into_iter()
        .filter_map(|mut specs| specs.pop())
        .collect()
}

/// The specs of the substitutes of an object, as it is written.
fn specs<'a>(kind: Kind, document: &Node<'a>) -> Vec<Node<'a>> {
    let spec = document.get("spec");
    match kind {
        Kind::AuthorizationPolicy if audits(document) => Vec::new(),
        Kind::AuthorizationPolicy => {
            let everything = list(vec![map(Vec::new())]);
            policy(spec, &[("action", text("DENY")), ("rules", everything)])
        }
        Kind::RequestAuthentication => policy(spec, &[]),
        Kind::PeerAuthentication => {
            let strict = map(vec![("mode", text("STRICT"))]);
            policy(spec, &[("mtls", strict)])
        }
        Kind::DestinationRule => destination_rule::specs(document),
        Kind::Ingress => ingress::specs(document),
        Kind::BackendTlsPolicy => spec.map(backend_tls).unwrap_or_default(),
        Kind::WasmPlugin => spec.map(|spec| plugin(spec, None)).unwrap_or_default(),
        Kind::TrafficExtension => spec
            .map(|spec| plugin(spec, Some("wasm")))
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Whether objects of a kind may have a substitute.
pub(super) fn may_protect(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AuthorizationPolicy
            | Kind::BackendTlsPolicy
            | Kind::DestinationRule
            | Kind::Ingress
            | Kind::PeerAuthentication
            | Kind::RequestAuthentication
            | Kind::TrafficExtension
            | Kind::WasmPlugin
    )
}

/// The fields that say for which workloads a policy is.
const COVERS: [&str; 3] = ["selector", "targetRefs", "targetRef"];

/// What is wrong with a policy that has a selector and references: no proxy would do what both say.
pub(super) fn contradiction(kind: Kind, document: &Node<'_>) -> Option<Finding> {
    let kinds = [Kind::AuthorizationPolicy, Kind::RequestAuthentication];
    let spec = document.get("spec").filter(|_| kinds.contains(&kind))?;
    let [selector, references @ ..] = COVERS;
    let is_stated = |field: &&str| match spec.get(field).map(|value| &value.value) {
        Some(Value::Seq(items)) => !items.is_empty(),
        Some(Value::Map(fields)) => !fields.is_empty(),
        _ => false,
    };
    let stated = references.into_iter().find(|field| is_stated(field))?;
    is_stated(&selector).then(|| Finding {
        fault: Fault::Invalid,
        path: Path::of("spec").with(stated),
        span: spec.get(stated).map_or(spec.span, |value| value.span),
        message: format!("`{stated}` and `{selector}` exclude each other"),
        help: Some("remove one of the two".to_owned()),
    })
}

/// Whether what an object of a kind that protects says is not read in part, because of a fault that others may have.
pub(super) fn leaves_unread(kind: Kind, finding: &Finding) -> bool {
    if finding.fault == Fault::BadPath {
        return true;
    }
    let is_twice = finding.fault == Fault::DuplicateKey;
    if !is_twice && !matches!(finding.fault, Fault::Newer | Fault::UnknownField) {
        return false;
    }
    let mut fields = finding.path.0.iter().map(|step| match step {
        Step::Field(field) => &**field,
        Step::Index(_) => "",
    });
    match (fields.next(), fields.next()) {
        (Some("status"), _) => false,
        // Annotations may say whether it protects, and the namespace what; what is not known may have been any of them.
        (Some("metadata"), within) => {
            !is_twice || matches!(within, None | Some("annotations" | "namespace"))
        }
        _ => {
            kind != Kind::DestinationRule
                || destination_rule::leaves_unread(&finding.path, is_twice)
        }
    }
}

/// The finding that says why an object is rejected: the first error, or the first one within the part that this is about. A part that
/// has nothing but a field that is unknown is found empty as well, and the field is what its author has to mend.
pub(super) fn cause(found: &[Diagnostic]) -> Option<&Diagnostic> {
    let mut errors = found.iter().filter(|d| d.severity == Severity::Error);
    let first = errors.next()?;
    let is_within = |d: &&Diagnostic| {
        let inner = d.path.strip_prefix(&*first.path);
        !first.path.is_empty() && inner.is_some_and(|inner| inner.starts_with(['.', '[']))
    };
    Some(errors.find(is_within).unwrap_or(first))
}

/// A policy for the same workloads, and one for the whole namespace.
fn policy<'a>(spec: Option<&Node<'a>>, closing: &[(&'static str, Node<'a>)]) -> Vec<Node<'a>> {
    let stated = |field: &'static str| {
        let value = spec?.get(field).filter(|value| !value.is_null())?;
        Some((field, value.clone()))
    };
    let mut covers: Vec<_> = COVERS.into_iter().filter_map(stated).collect();
    // Which of several counts is not known.
    if covers.len() > 1 {
        covers.clear();
    }
    let wide = map(closing.to_vec());
    if covers.is_empty() {
        return vec![wide];
    }
    covers.extend_from_slice(closing);
    vec![map(covers), wide]
}

/// A policy for the same backends that trusts nobody. Without references it is for none; where one cannot be read, for all
/// Services of the namespace as well.
fn backend_tls<'a>(spec: &Node<'a>) -> Vec<Node<'a>> {
    let stated = spec.get("targetRefs").filter(|refs| !refs.is_null());
    let (references, is_list): (&[Node<'a>], bool) = match stated.map(|refs| &refs.value) {
        None => (&[], true),
        Some(Value::Seq(references)) => (references, true),
        Some(_) => (&[], false),
    };
    let fields = ["group", "kind", "name", "sectionName"];
    let reference = |written: &Node<'a>| {
        let value = |field: &&'static str| {
            let value = written
                .get(field)
                .filter(|value| value.as_str().is_some())?;
            Some((*field, value.clone()))
        };
        map(fields.iter().filter_map(value).collect())
    };
    let is_read = |written: &&Node<'a>| {
        let is_text = |field: &str| written.get(field).is_some_and(|f| f.as_str().is_some());
        ["group", "kind", "name"].into_iter().all(is_text)
    };
    let read: Vec<Node<'a>> = references.iter().filter(is_read).map(reference).collect();
    let every = map(vec![
        ("group", text("")),
        ("kind", text("Service")),
        ("name", text(EVERY_SERVICE)),
    ]);
    let policy = |references: Vec<Node<'a>>| {
        let validation = map(vec![
            ("hostname", text(NOBODY)),
            ("wellKnownCACertificates", text("None")),
        ]);
        map(vec![
            ("targetRefs", list(references)),
            ("validation", validation),
        ])
    };
    if is_list && read.len() == references.len() {
        return vec![policy(read), policy(vec![every])];
    }
    let mut all = read;
    all.push(every.clone());
    vec![policy(all), policy(vec![every])]
}

/// A filter for the same workloads that lets nothing through, in place of one that protects: one of the phases that do, or one
/// that is to close where it cannot run; one whose author lets requests pass then protects nothing. What is said of its module
/// is in that field, or in the spec itself.
fn plugin<'a>(spec: &Node<'a>, field: Option<&'static str>) -> Vec<Node<'a>> {
    let stated = |field: &str| spec.get(field).filter(|value| !value.is_null());
    let module = |name: &str| match field {
        Some(field) => spec.get(field)?.get(name),
        None => spec.get(name),
    };
    let phase = stated("phase").and_then(phase_of);
    let protects = match module("failStrategy").and_then(Node::as_str) {
        Some("FAIL_OPEN") => false,
        Some("FAIL_CLOSE") => true,
        _ => matches!(phase, Some("AUTHN" | "AUTHZ")),
    };
    if !protects {
        return Vec::new();
    }
    let mut closing: Vec<_> = phase
        .map(|phase| ("phase", text(phase)))
        .into_iter()
        .collect();
    let is_network = match module("type").filter(|of| !of.is_null()) {
        None => false,
        // It closes more than one for requests would.
        Some(of) => !of
            .as_str()
            .is_some_and(|of| of == "HTTP" || of.starts_with(UNSPECIFIED)),
    };
    // It is not fetched.
    let mut unread = vec![("url", text("https://closed.invalid/"))];
    if is_network {
        unread.push(("type", text("NETWORK")));
    }
    match field {
        None => closing.extend(unread),
        Some(field) => closing.push((field, map(unread))),
    }
    let wide = policy(Some(spec), &closing);
    let Some(matches) = stated("match") else {
        return wide;
    };
    closing.push(("match", matches.clone()));
    let narrow = policy(Some(spec), &closing).into_iter();
    narrow
        .zip(wide)
        .flat_map(|(narrow, wide)| [narrow, wide])
        .collect()
}

/// The phase of a filter, if it has one; one that cannot be read counts as one that protects.
fn phase_of(phase: &Node<'_>) -> Option<&'static str> {
    match &phase.value {
        Value::String(name) => match &**name {
            unspecified if unspecified.starts_with(UNSPECIFIED) => None,
            "STATS" => Some("STATS"),
            "AUTHZ" => Some("AUTHZ"),
            _ => Some("AUTHN"),
        },
        Value::Int(0) => None,
        Value::Int(2) => Some("AUTHZ"),
        Value::Int(3) => Some("STATS"),
        _ => Some("AUTHN"),
    }
}

/// Whether an AuthorizationPolicy, as far as it can be read, denies nothing: it audits, or is a dry run.
fn audits(document: &Node<'_>) -> bool {
    let text = |path: &[&str]| {
        let mut node = document;
        for field in path {
            node = node.get(field)?;
        }
        node.as_str()
    };
    let dry_run = text(&["metadata", "annotations", "istio.io/dry-run"]);
    text(&["spec", "action"]) == Some("AUDIT") || dry_run.is_some_and(is_true)
}

fn node(value: Value<'_>) -> Node<'_> {
    Node {
        value,
        span: Span::default(),
    }
}

fn text<'a>(text: &'static str) -> Node<'a> {
    node(Value::String(Cow::Borrowed(text)))
}

fn list(items: Vec<Node<'_>>) -> Node<'_> {
    node(Value::Seq(items))
}

fn map<'a>(fields: Vec<(&'static str, Node<'a>)>) -> Node<'a> {
    let entry = |(key, value)| Entry {
        key: Cow::Borrowed(key),
        at: Span::default(),
        value,
    };
    node(Value::Map(fields.into_iter().map(entry).collect()))
}

impl Reader<'_> {
    /// What may stand in place of an object, of all that its document may mean; `None` where it protects nothing, or nobody can
    /// say in which namespace.
    pub(super) fn substitutes<'d, 'n: 'd>(
        &self,
        kind: Kind,
        documents: impl Iterator<Item = &'d Node<'n>> + Clone,
        meta: Option<&Meta>,
        line: u32,
    ) -> Option<Substitutes<'n>> {
        let specs = specs_of(kind, documents.clone());
        let specs = match kind {
            _ if specs.is_empty() => Vec::new(),
            Kind::DestinationRule => destination_rule::by_host(&specs, documents.clone()),
            _ => vec![specs],
        };
        let document = documents.clone().next().filter(|_| !specs.is_empty())?;
        let meta = match meta {
            Some(meta) => meta.clone(),
            None => self.unnamed(document, line)?,
        };
        Some(Substitutes { kind, meta, specs })
    }

    /// The substitutes of an object that is rejected because of `wrong`: its own, then those that stand beside it.
    pub(super) fn substitute(
        &self,
        substitutes: Substitutes<'_>,
        wrong: Option<&Diagnostic>,
    ) -> Vec<AnyObject> {
        let Substitutes {
            kind,
            mut meta,
            specs,
        } = substitutes;
        if kind == Kind::AuthorizationPolicy {
            // One of them may say that the policy is a dry run, which is in question.
            meta.annotations = Labels::default();
        }
        meta.closed = Some(Arc::new(Closed {
            path: wrong.map_or_else(Arc::default, |d| d.path.clone()),
            why: wrong.map_or_else(|| "it is not valid".into(), |d| d.message.clone()),
        }));
        let mut found: Vec<AnyObject> = Vec::new();
        for specs in specs {
            let mut meta = meta.clone();
            if !found.is_empty() {
                // No object that is written has such a name.
                let name = format!("{}:{}", meta.name.name, found.len() + 1);
                meta.name = ObjectName::new(meta.name.namespace.clone(), name);
            }
            found.extend(self.first_valid(kind, specs, &meta));
        }
        found
    }

    /// The object of the first spec that is valid.
    fn first_valid(&self, kind: Kind, specs: Vec<Node<'_>>, meta: &Meta) -> Option<AnyObject> {
        specs.into_iter().find_map(|spec| {
            let (document, meta) = (map(vec![("spec", spec)]), Some(meta.clone()));
            let mut findings = Vec::new();
            let object = read_kind(kind, document, meta, &mut findings)?;
            let mut remarks = Vec::new();
            self.judge.object(&object, &mut remarks);
            let is_error = |r: &Remark| r.severity == Severity::Error;
            let valid = findings.is_empty() && !remarks.iter().any(is_error);
            valid.then_some(object)
        })
    }

    /// The substitutes of a document of which the kind alone could be read for certain.
    fn substitutes_unread(&self, kind: Kind, document: &Node<'_>, line: u32) -> Vec<AnyObject> {
        let raw = meta::read(document, kind, DEFAULT_NAMESPACE, &mut Vec::new());
        let meta = raw.map(|raw| self.meta(raw, line));
        let substitutes = self.substitutes(kind, std::iter::once(document), meta.as_ref(), line);
        let wrong = self.parsed.diagnostics.last();
        let found = substitutes.map(|substitutes| self.substitute(substitutes, wrong));
        found.unwrap_or_default()
    }

    /// Gives the last document its substitute, and adds those that stand beside it.
    pub(super) fn put(&mut self, substitutes: Vec<AnyObject>) {
        let mut substitutes = substitutes.into_iter();
        let (Some(own), Some(document)) = (substitutes.next(), self.parsed.documents.last_mut())
        else {
            return;
        };
        let (line, key) = (document.line, own.key());
        document.substitute = Some(own);
        for substitute in substitutes {
            self.refused(line, Some(substitute.key()));
            if let Some(document) = self.parsed.documents.last_mut() {
                document.substitute = Some(substitute);
                document.beside = Some(key.clone());
            }
        }
    }

    /// Closes what a document that is not read would be for who reads the first of two kinds or versions.
    pub(super) fn close_earlier<'n>(
        &mut self,
        node: &Node<'n>,
        line: u32,
        mut twice: Vec<yaml::Duplicate<'n>>,
    ) {
        twice.retain(|duplicate| match duplicate.path.0.as_slice() {
            [Step::Field(field)] => matches!(&**field, "apiVersion" | "kind"),
            _ => false,
        });
        for duplicate in &twice {
            let at = Node {
                value: Value::Null,
                span: duplicate.span,
            };
            self.refuse(&at, line, code::DUPLICATE_KEY, duplicate.message(), None);
        }
        let readings = readings::of(node, twice);
        self.close_others(&readings, line, None);
    }

    /// Closes what a document would be for who reads the first of keys that stand twice, if that is another object.
    pub(super) fn close_others(
        &mut self,
        readings: &[Node<'_>],
        line: u32,
        key: Option<&ObjectKey>,
    ) {
        for reading in readings {
            let Some(kind) = head::kinds(reading, "").into_iter().next() else {
                continue;
            };
            let raw = meta::read(reading, kind, DEFAULT_NAMESPACE, &mut Vec::new());
            let other = raw.map(|raw| ObjectKey {
                kind,
                name: raw.name,
            });
            let mut there = self.parsed.documents.iter().filter_map(|d| d.key.as_ref());
            if other.is_none() || other.as_ref() == key || there.next_back() == other.as_ref() {
                continue;
            }
            self.add_closed(reading, line, kind);
        }
    }

    /// Adds the substitutes of an object that is none of the documents, if it protects something; whether it does.
    pub(super) fn add_closed(&mut self, node: &Node<'_>, line: u32, kind: Kind) -> bool {
        let substitutes = self.substitutes_unread(kind, node, line);
        if let Some(own) = substitutes.first() {
            self.refused(line, Some(own.key()));
        }
        let protects = !substitutes.is_empty();
        self.put(substitutes);
        protects
    }

    /// Gives the document that was just refused the substitutes of an object of that kind, if it protects something; whether it
    /// does.
    pub(super) fn close(&mut self, node: &Node<'_>, line: u32, kind: Kind) -> bool {
        let substitutes = self.substitutes_unread(kind, node, line);
        let (Some(own), Some(document)) = (substitutes.first(), self.parsed.documents.last_mut())
        else {
            return false;
        };
        document.key = Some(own.key());
        self.put(substitutes);
        true
    }

    /// The metadata of an object without a name: it is called by where it stands. `None` where its namespace cannot be read.
    fn unnamed(&self, document: &Node<'_>, line: u32) -> Option<Meta> {
        let namespace = match head::near(document, "metadata") {
            Some(metadata) => meta::namespace_of(metadata, DEFAULT_NAMESPACE)?,
            None => DEFAULT_NAMESPACE.into(),
        };
        let file = self.file.file_name().unwrap_or_default().display();
        let name = ObjectName::new(&*namespace, format!("{file}:{line}"));
        Some(Meta::new(name, self.origin(line)))
    }
}

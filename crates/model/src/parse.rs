//! Manifests to objects: YAML with any number of documents, or JSON.
//!
//! Reading never fails as a whole: a document that cannot be read affects itself and yields findings that say where
//! and what. Scalars mean what Kubernetes takes them for, durations and numbers are read as leniently as Istio reads
//! them. Nothing here does I/O.

mod body;
mod check;
mod closed;
mod de;
mod encode;
mod former;
mod head;
mod hosts;
mod json;
mod judge;
mod list;
mod locate;
mod meta;
mod nearest;
mod node;
mod outline;
mod readings;
mod scalar;
mod secret;
mod template;
mod tree;
mod undecoded;
mod unsaid;
mod yaml;

use std::path::Path as FilePath;
use std::str::FromStr;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Excerpt, Severity};
use crate::kinds::{AnyObject, Kind};
use crate::names::Namespace;
use crate::object::{Meta, Object, ObjectKey, ObjectName, Origin};

pub use locate::Locator;

use body::Readable;
use check::{Fault, Finding};
use node::{Node, Span};

pub use json::{
    Decoded, DuplicateKey, decode_json, decode_yaml, from_json, from_json_judged, to_json,
};
pub use judge::{Judge, Raw, Remark};
pub(crate) use meta::is_label;
pub use nearest::{distance, nearest};
pub use node::{Path, Place, Step};
pub(crate) use tree::Tree;
pub use undecoded::parse_undecoded;

/// The namespace of objects that name none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Codes of what reading finds.
pub mod code {
    /// Text that is no YAML.
    pub const SYNTAX: &str = "PIL0001";
    /// A document that is no object: without `kind` or `apiVersion`.
    pub const NO_OBJECT: &str = "PIL0002";
    /// A kind or version of a group that is read, but does not exist.
    pub const UNKNOWN_KIND: &str = "PIL0003";
    /// An object of a kind that is not read.
    pub const FOREIGN_KIND: &str = "PIL0004";
    /// A field that the kind does not have.
    pub const UNKNOWN_FIELD: &str = "PIL0005";
    /// A key that stands twice in the same map.
    pub const DUPLICATE_KEY: &str = "PIL0006";
    /// An environment variable, or an item of its list, that has no meaning.
    pub const ENVIRONMENT: &str = "PIL0007";
    /// A value that does not fit. istioctl's SchemaValidationError.
    pub const INVALID: &str = "IST0106";
}

/// So many findings are told of one object.
const MOST_FINDINGS: usize = 100;
/// Characters of a message or a path that are told.
const LONGEST_TOLD: usize = 500;

/// What becomes of an object with fields that its kind does not have, with keys that stand twice, or with a name that no
/// API server would take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Validation {
    /// It is refused, as `kubectl --validate=strict` and istiod's webhook would.
    #[default]
    Strict,
    /// It is used as far as it is understood, as an object that got past the webhook. What protects is refused where a part of it
    /// is not understood.
    Warn,
    /// It is used as far as it is understood, and told what is wrong as in [`Validation::Strict`]: for who looks at
    /// objects and does not serve them.
    Tell,
}

/// A validation mode that does not exist. The operator who set it can fix it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a validation mode: expected strict or warn")]
pub struct UnknownValidation;

impl FromStr for Validation {
    type Err = UnknownValidation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "strict" => Ok(Self::Strict),
            "warn" => Ok(Self::Warn),
            _ => Err(UnknownValidation),
        }
    }
}

/// What a text holds.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// Its objects in the order written, also those that were refused. Kinds that are not read are left out.
    pub documents: Vec<Document>,
    /// What there is to say about them.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// The objects that can be used, in the order written.
    pub fn objects(&self) -> impl Iterator<Item = &AnyObject> {
        self.documents.iter().filter_map(|d| d.object.as_ref())
    }

    /// The objects that count where no earlier version is known, in the order written: those that can be used, and the
    /// substitutes of others.
    pub fn in_force(&self) -> impl Iterator<Item = &AnyObject> {
        let objects = self.documents.iter();
        objects.filter_map(|d| d.object.as_ref().or(d.substitute.as_ref()))
    }
}

/// One object of a text.
#[derive(Clone, Debug)]
pub struct Document {
    /// Line of its first content, counted from 1.
    pub line: u32,
    /// Which object it is, where that much could be read.
    pub key: Option<ObjectKey>,
    /// The object; `None` where it was refused.
    pub object: Option<AnyObject>,
    /// What takes the place of an object that was refused and protects something ([`crate::closed`]).
    pub substitute: Option<AnyObject>,
    /// The object whose document needs this substitute as well as its own, as a rule does that names several hosts: it counts
    /// where that one's own substitute does.
    pub beside: Option<ObjectKey>,
    /// Its text is not YAML, so nobody knows where it ends.
    pub is_broken: bool,
}

/// Reads the objects of a text. `file` is where it comes from, for people to find it.
pub fn parse(text: &str, file: &Arc<FilePath>, validation: Validation) -> Parsed {
    parse_judged(text, file, validation, &Unjudged)
}

/// As [`parse`], with what `judge` has to say about each object. Its errors refuse an object as
/// [`Validation::Strict`] says.
pub fn parse_judged(
    text: &str,
    file: &Arc<FilePath>,
    validation: Validation,
    judge: &dyn Judge,
) -> Parsed {
    let mut reader = Reader::new(text, file, validation);
    reader.judge = judge;
    for part in yaml::parts(text) {
        let Some(document) = part.read() else {
            continue;
        };
        reader.part = Some(part);
        reader.again = None;
        reader.document(document);
    }
    reader.parsed
}

/// Judges nothing.
struct Unjudged;

impl Judge for Unjudged {}

/// Drops what is said of invalid parts of an object, which are not in it any more, or of what holds them.
fn keep_what_is_there(remarks: &mut Vec<Remark>, findings: &[Finding]) {
    let invalid = findings.iter().filter(|f| f.fault == Fault::Invalid);
    let invalid: Vec<&[Step]> = invalid.map(|f| &*f.path.0).take(MOST_FINDINGS).collect();
    remarks.retain(|r| {
        let about = |p: &&[Step]| p.starts_with(&r.path.0) || r.path.0.starts_with(p);
        !invalid.iter().any(about)
    });
}

struct Reader<'a> {
    judge: &'a dyn Judge,
    /// The document that is read.
    part: Option<yaml::Part<'a>>,
    /// Which object of it: the numbers of items of lists, the outermost first.
    items: Vec<usize>,
    /// The document once more, for places of what the judge says; read when first needed.
    again: Option<Option<Node<'a>>>,
    lines: Vec<&'a str>,
    file: &'a Arc<FilePath>,
    validation: Validation,
    /// That of the object before.
    namespace: Namespace,
    parsed: Parsed,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, file: &'a Arc<FilePath>, validation: Validation) -> Self {
        Self {
            judge: &Unjudged,
            part: None,
            items: Vec::new(),
            again: None,
            lines: text.lines().collect(),
            file,
            validation,
            namespace: Namespace::default(),
            parsed: Parsed::default(),
        }
    }

    fn document(&mut self, document: yaml::Document<'_>) {
        match document.node {
            Err(error) => self.broken(error, document.text, document.line),
            Ok(node) => {
                let before = self.parsed.diagnostics.len();
                let holds_secret = secret::is_in(&node);
                self.node(node, document.line, document.duplicates);
                if holds_secret {
                    let found = self.parsed.diagnostics[before..].iter_mut();
                    found
                        .filter_map(|said| said.excerpt.as_mut())
                        .for_each(secret::conceal);
                }
            }
        }
    }

    /// Refuses a document that is not YAML, and closes what it is to protect.
    fn broken(&mut self, error: yaml::SyntaxError, text: &str, line: u32) {
        self.syntax(error);
        if secret::may_be_in(text)
            && let Some(said) = self.parsed.diagnostics.last_mut()
        {
            secret::hush(std::slice::from_mut(said));
        }
        self.close_text(text, line);
    }

    /// Refuses a text of which nobody knows what it holds, and closes what it is to protect.
    fn close_text(&mut self, text: &str, line: u32) {
        let before = self.parsed.documents.len();
        self.refused(line, None);
        for (n, documents) in outline::read(text).into_iter().enumerate() {
            documents.into_iter().any(|(kind, node)| match n {
                0 => self.close(&node, line, kind),
                _ => self.add_closed(&node, line, kind),
            });
        }
        for document in &mut self.parsed.documents[before..] {
            document.is_broken = true;
        }
    }

    fn syntax(&mut self, error: yaml::SyntaxError) {
        let mut diagnostic = Diagnostic::new(code::SYNTAX, Severity::Error, error.message);
        diagnostic.origin = Some(self.origin(error.span.line));
        diagnostic.excerpt = self.excerpt(error.span);
        self.parsed.diagnostics.push(diagnostic);
    }

    fn duplicates(duplicates: &[yaml::Duplicate<'_>]) -> Vec<Finding> {
        let findings = duplicates.iter().map(|d| Finding {
            fault: Fault::DuplicateKey,
            message: d.message(),
            path: d.path.clone(),
            span: d.span,
            help: None,
        });
        findings.collect()
    }

    /// Reads an object, or each object of a list.
    fn node<'n>(&mut self, node: Node<'n>, line: u32, twice: Vec<yaml::Duplicate<'n>>) {
        if node.is_null() {
            return;
        }
        let text = |field: &str| node.get(field).and_then(Node::as_str).unwrap_or("");
        let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        if kind.is_empty() || api_version.is_empty() {
            return self.headless(&node, line, &kind, &api_version);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let listed = kind.strip_suffix("List");
        if let Some(item_kind) = listed
            && (item_kind.is_empty() || Kind::find(group, item_kind).is_some())
        {
            return self.list(node, line, item_kind, &api_version, twice);
        }
        if list::is_list(&kind) {
            return self.misspelt_list(&node, line, &kind);
        }
        match Kind::find(group, &kind) {
            None => {
                self.not_read(&node, line, head::group_of(&api_version), &kind);
                self.close_earlier(&node, line, twice);
            }
            Some(found) if !found.versions().contains(&version) => {
                let served = found.versions().join(", ");
                let message = format!("{kind} of {group} has no version {version:?}");
                let help = format!("served versions are {served}");
                self.refuse(
                    node.get("apiVersion").unwrap_or(&node),
                    line,
                    code::UNKNOWN_KIND,
                    message,
                    Some(help),
                );
                self.close(&node, line, found);
            }
            Some(found) => self.object(node, line, found, twice),
        }
    }

    fn object<'n>(
        &mut self,
        mut node: Node<'n>,
        line: u32,
        kind: Kind,
        twice: Vec<yaml::Duplicate<'n>>,
    ) {
        let mut findings = Self::duplicates(&twice);
        let readings = readings::of(&node, twice);
        let mut of_written = Vec::new();
        self.judge.written(kind, Raw(&node), &mut of_written);
        let templates = template::mark(&mut node, kind);
        let mut raw = meta::read(&node, kind, DEFAULT_NAMESPACE, &mut findings);
        if let Some(raw) = &mut raw {
            self.share_namespace(&mut raw.name);
        }
        let key = raw.as_ref().map(|raw| ObjectKey {
            kind,
            name: raw.name.clone(),
        });
        let meta = raw.map(|raw| Meta {
            templates,
            ..self.meta(raw, line)
        });
        findings.extend(closed::contradiction(kind, &node));
        let documents = std::iter::once(&node).chain(&readings);
        let substitutes = self.substitutes(kind, documents, meta.as_ref(), line);
        let object = read_kind(kind, node, meta, &mut findings);
        // What values mean says more than limits do, so it comes first.
        let mut remarks = Vec::new();
        if let Some(object) = &object {
            self.judge.object(object, &mut remarks);
        }
        keep_what_is_there(&mut remarks, &findings);
        remarks.append(&mut of_written);
        let protects = substitutes.is_some();
        if protects && kind == Kind::Ingress {
            findings.extend(self.unread(&mut remarks, line));
        }
        let unread = |f: &Finding| protects && closed::leaves_unread(kind, f);
        let refused = self.refuses(&findings, &remarks)
            || self.validation != Validation::Tell && findings.iter().any(unread);
        let mut found = self.told(findings, remarks, key.as_ref(), line, unread);
        if kind == Kind::Secret {
            secret::hush(&mut found);
        }
        let object = object.filter(|_| !refused);
        let wrong = closed::cause(&found);
        let substitutes = substitutes
            .filter(|_| object.is_none())
            .map(|substitutes| self.substitute(substitutes, wrong));
        self.parsed.diagnostics.extend(found);
        self.refused(line, key.clone());
        if let Some(document) = self.parsed.documents.last_mut() {
            document.object = object;
        }
        self.put(substitutes.unwrap_or_default());
        self.close_others(&readings, line, key.as_ref());
    }

    /// What is told of an object, in the order in which it stands there. What is `unread` is an error.
    fn told(
        &mut self,
        mut findings: Vec<Finding>,
        mut remarks: Vec<Remark>,
        key: Option<&ObjectKey>,
        line: u32,
        unread: impl Fn(&Finding) -> bool,
    ) -> Vec<Diagnostic> {
        // A document made to have many faults costs no more than one that has some.
        let more = (findings.len() + remarks.len()).saturating_sub(MOST_FINDINGS);
        findings.truncate(MOST_FINDINGS);
        remarks.sort_by_key(|r| std::cmp::Reverse(r.severity));
        remarks.truncate(MOST_FINDINGS - findings.len());
        let mut found: Vec<Diagnostic> = findings
            .into_iter()
            .map(|finding| {
                let unread = unread(&finding);
                let mut diagnostic = self.diagnostic(finding, key.cloned());
                if unread {
                    diagnostic.severity = Severity::Error;
                }
                diagnostic
            })
            .collect();
        for remark in remarks {
            let said = Diagnostic {
                object: key.cloned(),
                ..self.remarked(remark, line)
            };
            // What reading has found is told already, and better.
            let told = |f: &Diagnostic| f.severity == Severity::Error && f.path == said.path;
            if said.severity != Severity::Error || !found.iter().any(told) {
                found.push(said);
            }
        }
        found.sort_by_key(|d| d.excerpt.as_ref().map(|e| (e.line, e.column)));
        if more > 0 {
            let message = match more {
                1 => "1 more finding about this object is left out".to_owned(),
                _ => format!("{more} more findings about this object are left out"),
            };
            let severities = found.iter().map(|d| d.severity);
            let severity = severities.max().unwrap_or(Severity::Info);
            let mut last = Diagnostic::new(code::INVALID, severity, message);
            last.object = key.cloned();
            last.origin = Some(self.origin(line));
            found.push(last);
        }
        found
    }

    /// Objects that follow each other are mostly of one namespace: they share its text.
    fn share_namespace(&mut self, name: &mut ObjectName) {
        match self.namespace == name.namespace {
            true => name.namespace.clone_from(&self.namespace),
            false => self.namespace.clone_from(&name.namespace),
        }
    }

    fn meta(&self, raw: meta::RawMeta, line: u32) -> Meta {
        Meta {
            labels: raw.labels,
            annotations: raw.annotations,
            created: raw.created.into(),
            maker: raw.maker,
            uid: raw.uid,
            resource_version: raw.resource_version,
            generation: raw.generation,
            ..Meta::new(raw.name, self.origin(line))
        }
    }

    /// Whether an object of which this was found is of no use.
    fn refuses(&self, findings: &[Finding], remarks: &[Remark]) -> bool {
        match self.validation {
            Validation::Strict => {
                findings.iter().any(|f| f.fault != Fault::Newer)
                    || remarks.iter().any(|r| r.severity == Severity::Error)
            }
            Validation::Warn | Validation::Tell => {
                findings.iter().any(|f| f.fault == Fault::Invalid)
            }
        }
    }

    fn severity(&self, fault: Fault) -> Severity {
        match (fault, self.validation) {
            (Fault::Newer, _) => Severity::Warning,
            (Fault::Invalid, _) | (_, Validation::Strict | Validation::Tell) => Severity::Error,
            (_, Validation::Warn) => Severity::Warning,
        }
    }

    fn diagnostic(&self, finding: Finding, object: Option<ObjectKey>) -> Diagnostic {
        let code = match finding.fault {
            Fault::UnknownField | Fault::Newer => code::UNKNOWN_FIELD,
            Fault::DuplicateKey => code::DUPLICATE_KEY,
            Fault::Invalid | Fault::BadName | Fault::BadPath => code::INVALID,
        };
        Diagnostic {
            object,
            origin: Some(self.origin(finding.span.line)),
            path: told(finding.path.to_string()),
            help: finding.help.map(told),
            excerpt: self.excerpt(finding.span),
            ..Diagnostic::new(code, self.severity(finding.fault), told(finding.message))
        }
    }

    fn refuse(
        &mut self,
        at: &Node<'_>,
        line: u32,
        code: &'static str,
        message: String,
        help: Option<String>,
    ) {
        let diagnostic = Diagnostic {
            origin: Some(self.origin(at.span.line)),
            help: help.map(Into::into),
            excerpt: self.excerpt(at.span),
            ..Diagnostic::new(code, Severity::Error, message)
        };
        self.parsed.diagnostics.push(diagnostic);
        self.refused(line, None);
    }

    fn refused(&mut self, line: u32, key: Option<ObjectKey>) {
        self.parsed.documents.push(Document {
            line,
            key,
            object: None,
            substitute: None,
            beside: None,
            is_broken: false,
        });
    }

    fn origin(&self, line: u32) -> Origin {
        Origin::File {
            path: self.file.clone(),
            line,
        }
    }

    fn excerpt(&self, span: Span) -> Option<Excerpt> {
        excerpt(&self.lines, span)
    }
}

/// A text as it is told: the begin of one that somebody made very long.
fn told(text: String) -> Arc<str> {
    match text.char_indices().nth(LONGEST_TOLD) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

/// The line of a place, with where in it. Of a long line, the part around the place.
fn excerpt(lines: &[&str], span: Span) -> Option<Excerpt> {
    const BEFORE: u32 = 150;
    const LONGEST: usize = 400;
    let text = lines.get(usize::try_from(span.line).ok()?.checked_sub(1)?)?;
    let skipped = match text.len() > LONGEST {
        true => span.column.saturating_sub(BEFORE),
        false => 0,
    };
    let shown: String = text.chars().skip(skipped as usize).take(LONGEST).collect();
    Some(Excerpt {
        line: span.line,
        column: span.column,
        length: span.length,
        skipped,
        text: shown.into(),
    })
}

fn read<T: Readable>(
    node: Node<'_>,
    meta: Option<Meta>,
    findings: &mut Vec<Finding>,
) -> Option<AnyObject> {
    let (spec, status) = T::read(node, findings)?;
    Some(T::any(Arc::new(Object {
        meta: meta?,
        spec,
        status,
    })))
}

macro_rules! declare_read_kind {
    ($(($variant:ident, $spec:ty, $($rest:tt)*)),+ $(,)?) => {
        /// Reads what is special to the kind, also when the metadata is bad, to find all there is to say.
        fn read_kind(
            kind: Kind,
            node: Node<'_>,
            meta: Option<Meta>,
            findings: &mut Vec<Finding>,
        ) -> Option<AnyObject> {
            match kind {
                $(Kind::$variant => read::<$spec>(node, meta, findings)),+
            }
        }
    };
}

crate::for_each_kind!(declare_read_kind);

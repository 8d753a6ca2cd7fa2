//! Which text takes the place of each mark of a message, and which messages close because one has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use descriptors::texts::{Edit, Text};
use incr::Cx;
use mesh::finding::{about_named, code};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::names::Namespace;
use model::object::ObjectName;
use model::template::{self, Content, Mark};
use store::template::{NoValue, value_within};
use store::{Reads, Snapshot};
use xds::TypeUrl;

use super::{Reader, closed};

/// A resource may grow by so many bytes for the objects of one namespace; further values of theirs are left out.
const MOST_BYTES: usize = 1 << 20;
/// The message whose `value` Envoy takes for a format, where `%` begins a command.
const HEADER: &str = "envoy.config.core.v3.HeaderValue";

/// Shows marks as authors have written what they stand for.
pub(super) struct Written;

impl Edit for Written {
    fn looks(&self, bytes: &[u8]) -> bool {
        template::is_marked(bytes)
    }

    fn text(&mut self, text: Text<'_>) -> Option<String> {
        let is_marked = template::is_marked(text.text.as_bytes());
        is_marked.then(|| template::written(text.text).into_owned())
    }
}

/// Why a mark has no value here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    NotTheirs,
    LineBreak,
    Value(NoValue),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTheirs => f.write_str(
                "values are for proxies that have proven to be of the object's namespace, and for gateways of the \
                 namespace of a Gateway that the object names",
            ),
            Self::LineBreak => f.write_str("the value has a character that a header cannot have"),
            Self::Value(why) => write!(f, "{why}"),
        }
    }
}

/// A message whose texts are being edited.
struct Around {
    /// Whether it has a mark without a value, and nothing in it has closed for that.
    lacks: bool,
    /// How many values the message had taken before it.
    taken: usize,
}

/// Puts values into a message.
pub(super) struct Filler<'r, 'c, 's> {
    cx: &'r Cx<'c, Snapshot>,
    reader: &'s Reader,
    ty: TypeUrl,
    /// Bytes that values of objects of a namespace have taken.
    used: BTreeMap<Namespace, usize>,
    /// Each of these values, in the order of the message.
    taken: Vec<(Namespace, usize)>,
    /// The messages around the place that is edited, the outermost first.
    around: Vec<Around>,
    /// What has no value: the object, its field, and why.
    found: BTreeSet<(Kind, ObjectName, String, Lack, String)>,
}

impl<'r, 'c, 's> Filler<'r, 'c, 's> {
    pub(super) fn new(cx: &'r Cx<'c, Snapshot>, reader: &'s Reader, ty: TypeUrl) -> Self {
        Self {
            cx,
            reader,
            ty,
            used: BTreeMap::new(),
            taken: Vec::new(),
            around: Vec::new(),
            found: BTreeSet::new(),
        }
    }

    /// What objects are to know of it.
    pub(super) fn found(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        self.found.iter().map(|(kind, name, path, why, what)| {
            let message = format!(
                "some proxies get no value of {what}: {why}; what needs it is closed, or gets a text that opens nothing"
            );
            let severity = Severity::Error;
            about_named(*kind, name, code::NO_SECRET_VALUE, severity, message).at(path.as_str())
        })
    }

    fn fill(&mut self, mark: &Mark, in_header: bool) -> String {
        let allowed = &self.cx.settings().features.secret_templates;
        if let Content::Template(wanted) = &mark.content
            && !allowed.allows(&wanted.asking)
        {
            return mark.written();
        }
        let why = match self.value(mark, in_header) {
            Ok(text) => return text,
            Err(why) => why,
        };
        if let Some(around) = self.around.last_mut() {
            around.lacks = true;
        }
        let asker = &mark.asker;
        let path = asker.path.to_string();
        let what = match mark.secret() {
            Some(wanted) => format!("the key {:?} of Secret {}", &*wanted.key, wanted.secret),
            None => "the Secret that it names".to_owned(),
        };
        // What names a Secret in a field of its own says by itself that it has no value.
        let is_said = matches!((&mark.content, why), (Content::Field(_), Lack::Value(_)));
        if !is_said {
            let name = asker.name.clone();
            self.found.insert((asker.kind, name, path, why, what));
        }
        let audience = match self.reader {
            Reader::Anybody => "",
            Reader::Proven { namespace, .. } => namespace,
        };
        mark.nothing(&self.cx.settings().unguessable, audience)
    }

    fn value(&mut self, mark: &Mark, in_header: bool) -> Result<String, Lack> {
        if !self.reader.may_have(self.cx, &mark.asker) {
            return Err(Lack::NotTheirs);
        }
        let wanted = match &mark.content {
            Content::Template(wanted) | Content::Field(wanted) => wanted,
            Content::Hidden(text) => return Ok(text.reveal().to_owned()),
        };
        let used = self.used.entry(wanted.asking.clone()).or_default();
        let value = value_within(self.cx, wanted, MOST_BYTES - *used).map_err(Lack::Value)?;
        let text = value.reveal();
        let text = match in_header {
            true if text.bytes().any(|b| b.is_ascii_control() && b != b'\t') => {
                return Err(Lack::LineBreak);
            }
            true => text.replace('%', "%%"),
            false => text.to_owned(),
        };
        let sum = *used + text.len();
        if sum > MOST_BYTES {
            return Err(Lack::Value(NoValue::NoRoom));
        }
        *used = sum;
        self.taken.push((wanted.asking.clone(), text.len()));
        Ok(text)
    }

    /// The text with its marks filled; where it is JSON, within the texts of that. What only becomes the character of marks
    /// when JSON is read was not there when the text was made, so it is taken out first.
    fn fill_text(&mut self, text: &str, in_header: bool) -> String {
        if text.trim_start().starts_with(['{', '[']) {
            let safe = template::without_escapes(text);
            let text = safe.as_deref().unwrap_or(text);
            if let Ok(mut json) = serde_json::from_str::<serde_json::Value>(text) {
                self.fill_json(&mut json, in_header);
                return json.to_string();
            }
        }
        template::filled(text, |mark| self.fill(mark, in_header)).into_owned()
    }

    fn fill_json(&mut self, json: &mut serde_json::Value, in_header: bool) {
        match json {
            serde_json::Value::String(text) if template::is_marked(text.as_bytes()) => {
                *text = self.fill_text(text, in_header);
            }
            serde_json::Value::Array(items) => {
                items
                    .iter_mut()
                    .for_each(|item| self.fill_json(item, in_header));
            }
            serde_json::Value::Object(fields) => {
                // A name of a field is not a value: it has none.
                let named = std::mem::take(fields).into_iter();
                *fields = named
                    .map(|(name, mut item)| {
                        self.fill_json(&mut item, in_header);
                        (template::written(&name).into_owned(), item)
                    })
                    .collect();
            }
            _ => {}
        }
    }
}

impl Edit for Filler<'_, '_, '_> {
    fn looks(&self, bytes: &[u8]) -> bool {
        template::is_marked(bytes)
    }

    fn text(&mut self, text: Text<'_>) -> Option<String> {
        let is_marked = template::is_marked(text.text.as_bytes());
        is_marked.then(|| self.fill_text(text.text, text.message == HEADER))
    }

    fn enter(&mut self) {
        self.around.push(Around {
            lacks: false,
            taken: self.taken.len(),
        });
    }

    fn leave(&mut self, message: &str, edited: Vec<u8>) -> Vec<u8> {
        let Some(left) = self.around.pop() else {
            return edited;
        };
        // What has no text to edit, as bytes, keeps its marks: that is as good as no value.
        if !left.lacks && !template::is_marked(&edited) {
            return edited;
        }
        let is_extension = self.around.is_empty() && self.ty == TypeUrl::Extension;
        if let Some(closed) = closed::of(message, &edited, is_extension) {
            // Values that are gone with it take no room of others. Those of its match stay, so no more counts than is gone.
            let mut gone = edited.len().saturating_sub(closed.len());
            for (namespace, bytes) in self.taken.drain(left.taken..) {
                if let Some(used) = self.used.get_mut(&namespace) {
                    let bytes = bytes.min(gone);
                    *used -= bytes;
                    gone -= bytes;
                }
            }
            return closed;
        }
        if let Some(outer) = self.around.last_mut() {
            outer.lacks |= !closed::protects_nothing(message);
        }
        edited
    }
}

//! Values in place of secret templates: the last thing that happens to a resource before it is sent.
//!
//! What has no template costs nothing here. A resource with one is read, filled and encoded once for all who get it. A
//! text that is JSON is filled within its texts, so that no value becomes part of its syntax.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use descriptors::texts::{self, Text};
use incr::{Cx, Query};
use mesh::proxy::Traits;
use model::names::Namespace;
use model::template::{self, SecretRef};
use store::template::value_within;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet, TypeUrl};

/// A resource may grow by so many bytes for the objects of one namespace; further values of theirs are left out.
const MOST_BYTES: usize = 1 << 20;
/// The message whose `value` Envoy takes for a format, where `%` begins a command.
const HEADER: &str = "envoy.config.core.v3.HeaderValue";

/// Who gets a resource.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reader {
    /// Proxies that have not proven to be of their namespace: they get no value of a Secret.
    Anybody,
    /// Proxies that have.
    Proven,
}

impl Reader {
    /// Who the proxy is.
    pub(crate) fn of(proxy: &Traits<'_>) -> Self {
        let identity = proxy.node.identity.as_ref();
        match identity.is_some_and(|i| i.namespace == *proxy.namespace()) {
            true => Self::Proven,
            false => Self::Anybody,
        }
    }
}

/// The set with values in place of templates.
pub(crate) fn filled(
    cx: &Cx<'_, Snapshot>,
    ty: TypeUrl,
    set: ResourceSet,
    reader: Reader,
) -> ResourceSet {
    let marked = set.marked();
    if marked.is_empty() {
        return set;
    }
    let filled = marked.into_iter().map(|resource| {
        let query = Filled {
            ty,
            resource,
            reader,
        };
        (*cx.query(&query)).clone()
    });
    set.replaced([], filled)
}

/// A resource with values in place of its templates.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Filled {
    ty: TypeUrl,
    resource: Arc<Resource>,
    reader: Reader,
}

impl Hash for Filled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ty.hash(state);
        self.reader.hash(state);
        self.resource.name.hash(state);
        self.resource.version.hash(state);
    }
}

impl Query<Snapshot> for Filled {
    type Value = Arc<Resource>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Resource> {
        let body = &self.resource.body;
        let url = self.ty.as_str();
        let written = |message: &Bytes| -> Bytes {
            let mut text_of = |text: Text<'_>| template::written(text.text).into_owned();
            edited(url, message, &mut text_of).into()
        };
        let shown = written(self.resource.shown());
        let settings = cx.settings();
        if !settings.features.secret_templates {
            let name = self.resource.name.clone();
            let resource = Resource::from_bytes(name, written(body)).hide(shown);
            return Arc::new(resource.finding(self.resource.findings().to_vec()));
        }
        let mut used: BTreeMap<Namespace, usize> = BTreeMap::new();
        let mut text_of = |wanted: &SecretRef, in_header: bool| {
            let used = used.entry(wanted.asking.clone()).or_default();
            let known = match self.reader {
                Reader::Anybody => None,
                Reader::Proven => value_within(cx, wanted, MOST_BYTES - *used).ok(),
            };
            let text = known.and_then(|value| {
                let text = value.reveal();
                let text = match in_header {
                    true if text.bytes().any(|b| b.is_ascii_control() && b != b'\t') => {
                        return None;
                    }
                    true => text.replace('%', "%%"),
                    false => text.to_owned(),
                };
                let sum = *used + text.len();
                (sum <= MOST_BYTES).then(|| *used = sum)?;
                Some(text)
            });
            // What has no value must be nothing that anybody could know.
            text.unwrap_or_else(|| settings.unguessable.reveal().to_owned())
        };
        let body = edited(url, body, &mut |text| {
            let in_header = text.message == HEADER;
            fill_text(text.text, &mut |wanted| text_of(wanted, in_header))
        });
        Arc::new(self.resource.fill(body.into(), shown))
    }
}

/// The message with each of its marked texts replaced. What cannot be read stays as it is.
fn edited(type_url: &str, body: &[u8], edit: &mut dyn FnMut(Text<'_>) -> String) -> Vec<u8> {
    let mut of_marked = |text: Text<'_>| {
        let is_marked = template::is_marked(text.text.as_bytes());
        is_marked.then(|| edit(text))
    };
    let edited = texts::edit(type_url, body, &template::is_marked, &mut of_marked);
    edited.unwrap_or_else(|| body.to_vec())
}

/// The text with its templates filled; where it is JSON, within the texts of that.
fn fill_text(text: &str, value: &mut dyn FnMut(&SecretRef) -> String) -> String {
    if text.trim_start().starts_with(['{', '['])
        && let Ok(mut json) = serde_json::from_str::<serde_json::Value>(text)
    {
        fill_json(&mut json, value);
        return json.to_string();
    }
    template::filled(text, value).into_owned()
}

fn fill_json(json: &mut serde_json::Value, value: &mut dyn FnMut(&SecretRef) -> String) {
    match json {
        serde_json::Value::String(text) => *text = fill_text(text, value),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| fill_json(item, value)),
        serde_json::Value::Object(fields) => {
            for item in fields.values_mut() {
                fill_json(item, value);
            }
        }
        _ => {}
    }
}

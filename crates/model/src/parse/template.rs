//! Marks secret templates in a document, and takes the marks that somebody has written.

use std::sync::Arc;

use super::DEFAULT_NAMESPACE;
use super::node::{Node, Path, Step, Value};
use crate::kinds::{Kind, Scope};
use crate::names::Namespace;
use crate::template::{self, Template};

/// So many templates of an object are told of.
const MOST_TOLD: usize = 100;

/// Marks the templates of an object of that kind, everywhere but in its metadata other than annotations, and in no Secret.
pub(super) fn mark(document: &mut Node<'_>, kind: Kind) -> Option<Arc<[Template]>> {
    if !prepare(document) {
        return None;
    }
    let metadata = document.get("metadata");
    let stated = metadata.and_then(|m| m.get("namespace")?.as_str());
    let asking: Namespace = match (kind.scope(), stated) {
        (Scope::Cluster, _) => return None,
        (Scope::Namespaced, None | Some("")) => DEFAULT_NAMESPACE.into(),
        (Scope::Namespaced, Some(namespace)) => namespace.into(),
    };
    if kind == Kind::Secret {
        return None;
    }
    let mut found = Vec::new();
    let Value::Map(entries) = &mut document.value else {
        return None;
    };
    for entry in entries {
        let mut path = Path::of(&entry.key);
        if entry.key != "metadata" {
            walk(&mut entry.value, &asking, &mut path, &mut found);
        } else if let Value::Map(entries) = &mut entry.value.value
            && let Some(annotations) = entries.iter_mut().find(|e| e.key == "annotations")
        {
            let mut path = path.with("annotations");
            walk(&mut annotations.value, &asking, &mut path, &mut found);
        }
    }
    found.truncate(MOST_TOLD);
    (!found.is_empty()).then(|| found.into())
}

fn walk(node: &mut Node<'_>, asking: &Namespace, path: &mut Path, found: &mut Vec<Template>) {
    match &mut node.value {
        Value::String(text) => {
            if let Some((marked, refs)) = template::marked(text, asking) {
                *text = marked.into();
                let path: Arc<str> = path.to_string().into();
                let told = refs.into_iter().map(|secret| Template {
                    path: path.clone(),
                    secret,
                });
                found.extend(told);
            }
        }
        Value::Seq(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.0.push(Step::Index(index));
                walk(item, asking, path, found);
                path.0.pop();
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                path.0.push(Step::Field(entry.key.as_ref().into()));
                walk(&mut entry.value, asking, path, found);
                path.0.pop();
            }
        }
        _ => {}
    }
}

/// Takes marks out, and says whether there are templates.
fn prepare(node: &mut Node<'_>) -> bool {
    match &mut node.value {
        Value::String(text) => {
            if let Some(defused) = template::defused(text) {
                *text = defused.into();
            }
            template::may_have(text)
        }
        Value::Seq(items) => items
            .iter_mut()
            .fold(false, |any, item| prepare(item) | any),
        Value::Map(entries) => entries.iter_mut().fold(false, |any, entry| {
            if let Some(defused) = template::defused(&entry.key) {
                entry.key = defused.into();
            }
            prepare(&mut entry.value) | any
        }),
        _ => false,
    }
}

//! Manifests, as objects that are applied one by one.

use std::path::Path;

use anyhow::{anyhow, bail};
use model::kinds::Kind;
use model::parse::{Decoded, decode_yaml};
use serde_json::Value;
use sources::folder;

use super::text;

/// The most duplicate keys of a document that are reported.
const MOST: usize = 20;

/// What a folder or file of manifests holds.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    /// The objects, in the order written.
    pub(super) objects: Vec<Value>,
    /// Why a document is rejected as a whole, for each that is, with its place.
    pub(super) rejected: Vec<String>,
}

impl Manifests {
    /// Reads a folder or a file.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or there is nothing in any of them.
    pub(super) fn read(from: &Path) -> anyhow::Result<Self> {
        let (files, unreadable) = folder::texts(from);
        if let Some(first) = unreadable.first() {
            bail!("{first}");
        }
        let mut all = Self::default();
        for (file, text) in &files {
            for document in decode_yaml(text) {
                let document = document.map_err(|e| anyhow!("{}: {e}", file.display()))?;
                all.take(file, document);
            }
        }
        if all.objects.is_empty() && all.rejected.is_empty() {
            bail!("no objects found in {}", from.display());
        }
        Ok(all)
    }

    fn take(&mut self, file: &Path, document: Decoded) {
        let duplicates = document.duplicates.iter().take(MOST).map(|key| {
            let (path, message) = (&key.path, key.message());
            format!("{}:{}: {path}: {message}", file.display(), key.line)
        });
        let duplicates: Vec<String> = duplicates.collect();
        if !duplicates.is_empty() {
            self.rejected.push(duplicates.join("\n"));
            return;
        }
        match objects(document.value) {
            Ok(objects) => self.objects.extend(objects),
            Err(why) => {
                let place = format!("{}:{}", file.display(), document.line);
                self.rejected.push(format!("{place}: {why}"));
            }
        }
    }
}

/// The object that a document is, or those of the list that it is.
fn objects(mut document: Value) -> Result<Vec<Value>, &'static str> {
    if !document.is_object() {
        return Err("the document is not an object");
    }
    let (group, _) = text(&document["apiVersion"])
        .split_once('/')
        .unwrap_or_default();
    let Some(listed) = text(&document["kind"]).strip_suffix("List") else {
        return Ok(vec![document]);
    };
    // The name of any other kind may end so, too.
    let is_list = listed.is_empty() || Kind::find(group, listed).is_some();
    match document.get_mut("items") {
        Some(Value::Array(items)) => Ok(std::mem::take(items)),
        Some(Value::Null) if is_list => Ok(Vec::new()),
        Some(_) if is_list => Err("`items` is not a list"),
        None if is_list => Err("the list has no items"),
        _ => Ok(vec![document]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Manifests {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), text).unwrap();
        let mut all = Manifests::read(dir.path()).unwrap();
        let folder = format!("{}/", dir.path().display());
        for why in &mut all.rejected {
            *why = why.replace(&folder, "");
        }
        all
    }

    #[test]
    fn a_document_that_is_not_clear_is_rejected_with_its_place_and_others_are_taken() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        let head = "apiVersion: v1\nkind: List\n";
        for (text, why) in [
            (
                format!("{map}data:\n  k: 1\n  k: 2\n"),
                "a.yaml:8: data.k: the key stands twice, first on line 7",
            ),
            (
                format!("{head}items: [{{kind: A}}]\nitems: []\n"),
                "a.yaml:6: items: the key stands twice, first on line 5",
            ),
            (
                format!("{head}kind: Ingress\nitems: []\n"),
                "a.yaml:5: kind: the key stands twice, first on line 4",
            ),
            (
                format!("{head}items: {{}}\n"),
                "a.yaml:3: `items` is not a list",
            ),
            (head.to_owned(), "a.yaml:3: the list has no items"),
            (
                "- a\n".to_owned(),
                "a.yaml:3: the document is not an object",
            ),
        ] {
            let all = read(&format!("apiVersion: v1\n---\n{text}---\n{map}"));
            assert_eq!(all.rejected, [why], "{text}");
            assert_eq!(all.objects.len(), 2, "{text}");
        }
    }

    #[test]
    fn json_that_is_not_yaml_is_rejected_as_well() {
        let all = read(r#"{"u": "\ud83d\ude00", "u": 1}"#);
        assert_eq!(all.rejected, ["a.yaml:1: u: the key stands twice"]);
        assert!(all.objects.is_empty());
    }

    #[test]
    fn lists_are_taken_apart_and_kinds_that_are_called_so_are_not() {
        let all = read(
            "apiVersion: v1\nkind: List\nitems: [{kind: A}, {kind: B}]\n---\n\
             apiVersion: v1\nkind: ServiceList\nitems:\n---\n\
             apiVersion: x.io/v1\nkind: AllowList\nspec: {}\n",
        );
        let kinds: Vec<&str> = all.objects.iter().map(|o| text(&o["kind"])).collect();
        assert_eq!(kinds, ["A", "B", "AllowList"]);
        assert!(all.rejected.is_empty(), "{:?}", all.rejected);
    }

    #[test]
    fn files_without_objects_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), "# nothing\n").unwrap();
        let error = Manifests::read(dir.path()).unwrap_err().to_string();
        assert!(error.starts_with("no objects found in "), "{error}");
    }
}

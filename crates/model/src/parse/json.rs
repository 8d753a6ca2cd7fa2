//! Between objects, JSON and YAML.

use std::path::Path as FilePath;
use std::sync::Arc;

use super::node::{Node, Span, Value};
use super::{Judge, Parsed, Reader, Unjudged, Validation, yaml};

/// Reads an object that is JSON already. `file` is where it comes from, for people to find it.
pub fn from_json(json: serde_json::Value, file: &Arc<FilePath>, validation: Validation) -> Parsed {
    from_json_judged(json, file, validation, &Unjudged)
}

/// As [`from_json`], with what `judge` has to say about the object. Its errors refuse an object as
/// [`Validation::Strict`] says.
pub fn from_json_judged(
    json: serde_json::Value,
    file: &Arc<FilePath>,
    validation: Validation,
    judge: &dyn Judge,
) -> Parsed {
    let span = Span {
        line: 1,
        ..Span::default()
    };
    let mut reader = Reader::new("", file, validation);
    reader.judge = judge;
    reader.node(Node::from_json(json, span), 1, Vec::new());
    reader.parsed
}

/// The documents of a YAML text as JSON, with the scalars that Kubernetes takes them for; those without content are
/// left out. What cannot be read says why.
pub fn to_json(text: &str) -> Vec<Result<serde_json::Value, String>> {
    let documents = yaml::documents(text);
    let read = documents.map(|d| match d.node {
        Ok(node) => Ok(json(node)),
        Err(error) => Err(format!("line {}: {}", error.span.line, error.message)),
    });
    read.filter(|d| !matches!(d, Ok(serde_json::Value::Null)))
        .collect()
}

fn json(node: Node<'_>) -> serde_json::Value {
    match node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::UInt(value) => value.into(),
        Value::Float(value) => value.into(),
        Value::String(text) => text.into_owned().into(),
        Value::Seq(items) => items.into_iter().map(json).collect(),
        Value::Map(entries) => {
            let fields = entries.into_iter();
            fields
                .map(|e| (e.key.into_owned(), json(e.value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_becomes_the_json_that_kubernetes_reads() {
        let read = to_json("a: 1\nb: [x, yes, 1.5, ~]\n---\n# nothing\n---\nc: \"2\"\n");
        let wanted = [
            serde_json::json!({"a": 1, "b": ["x", true, 1.5, null]}),
            serde_json::json!({"c": "2"}),
        ];
        let read: Result<Vec<_>, _> = read.into_iter().collect();
        assert_eq!(read.unwrap(), wanted);
        assert!(to_json("a: [")[0].is_err());
    }

    #[test]
    fn an_object_of_json_is_read_as_one_of_yaml() {
        let json = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let parsed = from_json(json, &FilePath::new("api").into(), Validation::Strict);
        assert_eq!(parsed.objects().count(), 1);
        assert!(parsed.diagnostics.is_empty());
    }
}

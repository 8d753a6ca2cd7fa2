//! Label and field selectors of lists and watches.

use serde_json::Value;

use crate::status::Failure;
use crate::store::{ObjectId, Stored};

/// What a list or watch is narrowed to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, PartialEq, Debug)]
struct LabelTerm {
    key: String,
    test: LabelTest,
}

#[derive(Clone, PartialEq, Debug)]
enum LabelTest {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

#[derive(Clone, PartialEq, Debug)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

/// Fields that some kinds can be selected by besides name and namespace.
const FIELDS: &[(&str, &[&str])] = &[
    (
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("secrets", &["type"]),
    ("namespaces", &["status.phase"]),
    ("nodes", &["spec.unschedulable"]),
    (
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("services", &["spec.clusterIP", "spec.type"]),
];

impl Selector {
    /// Reads both selectors of a request.
    ///
    /// # Errors
    ///
    /// When one cannot be read, or a field is none that the resource can be selected by.
    pub fn parse(labels: &str, fields: &str, plural: &str, native: bool) -> Result<Self, Failure> {
        let bad = |why: String| Failure::bad_request(format!("unable to parse requirement: {why}"));
        let labels = split_terms(labels)
            .map(|term| label_term(term).map_err(bad))
            .collect::<Result<_, _>>()?;
        let known = FIELDS.iter().find(|(name, _)| *name == plural);
        let has_own = known.is_some();
        let known = known.map_or(&[][..], |(_, fields)| fields);
        let mut terms = Vec::new();
        for term in fields.split(',').filter(|t| !t.is_empty()) {
            let (path, value, equal) = if let Some((path, value)) = term.split_once("!=") {
                (path, value, false)
            } else if let Some((path, value)) = term.split_once("==") {
                (path, value, true)
            } else if let Some((path, value)) = term.split_once('=') {
                (path, value, true)
            } else {
                return Err(Failure::bad_request(format!(
                    "invalid selector: '{term}'; can't understand '{term}'"
                )));
            };
            let always = matches!(path, "metadata.name" | "metadata.namespace");
            if !always && !known.contains(&path) {
                let message = if native && !has_own {
                    format!(
                        "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )
                } else {
                    format!("field label not supported: {path}")
                };
                return Err(Failure::bad_request(message));
            }
            terms.push(FieldTerm {
                path: path.to_owned(),
                value: value.to_owned(),
                equal,
            });
        }
        Ok(Self {
            labels,
            fields: terms,
        })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one name that is selected, if it is one.
    pub fn name(&self) -> Option<&str> {
        let term = self
            .fields
            .iter()
            .find(|t| t.equal && t.path == "metadata.name")?;
        Some(&term.value)
    }

    /// Whether an object is selected.
    pub fn matches(&self, id: &ObjectId, stored: &Stored) -> bool {
        self.labels.iter().all(|term| term.matches(stored))
            && self.fields.iter().all(|term| term.matches(id, stored))
    }
}

impl LabelTerm {
    fn matches(&self, stored: &Stored) -> bool {
        let value = stored.label(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            LabelTest::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
            LabelTest::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::Above(bound) => number().is_some_and(|n| n > *bound),
            LabelTest::Below(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

impl FieldTerm {
    fn matches(&self, id: &ObjectId, stored: &Stored) -> bool {
        let equals = match self.path.as_str() {
            "metadata.name" => *id.name == *self.value,
            "metadata.namespace" => *id.namespace == *self.value,
            path => {
                let object = stored.value();
                let pointer = format!("/{}", path.replace('.', "/"));
                match object.pointer(&pointer) {
                    Some(Value::String(text)) => *text == self.value,
                    Some(Value::Null) | None => self.value.is_empty(),
                    Some(other) => {
                        *other == *self.value.as_str() || format!("{other}") == self.value
                    }
                }
            }
        };
        equals == self.equal
    }
}

/// The terms between commas that are in no parentheses.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let terms = text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    terms.map(str::trim).filter(|t| !t.is_empty())
}

fn label_term(term: &str) -> Result<LabelTerm, String> {
    let of = |key: &str, test| {
        let key = key.trim();
        if key.is_empty() || key.contains([' ', '=', '!', '(', ')', '<', '>']) {
            return Err(format!("invalid label key in {term:?}"));
        }
        Ok(LabelTerm {
            key: key.to_owned(),
            test,
        })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(key) = term.strip_prefix('!') {
        return of(key, LabelTest::Absent);
    }
    for (word, is_in) in [(" notin", false), (" in", true)] {
        if let Some((key, values)) = term.split_once(word)
            && let Some(values) = values
                .trim()
                .strip_prefix('(')
                .and_then(|v| v.strip_suffix(')'))
        {
            let values = values.split(',').map(|v| v.trim().to_owned()).collect();
            return of(
                key,
                if is_in {
                    LabelTest::In(values)
                } else {
                    LabelTest::NotIn(values)
                },
            );
        }
    }
    if let Some((key, value)) = term.split_once("!=") {
        return of(key, LabelTest::NotIn(one(value)));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return of(key, LabelTest::In(one(value)));
    }
    for (sign, above) in [('>', true), ('<', false)] {
        if let Some((key, value)) = term.split_once(sign) {
            let bound = value
                .trim()
                .parse()
                .map_err(|_| format!("for {sign}, a whole number is needed"))?;
            return of(
                key,
                if above {
                    LabelTest::Above(bound)
                } else {
                    LabelTest::Below(bound)
                },
            );
        }
    }
    of(term, LabelTest::Exists)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Stored;

    fn selects(labels: &str, fields: &str) -> bool {
        let json = br#"{"metadata":{"name":"a","labels":{"app":"web","n":"7"}},"type":"Opaque"}"#;
        let stored = Stored::for_tests(json);
        let selector = Selector::parse(labels, fields, "secrets", true).unwrap();
        selector.matches(&ObjectId::new("ns", "a"), &stored)
    }

    #[test]
    fn label_terms_mean_what_kubectl_means_by_them() {
        for yes in [
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "!gone",
            "app in (db, web)",
            "gone notin (x)",
            "n>6",
            "n<8,app=web",
            "gone!=x",
        ] {
            assert!(selects(yes, ""), "{yes}");
        }
        for no in [
            "gone",
            "app=db",
            "app!=web",
            "!app",
            "app in (db)",
            "app notin (web,db)",
            "n>7",
            "app=web,n=8",
        ] {
            assert!(!selects(no, ""), "{no}");
        }
    }

    #[test]
    fn fields_select_by_name_and_by_what_the_kind_has() {
        assert!(selects(
            "",
            "metadata.name=a,metadata.namespace!=x,type=Opaque"
        ));
        assert!(!selects("", "metadata.name!=a"));
        assert!(!selects("", "type=other"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(Selector::parse("a b", "", "secrets", true).is_err());
        assert!(Selector::parse("n>x", "", "secrets", true).is_err());
        assert!(Selector::parse("", "spec.x=1", "secrets", true).is_err());
        assert!(Selector::parse("", "name", "secrets", true).is_err());
    }
}

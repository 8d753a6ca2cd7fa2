//! Conditions on requests: whether an admission webhook is asked about one.
//!
//! What is requested has no kind before it is there, so expressions are judged by the request around it, and what an
//! evaluation may cost is estimated from the sizes of the values.
// Kubernetes: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/{compile,condition}.go, 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::cel::{Context, Program, Value as Cel};
use serde_json::Value;

use super::kind::{Kind, Shape};
use super::{Wanted, compile, context, judge, loops};
use crate::schema::{size, to_cel};

/// What the conditions on one request may cost together, in steps.
const BUDGET: u64 = 2_500_000;

/// The variables of conditions, but for the authorizer, which is not offered.
fn variables() -> [(&'static str, Kind); 4] {
    let text = || Kind::of(Shape::Text, 253);
    let object = |fields: Vec<(&str, Kind)>| {
        let fields: BTreeMap<String, Kind> =
            fields.into_iter().map(|(n, k)| (n.to_owned(), k)).collect();
        Kind::plain(Shape::Object(Arc::new(fields)))
    };
    let texts = |names: &[&'static str]| object(names.iter().map(|n| (*n, text())).collect());
    let kind = || texts(&["group", "version", "kind"]);
    let resource = || texts(&["group", "version", "resource"]);
    let list = |of: Kind| Kind::of(Shape::List(Arc::new(of)), 1_000);
    let user = object(vec![
        ("username", text()),
        ("uid", text()),
        ("groups", list(text())),
        ("extra", Kind::of(Shape::Map(Arc::new(list(text()))), 1_000)),
    ]);
    let request = object(vec![
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", Kind::plain(Shape::Bool)),
        ("options", Kind::any()),
    ]);
    [
        ("object", Kind::any()),
        ("oldObject", Kind::any()),
        ("request", request),
        // Kubernetes declares it for all conditions, and sets it for none of webhooks.
        ("namespaceObject", Kind::any()),
    ]
}

/// A condition that fits its variables.
#[derive(Debug)]
pub struct Condition {
    source: String,
    program: Program,
    loops: u32,
}

impl Condition {
    /// Reads and judges a condition.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn compile(expression: &str) -> Result<Self, String> {
        let source = expression.trim();
        judge(source, &variables(), Wanted::Bool)?;
        Ok(Self {
            source: source.to_owned(),
            program: compile(source)?,
            loops: loops(source),
        })
    }
}

/// What conditions are about: a request, with what it would store and what that would replace.
#[derive(Debug)]
pub struct Subject {
    object: Cel,
    old_object: Cel,
    request: Cel,
    size: u64,
}

impl Subject {
    /// The subject of values, of which absent ones are null.
    pub fn new(object: &Value, old_object: &Value, request: &Value) -> Self {
        let all = [object, old_object, request];
        let [object, old_object, request] = all.map(|value| to_cel(value, None));
        Self {
            object,
            old_object,
            request,
            size: all.into_iter().map(size).sum(),
        }
    }

    /// Whether all conditions hold. One that does not hold decides, whatever is wrong with others.
    ///
    /// # Errors
    ///
    /// Why some cannot be told, where none is known not to hold.
    pub fn meets<'c>(
        &self,
        conditions: impl IntoIterator<Item = &'c Condition>,
    ) -> Result<bool, String> {
        let mut faults = Vec::new();
        let mut left = BUDGET;
        for condition in conditions {
            let source = &condition.source;
            let cost = self.size.saturating_pow(condition.loops.max(1));
            if cost > left {
                faults.push(format!(
                    "expression '{source}' resulted in error: the object is too large for it"
                ));
                continue;
            }
            left -= cost;
            match condition.program.execute(&self.context(source)) {
                Ok(Cel::Bool(true)) => {}
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => faults.push(format!(
                    "expression '{source}' resulted in error: it is neither true nor false"
                )),
                Err(error) => {
                    // In lower case, as Go says it.
                    let mut said = error.to_string();
                    if let Some(first) = said.get_mut(..1) {
                        first.make_ascii_lowercase();
                    }
                    faults.push(format!("expression '{source}' resulted in error: {said}"));
                }
            }
        }
        match faults.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn context(&self, source: &str) -> Context<'static, 'static> {
        let mut context = context(source);
        for (name, value) in [
            ("object", &self.object),
            ("oldObject", &self.old_object),
            ("request", &self.request),
            ("namespaceObject", &Cel::Null),
        ] {
            context.add_variable_from_value(name, value.clone());
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject() -> Subject {
        let pod = json!({"metadata": {"name": "a", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "one"}]}});
        let request = json!({"operation": "CREATE", "namespace": "shop", "dryRun": false,
            "userInfo": {"username": "ann", "groups": ["system:masters"]},
            "resource": {"group": "", "version": "v1", "resource": "pods"}});
        Subject::new(&pod, &Value::Null, &request)
    }

    fn met(expressions: &[&str]) -> Result<bool, String> {
        let all: Vec<Condition> = expressions
            .iter()
            .map(|e| Condition::compile(e).unwrap())
            .collect();
        subject().meets(&all)
    }

    #[test]
    fn conditions_see_the_request_and_both_objects() {
        for holds in [
            "request.namespace == 'shop' && object.metadata.namespace == request.namespace",
            "!('system:nodes' in request.userInfo.groups)",
            "oldObject == null && request.operation != 'DELETE'",
            "object.spec.containers.all(c, c.name != '')",
            "has(object.metadata.labels) && object.metadata.labels['app'].startsWith('w')",
            "request.resource.resource == 'pods' && !request.dryRun",
        ] {
            assert_eq!(met(&[holds]), Ok(true), "{holds}");
        }
    }

    #[test]
    fn one_that_does_not_hold_decides_over_faults() {
        let fault = "object.metadata.absent == 'x'";
        assert!(met(&[fault]).unwrap_err().contains("resulted in error"));
        assert_eq!(met(&[fault, "false"]), Ok(false));
        assert!(met(&["true", fault]).is_err());
        assert_eq!(met(&[]), Ok(true));
    }

    #[test]
    fn what_cannot_be_right_is_told_before_there_is_a_request() {
        for (bad, said) in [
            ("request.nmespace == ''", "undefined field"),
            ("requst.namespace == ''", "undeclared reference"),
            ("object.metadata.name + 1 == 2 || 'x'", "overload"),
            ("request.name", "must evaluate to a bool"),
            ("1 +", "not an expression"),
        ] {
            let fault = Condition::compile(bad).unwrap_err();
            assert!(fault.contains(said), "{bad}: {fault}");
        }
    }

    #[test]
    fn an_object_that_is_too_large_for_nested_loops_is_a_fault() {
        let many: Vec<Value> = (0..2_000).map(|n| json!({"name": n.to_string()})).collect();
        let subject = Subject::new(&json!({"items": many}), &Value::Null, &Value::Null);
        let nested = Condition::compile("object.items.all(a, object.items.exists(b, a == b))");
        let fault = subject.meets(&[nested.unwrap()]).unwrap_err();
        assert!(fault.contains("too large"), "{fault}");
    }
}

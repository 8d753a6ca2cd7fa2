//! Rules in CEL.

use cel::Program;
use cel::objects::{Key, Map, OptionalValue};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Past, Schema, Type};
use crate::cel as expressions;
use crate::report::{At, Report};

/// A rule with what is said where it does not hold.
#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    message: Option<String>,
    /// A rule that computes the message.
    message_program: Option<Program>,
    /// The field, below the value, that is at fault.
    field: Option<String>,
    /// Whether it is about a change.
    of_change: bool,
    /// Whether it is asked without a past as well, which it sees as an optional value.
    optional_past: bool,
    source: String,
    /// How deep loops stand within one another.
    loops: u32,
}

/// Work that rules may do for one value, in steps of loops.
pub(super) struct Budget(u64);

impl Default for Budget {
    fn default() -> Self {
        Self(20_000_000)
    }
}

impl Budget {
    /// Takes what a rule over so many values may cost; whether that much is left.
    fn take(&mut self, size: usize, loops: u32) -> bool {
        let steps = (size as u64).max(1).saturating_pow(loops.max(1));
        self.0 = self.0.saturating_sub(steps);
        self.0 > 0
    }
}

impl Rule {
    pub(super) fn compile(json: &Value) -> Result<Self, String> {
        let source = json["rule"].as_str().unwrap_or_default();
        let program = expressions::compile(source).map_err(|e| format!("{source:?}: {e}"))?;
        let text = |key: &str| json[key].as_str().map(str::to_owned);
        let message_program = match json["messageExpression"].as_str() {
            Some(text) => Some(expressions::compile(text).map_err(|e| format!("{text:?}: {e}"))?),
            None => None,
        };
        Ok(Self {
            of_change: program.references().has_variable("oldSelf"),
            optional_past: json["optionalOldSelf"] == true,
            program,
            message: text("message"),
            message_program,
            field: text("fieldPath"),
            loops: expressions::loops(source),
            source: source.split_whitespace().collect::<Vec<_>>().join(" "),
        })
    }

    pub(super) fn tells_changes(&self) -> bool {
        self.of_change
    }

    /// The past as the rule sees it; `None` where the rule is not asked.
    fn past(&self, value: &Value, past: Past<'_>, schema: &Schema) -> Option<Option<cel::Value>> {
        if !self.of_change {
            return (past != Past::Same).then_some(None);
        }
        let old = past.value(value).map(|old| to_cel(old, Some(schema)));
        if !self.optional_past {
            return old.map(Some);
        }
        let old = old.map_or_else(OptionalValue::none, OptionalValue::of);
        Some(Some(cel::Value::Opaque(Arc::new(old))))
    }

    pub(super) fn check(
        &self,
        value: &Value,
        past: Past<'_>,
        schema: &Schema,
        at: &At<'_>,
        report: &mut Report,
        budget: &mut Budget,
    ) {
        let Some(past) = self.past(value, past, schema) else {
            return;
        };
        if !budget.take(size(value), self.loops) {
            return report.error(at, format!("too large for the rule {}", self.source));
        }
        let itself = to_cel(value, Some(schema));
        let mut context = expressions::context();
        context.add_variable_from_value("self", itself);
        if let Some(past) = past {
            context.add_variable_from_value("oldSelf", past);
        }
        let fault = match self.program.execute(&context) {
            Ok(cel::Value::Bool(true)) => return,
            Ok(cel::Value::Bool(false)) => {
                let computed = self.message_program.as_ref().and_then(|program| {
                    match program.execute(&context) {
                        Ok(cel::Value::String(text)) => Some(text.to_string()),
                        _ => None,
                    }
                });
                let message = computed.or_else(|| self.message.clone());
                message.unwrap_or_else(|| format!("the rule does not hold: {}", self.source))
            }
            Ok(_) => format!("the rule says neither true nor false: {}", self.source),
            Err(error) => match &self.message {
                Some(message) => format!("{message} ({error})"),
                None => format!("{error}: {}", self.source),
            },
        };
        // A path such as `.a.b`; what is more complicated stays with the value.
        let names: Vec<&str> = self
            .field
            .as_deref()
            .unwrap_or_default()
            .split('.')
            .filter(|n| !n.is_empty() && !n.contains(['[', '\'']))
            .collect();
        match names.as_slice() {
            [] => report.error(at, fault),
            [name] => report.error(&at.field(name), fault),
            [first, second, ..] => report.error(&at.field(first).field(second), fault),
        }
    }
}

/// The values within one.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map.values().map(size).sum(),
        _ => 0,
    }
}

/// A value as rules see it: fields of objects by names that CEL can write, numbers by the type of the schema.
fn to_cel(value: &Value, schema: Option<&Schema>) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => {
            let is_float = schema.is_some_and(|s| s.ty == Some(Type::Number));
            match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) if !is_float => cel::Value::Int(whole),
                (_, Some(float)) if !is_float && float.fract() == 0.0 && float.abs() < 9e15 => {
                    #[allow(clippy::cast_possible_truncation)] // It is whole and fits.
                    let whole = float as i64;
                    cel::Value::Int(whole)
                }
                (_, float) => cel::Value::Float(float.unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let inner = schema.and_then(|s| s.items.as_deref());
            let items = items.iter().map(|item| to_cel(item, inner));
            cel::Value::List(Arc::new(items.collect()))
        }
        Value::Object(map) => {
            let mut entries = HashMap::with_capacity(map.len());
            for (key, value) in map {
                let field = schema.and_then(|s| s.fields.get(key));
                let inner = field.or_else(|| schema.and_then(|s| s.additional.as_deref()));
                let name = match field {
                    Some(_) => expressions::escape(key),
                    None => key.clone(),
                };
                entries.insert(Key::String(Arc::new(name)), to_cel(value, inner));
            }
            cel::Value::Map(Map {
                map: Arc::new(entries),
            })
        }
    }
}

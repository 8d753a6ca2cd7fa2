//! Rules in CEL.

use cel::Program;
use cel::objects::{Key, Map, OptionalValue};
use model::Severity;
use model::parse::code;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

use super::{Past, Schema, Type};
use crate::cel::{self as expressions, Kind};
use crate::report::{At, Report};

/// A rule with what is said where it does not hold.
#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    message: Option<String>,
    /// A rule that computes the message.
    message_program: Option<Program>,
    /// The field, below the value, that is at fault.
    field: Vec<String>,
    /// What kind of fault it is.
    reason: &'static str,
    /// Whether it is about a change.
    of_change: bool,
    /// Whether it is asked without a past as well, which it sees as an optional value.
    optional_past: bool,
    source: String,
    /// How deep loops stand within one another.
    loops: u32,
    /// What the value is, where the schema says it.
    kind: Option<Arc<Kind>>,
}

/// Why a rule is not held, in words of API machinery; what a rule states that has no reason is merely invalid.
pub mod reason {
    /// A value that is not as it must be, told of a field below the value that was judged.
    pub const INVALID: &str = "FieldValueInvalid";
    /// A value that is missing.
    pub const REQUIRED: &str = "FieldValueRequired";
    /// A value that may not be there.
    pub const FORBIDDEN: &str = "FieldValueForbidden";
    /// A value that is there twice.
    pub const DUPLICATE: &str = "FieldValueDuplicate";
    /// All of them.
    pub const ALL: [&str; 4] = [DUPLICATE, FORBIDDEN, INVALID, REQUIRED];
}

/// Work that rules may do for one value, in units of CEL's own estimates: steps of loops, and tens of characters.
pub(super) struct Budget(u64);

/// What is cheaper than this is not looked at more closely.
const CHEAP: u64 = 1_000;
/// Bytes of the longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 << 10;

impl Default for Budget {
    fn default() -> Self {
        Self(10_000_000)
    }
}

impl Budget {
    /// Takes what an evaluation may cost; whether that much is left.
    fn take(&mut self, cost: u64) -> bool {
        self.0 = self.0.saturating_sub(cost);
        self.0 > 0
    }
}

/// The fields that a path such as `.a.b` or `.a['b.c']` names.
///
/// # Errors
///
/// When it is no such path.
pub fn field_path(text: &str) -> Result<Vec<String>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let mut name = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next() {
                    Some((_, '\\')) => name.extend(chars.next().map(|(_, c)| c)),
                    Some((at, '\'')) => break at,
                    Some((_, c)) => name.push(c),
                    None => return Err("unexpected end of JSON path".to_owned()),
                }
            };
            let closed = after[end + 1..].strip_prefix(']');
            rest = closed.ok_or("expected ]")?;
            steps.push(name);
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err("unexpected end of JSON path".to_owned());
            }
            steps.push(after[..end].to_owned());
            rest = &after[end..];
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
    }
    Ok(steps)
}

impl Rule {
    /// A rule of a schema whose values are of a kind.
    pub(super) fn compile(json: &Value, kind: Option<Arc<Kind>>) -> Result<Self, String> {
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
            // What is no path is told when the definition is written; here the value is at fault.
            field: field_path(json["fieldPath"].as_str().unwrap_or_default()).unwrap_or_default(),
            reason: match json["reason"].as_str() {
                Some(stated) => reason::ALL
                    .into_iter()
                    .find(|known| *known == stated)
                    .unwrap_or(code::INVALID),
                None if json["fieldPath"].is_string() => reason::INVALID,
                None => code::INVALID,
            },
            kind,
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
        let asked = past;
        let Some(past) = self.past(value, asked, schema) else {
            return;
        };
        let old = match &past {
            Some(_) => asked.value(value),
            None => None,
        };
        if !budget.take(self.cost(value, old)) {
            return report.error(at, format!("too large for the rule {}", self.source));
        }
        let itself = to_cel(value, Some(schema));
        let mut context = expressions::context(&self.source);
        context.add_variable_from_value("self", itself);
        if let Some(past) = past {
            context.add_variable_from_value("oldSelf", past);
        }
        let fault = match self.program.execute(&context) {
            Ok(cel::Value::Bool(true)) => return,
            Ok(cel::Value::Bool(false)) => {
                let program = self.message_program.as_ref();
                let computed = program.and_then(|program| message_of(program, &context));
                let message = computed.or_else(|| self.message.clone());
                message.unwrap_or_else(|| format!("failed rule: {}", self.source))
            }
            Ok(_) => format!("the rule says neither true nor false: {}", self.source),
            Err(error) => match &self.message {
                Some(message) => format!("{message} ({error})"),
                None => format!("{error}: {}", self.source),
            },
        };
        say(at, &self.field, self.reason, &fault, report);
    }

    /// The most that the rule may cost for a value and its past.
    fn cost(&self, value: &Value, old: Option<&Value>) -> u64 {
        let size = size(value).saturating_add(old.map_or(0, size)).max(1);
        let rough = size.saturating_pow(self.loops.max(1));
        let Some(kind) = self.kind.as_deref().filter(|_| rough > CHEAP) else {
            return rough;
        };
        let itself = kind.of_value(value);
        let past = old.map_or_else(|| itself.clone(), |old| kind.of_value(old));
        let past = if self.optional_past {
            past.optional()
        } else {
            past
        };
        expressions::cost(&self.program, &[("self", itself), ("oldSelf", past)])
    }
}

/// Says what is wrong with a field below a value.
fn say(at: &At<'_>, below: &[String], code: &'static str, fault: &str, report: &mut Report) {
    match below {
        [] => report.say(at, Severity::Error, code, fault),
        [name, rest @ ..] => say(&at.field(name), rest, code, fault, report),
    }
}

/// The message that an expression makes, if it is one that can be told.
fn message_of(program: &Program, context: &cel::Context<'_, '_>) -> Option<String> {
    let Ok(cel::Value::String(text)) = program.execute(context) else {
        return None;
    };
    let text = text.trim();
    let fits = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
    fits.then(|| text.to_owned())
}

/// The values within one, and its texts in pieces.
pub(crate) fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(map) => map.values().map(size).sum(),
        Value::String(text) => text.len() as u64 / 64,
        _ => 0,
    }
}

/// A value as rules see it: fields of objects by names that CEL can write, numbers by the type of the schema.
pub(crate) fn to_cel(value: &Value, schema: Option<&Schema>) -> cel::Value {
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
        Value::String(text) => {
            let format = schema.and_then(|s| s.bounds.format.as_deref());
            expressions::of_format(text, format.unwrap_or_default())
                .unwrap_or_else(|| cel::Value::String(Arc::new(text.clone())))
        }
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

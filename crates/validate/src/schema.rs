//! Values judged by the definition of their kind: a structural schema of OpenAPI v3 with rules in CEL, as
//! CustomResourceDefinitions have.
//!
//! The schema is compiled once and judges any number of values. Everything is bounded: depth, the number of findings,
//! and the work that rules do, so that neither a hostile definition nor a hostile value costs more than a bounded time.
//! A rule about a change (`oldSelf`) is asked where a value replaces another.

mod compile;
mod default;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::report::{At, Report};

pub use compile::{BadSchema, compile, of_definition};
pub use default::fill_defaults;
pub use rule::{field_path, reason};

use rule::Rule;
pub(crate) use rule::{size, to_cel};

/// A schema, ready to judge values.
#[derive(Debug, Default)]
pub struct Schema {
    ty: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    preserves_unknown: bool,
    fields: BTreeMap<String, Schema>,
    /// For the values of keys that are no fields.
    additional: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    list: List,
    default: Option<Value>,
    bounds: Bounds,
    rules: Vec<Rule>,
    /// Whether a rule here or below is about a change.
    tells_changes: bool,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Type {
    Object,
    Array,
    Text,
    Integer,
    Number,
    Boolean,
}

/// How the items of a list differ.
#[derive(Debug, Default)]
enum List {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Limits of a value, and conditions made of limits.
#[derive(Debug, Default)]
struct Bounds {
    required: Vec<String>,
    enumeration: Option<Vec<Value>>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    length: (Option<u64>, Option<u64>),
    items: (Option<u64>, Option<u64>),
    properties: (Option<u64>, Option<u64>),
    unique: bool,
    pattern: Option<(String, regex::Regex)>,
    format: Option<String>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

/// So many findings are told of one value.
const MOST_FINDINGS: usize = 100;
/// How deep values are looked at.
const DEEPEST: usize = 200;

impl Schema {
    /// Judges a value whose defaults were filled in.
    pub fn check(&self, value: &Value, at: &At<'_>, report: &mut Report) {
        let mut budget = rule::Budget::default();
        self.at_depth(value, Past::Unknown, at, report, &mut budget, 0);
    }

    /// Judges a value that is to stand in place of `old`: also by rules about changes, and what is as it was before by
    /// those alone, so that a definition which became stricter does not keep others from being changed.
    pub fn check_change(&self, value: &Value, old: &Value, at: &At<'_>, report: &mut Report) {
        let mut budget = rule::Budget::default();
        self.at_depth(value, Past::of(value, old), at, report, &mut budget, 0);
    }

    fn at_depth(
        &self,
        value: &Value,
        past: Past<'_>,
        at: &At<'_>,
        report: &mut Report,
        budget: &mut rule::Budget,
        depth: usize,
    ) {
        if report.0.len() >= MOST_FINDINGS || (past == Past::Same && !self.tells_changes) {
            return;
        }
        if depth > DEEPEST {
            return report.error(at, "is nested too deeply");
        }
        if value.is_null() && self.nullable {
            return;
        }
        if !self.fits(value) {
            let expected = match self.ty {
                _ if self.int_or_string => "a whole number or text",
                Some(Type::Object) => "a map",
                Some(Type::Array) => "a list",
                Some(Type::Text) => "text",
                Some(Type::Integer) => "a whole number",
                Some(Type::Number) => "a number",
                Some(Type::Boolean) => "true or false",
                None => "a value",
            };
            return report.error(at, format!("expected {expected}, found {}", shown(value)));
        }
        let before = report.0.len();
        if past != Past::Same {
            self.bounds.check(value, at, report);
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let inner = self.fields.get(key).or(self.additional.as_deref());
                    if let Some(inner) = inner {
                        let past = past.within(value, |old| old.get(key));
                        inner.at_depth(value, past, &at.field(key), report, budget, depth + 1);
                    } else if !self.preserves_unknown && self.ty.is_some() && !self.is_embedded(key)
                    {
                        self.unknown(key, &at.field(key), report);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    for (index, value) in list.iter().enumerate() {
                        let past = past.within(value, |old| self.list.counterpart(value, old));
                        let at = at.item(index);
                        items.at_depth(value, past, &at, report, budget, depth + 1);
                    }
                }
                self.list.check(list, at, report);
            }
            _ => {}
        }
        // A value of another form would make rules fail for no reason of theirs.
        if report.0.len() == before {
            for rule in &self.rules {
                rule.check(value, past, self, at, report, budget);
            }
        }
    }

    fn fits(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || is_whole(value);
        }
        match self.ty {
            None => !value.is_null(),
            Some(Type::Object) => value.is_object(),
            Some(Type::Array) => value.is_array(),
            Some(Type::Text) => value.is_string(),
            Some(Type::Integer) => is_whole(value),
            Some(Type::Number) => value.is_number(),
            Some(Type::Boolean) => value.is_boolean(),
        }
    }

    /// The fields that every object has, which definitions leave out.
    fn is_embedded(&self, key: &str) -> bool {
        matches!(key, "apiVersion" | "kind" | "metadata") && self.fields.contains_key("spec")
    }

    fn unknown(&self, key: &str, at: &At<'_>, report: &mut Report) {
        let code = model::parse::code::UNKNOWN_FIELD;
        let message = format!("unknown field `{key}`");
        report.say(at, model::Severity::Error, code, message);
        let names = self.fields.keys().map(String::as_str);
        if let Some(near) = model::parse::nearest(key, names) {
            report.help(format!("did you mean `{near}`?"));
        }
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "a map".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("the text {:?}", text.chars().take(60).collect::<String>()),
        other => other.to_string(),
    }
}

/// What stood in a value's place.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Past<'v> {
    /// Nothing, or nothing that is known.
    Unknown,
    /// The same value.
    Same,
    /// Another one.
    Other(&'v Value),
}

impl<'v> Past<'v> {
    fn of(value: &Value, old: &'v Value) -> Self {
        if value == old {
            Past::Same
        } else {
            Past::Other(old)
        }
    }

    /// The past of a value within.
    fn within(self, value: &Value, find: impl FnOnce(&'v Value) -> Option<&'v Value>) -> Self {
        match self {
            Past::Other(old) => find(old).map_or(Past::Unknown, |old| Past::of(value, old)),
            known => known,
        }
    }

    /// The value that stood in the place of `now`.
    fn value<'a>(self, now: &'a Value) -> Option<&'a Value>
    where
        'v: 'a,
    {
        match self {
            Past::Unknown => None,
            Past::Same => Some(now),
            Past::Other(old) => Some(old),
        }
    }
}

impl List {
    /// The item of an older list that an item stands for. Only those that keys tell apart are known again.
    fn counterpart<'v>(&self, item: &Value, old: &'v Value) -> Option<&'v Value> {
        let List::Map(keys) = self else { return None };
        let is_same = |other: &&Value| keys.iter().all(|key| other.get(key) == item.get(key));
        old.as_array()?.iter().find(is_same)
    }

    fn check(&self, items: &[Value], at: &At<'_>, report: &mut Report) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = match self {
                List::Atomic => return,
                List::Set => item.to_string(),
                List::Map(keys) => {
                    let values = keys.iter().map(|key| item.get(key).unwrap_or(&Value::Null));
                    values.map(|v| v.to_string() + "\n").collect()
                }
            };
            if !seen.insert(identity) {
                report.error(&at.item(index), "is there twice");
            }
        }
    }
}

impl Bounds {
    fn check(&self, value: &Value, at: &At<'_>, report: &mut Report) {
        if let Some(map) = value.as_object() {
            for key in self.required.iter().filter(|key| !map.contains_key(*key)) {
                report.error(&at.field(key), "is needed");
            }
        }
        if let Some(values) = &self.enumeration
            && !values.contains(value)
        {
            let names: Vec<String> = values.iter().map(Value::to_string).collect();
            report.error(
                at,
                format!("{} is none of {}", shown(value), names.join(", ")),
            );
        }
        self.sizes(value, at, report);
        if let Some(number) = value.as_f64() {
            self.number(number, at, report);
        }
        if let Some(text) = value.as_str() {
            if let Some((pattern, regex)) = &self.pattern
                && !regex.is_match(text)
            {
                report.error(at, format!("{} does not match {pattern}", shown(value)));
            }
            if let Some(format) = self.format.as_deref().filter(|f| !has_format(text, f)) {
                report.error(at, format!("{} is no {format}", shown(value)));
            }
        }
        self.conditions(value, at, report);
    }

    fn sizes(&self, value: &Value, at: &At<'_>, report: &mut Report) {
        let (bounds, size, what) = match value {
            Value::String(text) => (self.length, text.chars().count(), "characters"),
            Value::Array(list) => (self.items, list.len(), "entries"),
            Value::Object(map) => (self.properties, map.len(), "entries"),
            _ => return,
        };
        let size = size as u64;
        if let Some(least) = bounds.0.filter(|least| size < *least) {
            report.error(
                at,
                format!("has {size} {what}, at least {least} are needed"),
            );
        }
        if let Some(most) = bounds.1.filter(|most| size > *most) {
            report.error(at, format!("has {size} {what}, more than {most}"));
        }
        if let (true, Value::Array(list)) = (self.unique, value) {
            List::Set.check(list, at, report);
        }
    }

    fn number(&self, number: f64, at: &At<'_>, report: &mut Report) {
        if let Some((least, exclusive)) = self.minimum
            && (number < least || (exclusive && number == least))
        {
            let at_least = if exclusive { "more than" } else { "at least" };
            report.error(at, format!("must be {at_least} {least}, is {number}"));
        }
        if let Some((most, exclusive)) = self.maximum
            && (number > most || (exclusive && number == most))
        {
            let at_most = if exclusive { "less than" } else { "at most" };
            report.error(at, format!("must be {at_most} {most}, is {number}"));
        }
        if let Some(step) = self.multiple_of.filter(|step| *step > 0.0)
            && (number / step).fract() != 0.0
        {
            report.error(at, format!("{number} is no multiple of {step}"));
        }
    }

    fn conditions(&self, value: &Value, at: &At<'_>, report: &mut Report) {
        let holds = |schema: &Schema| {
            let mut found = Report::default();
            schema.condition(value, &At::TOP, &mut found);
            !found.has_errors()
        };
        for schema in &self.all_of {
            schema.condition(value, at, report);
        }
        if !self.any_of.is_empty() && !self.any_of.iter().any(holds) {
            report.error(at, "none of the forms that it may have fits");
        }
        if !self.one_of.is_empty() {
            let fitting = self.one_of.iter().filter(|s| holds(s)).count();
            if fitting != 1 {
                let names: BTreeSet<&str> = self.one_of.iter().flat_map(Schema::needed).collect();
                let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
                let message = match (fitting, names.is_empty()) {
                    (0, false) => format!("one of {} is needed", names.join(", ")),
                    (_, false) => format!("only one of {} may be set", names.join(", ")),
                    (_, true) => {
                        format!("{fitting} of the forms that it may have fit, and not one")
                    }
                };
                report.error(at, message);
            }
        }
        if self.not.as_deref().is_some_and(holds) {
            report.error(at, "has a form that it may not have");
        }
    }
}

impl Schema {
    /// Judges a value by a schema that stands in a condition: limits without types.
    fn condition(&self, value: &Value, at: &At<'_>, report: &mut Report) {
        self.bounds.check(value, at, report);
        if let Value::Object(map) = value {
            for (key, schema) in &self.fields {
                if let Some(value) = map.get(key) {
                    schema.condition(value, &at.field(key), report);
                }
            }
        }
        if let (Value::Array(list), Some(items)) = (value, &self.items) {
            for (index, value) in list.iter().enumerate() {
                items.condition(value, &at.item(index), report);
            }
        }
    }

    /// The fields that a form of a value is told by.
    fn needed(&self) -> impl Iterator<Item = &str> {
        self.bounds.required.iter().map(String::as_str)
    }
}

/// Whether a text has a format; formats that are not known hold for every text, as in Kubernetes.
fn has_format(text: &str, format: &str) -> bool {
    use base64::Engine;
    match format {
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => text.parse::<ipnet::IpNet>().is_ok(),
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(text)
            .is_ok(),
        "date-time" => serde_json::from_value::<proto_istio::wkt::Timestamp>(text.into()).is_ok(),
        "duration" => text.parse::<proto_istio::wkt::Duration>().is_ok(),
        "uri" => crate::text::is_url(text),
        _ => true,
    }
}

//! Writes the constraints (`validate.rules`) of Envoy's protos as tables of Rust.
//!
//! Only what can break a rule, or leads to a message that can, is in a table: everything else is skipped when a
//! resource is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    ReflectMessage, Value,
};

/// What Envoy's code checks and no proto states: a message, a field or `*` for the message as a whole, and the check.
const CHECKS: &str = "src/checks.txt";
/// Where the build script of `proto-envoy` has written the descriptors of Envoy.
const DESCRIPTORS: &str = "DEP_PILOTHOUSE_ENVOY_PROTOS_DESCRIPTOR_SET";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={CHECKS}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let checks = std::fs::read_to_string(CHECKS).expect("the list of checks can be read");
    let tables = Tables::new(&checks).write();
    std::fs::write(out.join("tables.rs"), tables).expect("OUT_DIR can be written");
}

struct Tables {
    rules: ExtensionDescriptor,
    required: ExtensionDescriptor,
    ignored: [ExtensionDescriptor; 2],
    /// By message: what is checked of the whole and of each field.
    checks: BTreeMap<String, Vec<(String, String)>>,
    messages: BTreeMap<String, MessageDescriptor>,
}

impl Tables {
    fn new(checks: &str) -> Self {
        let file =
            std::env::var_os(DESCRIPTORS).expect("proto-envoy says where its descriptors are");
        let set = std::fs::read(file).expect("the descriptors of Envoy can be read");
        let pool = DescriptorPool::decode(&*set).expect("the descriptors of Envoy are whole");
        let extension = |name: &str| {
            pool.get_extension_by_name(name)
                .unwrap_or_else(|| panic!("{name} is among Envoy's protos"))
        };
        let mut by_message: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        let lines = checks.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [message, field, check] = words[..] else {
                panic!("{CHECKS}: {line}");
            };
            let descriptor = pool
                .get_message_by_name(message)
                .unwrap_or_else(|| panic!("{CHECKS}: {message} is not a message of Envoy"));
            assert!(
                field == "*" || descriptor.get_field_by_name(field).is_some(),
                "{CHECKS}: {message} has no field {field}"
            );
            by_message
                .entry(message.to_owned())
                .or_default()
                .push((field.to_owned(), check.to_owned()));
        }
        let served = |name: &str| {
            ["envoy.config.", "envoy.extensions.", "envoy.type.", "xds."]
                .iter()
                .any(|package| name.starts_with(package))
        };
        let messages = pool
            .all_messages()
            .filter(|message| served(message.full_name()))
            .map(|message| (message.full_name().to_owned(), message))
            .collect();
        let mut tables = Self {
            rules: extension("validate.rules"),
            required: extension("validate.required"),
            ignored: [
                extension("validate.disabled"),
                extension("validate.ignored"),
            ],
            checks: by_message,
            messages,
        };
        tables.keep_those_that_matter();
        tables
    }

    /// Drops the messages that cannot break a rule and lead to none that can.
    fn keep_those_that_matter(&mut self) {
        let mut kept: BTreeSet<String> = BTreeSet::new();
        loop {
            let more: Vec<String> = self
                .messages
                .iter()
                .filter(|(name, message)| !kept.contains(*name) && self.matters(message, &kept))
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                break;
            }
            kept.extend(more);
        }
        self.messages.retain(|name, _| kept.contains(name));
    }

    fn matters(&self, message: &MessageDescriptor, kept: &BTreeSet<String>) -> bool {
        self.checks.contains_key(message.full_name())
            || message.oneofs().any(|oneof| self.is_required(&oneof))
            || message.fields().any(|field| {
                !self.field(message, &field).is_empty()
                    || match field.kind() {
                        Kind::Message(inner) => match inner.full_name() {
                            "google.protobuf.Duration" | "google.protobuf.Any" => true,
                            name => kept.contains(name),
                        },
                        _ => false,
                    }
            })
    }

    fn is_required(&self, oneof: &prost_reflect::OneofDescriptor) -> bool {
        let options = oneof.options();
        options.has_extension(&self.required)
            && options.get_extension(&self.required).as_bool() == Some(true)
            && !self.is_ignored(oneof.parent_message())
    }

    fn is_ignored(&self, message: &MessageDescriptor) -> bool {
        let options = message.options();
        self.ignored
            .iter()
            .any(|ext| options.get_extension(ext).as_bool() == Some(true))
    }

    fn rules_of(
        &self,
        message: &MessageDescriptor,
        field: &FieldDescriptor,
    ) -> Option<DynamicMessage> {
        let options = field.options();
        if self.is_ignored(message) || !options.has_extension(&self.rules) {
            return None;
        }
        options.get_extension(&self.rules).as_message().cloned()
    }

    /// All that is asked of a field.
    fn field(&self, message: &MessageDescriptor, field: &FieldDescriptor) -> Asked {
        let mut asked = Asked::default();
        if let Some(rules) = self.rules_of(message, field) {
            asked.read(field, &rules);
        }
        let own = self.checks.get(message.full_name()).into_iter().flatten();
        for (_, check) in own.filter(|(name, _)| name == field.name()) {
            asked.rules.push(format!("Rule::Check(Check::{check})"));
        }
        // One of several fields need not be the one that is written.
        asked.must &= field.containing_oneof().is_none();
        // A scalar without presence is judged even where it is not written.
        let is_judged_when_absent = !field.is_list()
            && !field.is_map()
            && !field.supports_presence()
            && field.containing_oneof().is_none();
        asked.must |= is_judged_when_absent && asked.default_fails;
        asked
    }

    fn write(&self) -> String {
        let at: BTreeMap<&str, usize> = self
            .messages
            .keys()
            .enumerate()
            .map(|(at, name)| (name.as_str(), at))
            .collect();
        let mut out = format!("pub(crate) static MESSAGES: [Message; {}] = [\n", at.len());
        for (name, message) in &self.messages {
            self.write_message(name, message, &at, &mut out);
        }
        out.push_str("];\n");
        out
    }

    fn write_message(
        &self,
        name: &str,
        message: &MessageDescriptor,
        at: &BTreeMap<&str, usize>,
        out: &mut String,
    ) {
        let mut bits: Vec<String> = Vec::new();
        let mut counted: Vec<String> = Vec::new();
        let mut unique: Vec<String> = Vec::new();
        let mut fields = Vec::new();
        let mut of_oneof: BTreeMap<String, usize> = BTreeMap::new();
        for oneof in message.oneofs().filter(|oneof| self.is_required(oneof)) {
            of_oneof.insert(oneof.name().to_owned(), bits.len());
            bits.push(oneof.name().to_owned());
        }
        for field in message.fields() {
            let asked = self.field(message, &field);
            let oneof = field
                .containing_oneof()
                .and_then(|oneof| of_oneof.get(oneof.name()).copied());
            let kind = kind(&field, at, &asked);
            if asked.is_empty() && oneof.is_none() && kind == "Kind::Skipped" {
                continue;
            }
            let bit = oneof.or_else(|| {
                asked.must.then(|| {
                    bits.push(field.name().to_owned());
                    bits.len() - 1
                })
            });
            let counter = asked.items.map(|(least, most)| {
                counted.push(format!("({:?}, {least}, {most})", field.name()));
                counted.len() - 1
            });
            if asked.unique {
                unique.push(field.number().to_string());
            }
            fields.push((
                field.number(),
                format!(
                    "Field {{ name: {:?}, bit: {}, counter: {}, kind: {kind}, ignore_empty: {}, rules: &[{}] }}",
                    field.name(),
                    bit.map_or(0, |bit| 1u64 << bit),
                    counter.unwrap_or(usize::from(u8::MAX)),
                    asked.ignore_empty,
                    asked.rules.join(", "),
                ),
            ));
        }
        assert!(
            bits.len() < 64 && counted.len() <= 8,
            "{name} has too many rules"
        );
        fields.sort();
        let most = fields.iter().map(|(number, _)| *number).max().unwrap_or(0);
        assert!(
            most < 2048 && fields.len() < 255,
            "{name} has too many fields"
        );
        let mut index = vec![u8::MAX; most as usize + 1];
        for (place, (number, _)) in fields.iter().enumerate() {
            index[*number as usize] = u8::try_from(place).expect("fewer than 255 fields");
        }
        let whole = self.checks.get(name).into_iter().flatten();
        let whole = whole
            .filter(|(field, _)| field == "*")
            .map(|(_, check)| format!("Whole::{check}"));
        let fields: Vec<String> = fields.into_iter().map(|(_, field)| field).collect();
        writeln!(
            out,
            "Message {{ name: {name:?}, must: &{bits:?}, counted: &[{}], unique: &[{}], whole: &[{}], index: &{index:?}, fields: &[{}] }},",
            counted.join(", "),
            unique.join(", "),
            whole.collect::<Vec<_>>().join(", "),
            fields.join(", "),
        )
        .expect("a String grows as needed");
    }
}

/// How the value of a field is read.
fn kind(field: &FieldDescriptor, at: &BTreeMap<&str, usize>, asked: &Asked) -> String {
    if let Kind::Message(inner) = field.kind() {
        if asked.skip {
            return "Kind::Skipped".to_owned();
        }
        let name = inner.full_name();
        return match name {
            "google.protobuf.Duration" => "Kind::Duration".to_owned(),
            "google.protobuf.Any" => "Kind::Any".to_owned(),
            _ if asked.rules.is_empty() || at.contains_key(name) => match at.get(name) {
                Some(at) => format!("Kind::Message({at})"),
                None => "Kind::Skipped".to_owned(),
            },
            // A wrapper: the rules are about what it holds.
            _ => {
                let held = inner.get_field(1).expect("a wrapper has a value");
                format!("Kind::Wrapped(&{})", scalar(&held.kind()))
            }
        };
    }
    match asked.rules.is_empty() {
        true => "Kind::Skipped".to_owned(),
        false => scalar(&field.kind()).to_owned(),
    }
}

fn scalar(kind: &Kind) -> &'static str {
    match kind {
        Kind::Double => "Kind::Double",
        Kind::Float => "Kind::Float",
        Kind::Int32 | Kind::Int64 | Kind::Enum(_) => "Kind::Signed",
        Kind::Uint32 | Kind::Uint64 | Kind::Bool => "Kind::Unsigned",
        Kind::Sint32 | Kind::Sint64 => "Kind::Zigzag",
        Kind::Fixed32 | Kind::Fixed64 => "Kind::Fixed",
        Kind::Sfixed32 | Kind::Sfixed64 => "Kind::SignedFixed",
        Kind::String => "Kind::Text",
        Kind::Bytes => "Kind::Bytes",
        Kind::Message(_) => "Kind::Skipped",
    }
}

/// What the rules of a field ask.
#[derive(Default)]
struct Asked {
    rules: Vec<String>,
    /// The field must be written.
    must: bool,
    /// The default value breaks a rule.
    default_fails: bool,
    ignore_empty: bool,
    /// Its messages are not judged.
    skip: bool,
    /// How many items there may be.
    items: Option<(u64, u64)>,
    unique: bool,
}

impl Asked {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.must && self.items.is_none() && !self.unique
    }

    fn read(&mut self, field: &FieldDescriptor, rules: &DynamicMessage) {
        if let Some(message) = sub(rules, "message") {
            self.must |= flag(&message, "required");
            self.skip = flag(&message, "skip");
        }
        for of_kind in ["any", "duration", "timestamp"] {
            if let Some(rule) = sub(rules, of_kind) {
                self.must |= flag(&rule, "required");
            }
        }
        if let Some(repeated) = sub(rules, "repeated") {
            let least = number(&repeated, "min_items").unwrap_or(0);
            self.count(least, number(&repeated, "max_items"));
            self.unique = flag(&repeated, "unique");
            if let Some(items) = sub(&repeated, "items") {
                self.values(&items, field);
            }
            self.default_fails = false;
            return;
        }
        if let Some(map) = sub(rules, "map") {
            let least = number(&map, "min_pairs").unwrap_or(0);
            self.count(least, number(&map, "max_pairs"));
            return;
        }
        self.values(rules, field);
    }

    fn count(&mut self, least: u64, most: Option<u64>) {
        self.must |= least > 0;
        if least > 1 || most.is_some() {
            self.items = Some((least, most.unwrap_or(u64::from(u32::MAX))));
        }
    }

    /// The rules of one value.
    fn values(&mut self, rules: &DynamicMessage, field: &FieldDescriptor) {
        if let Some(text) = sub(rules, "string") {
            self.text(&text);
        }
        if let Some(bytes) = sub(rules, "bytes") {
            let least = number(&bytes, "min_len").unwrap_or(0);
            let most = number(&bytes, "max_len").unwrap_or(u64::from(u32::MAX));
            self.default_fails |= least > 0;
            self.rules.push(format!("Rule::Size({least}, {most})"));
        }
        for of_kind in ["int32", "int64", "sint32", "sint64", "sfixed32", "sfixed64"] {
            if let Some(range) = sub(rules, of_kind) {
                self.integers(
                    &range,
                    "Signed",
                    (i128::from(i64::MIN), i128::from(i64::MAX)),
                );
            }
        }
        for of_kind in ["uint32", "uint64", "fixed32", "fixed64"] {
            if let Some(range) = sub(rules, of_kind) {
                self.integers(&range, "Unsigned", (0, i128::from(u64::MAX)));
            }
        }
        for of_kind in ["float", "double"] {
            if let Some(range) = sub(rules, of_kind) {
                self.floats(&range);
            }
        }
        if let Some(wanted) = sub(rules, "bool").filter(|rule| has(rule, "const")) {
            let wanted = u64::from(flag(&wanted, "const"));
            self.default_fails |= wanted != 0;
            self.rules
                .push(format!("Rule::Unsigned({wanted}, {wanted})"));
        }
        if let Some(rule) = sub(rules, "enum") {
            self.enumeration(&rule, field);
        }
        if let Some(rule) = sub(rules, "duration") {
            self.duration(&rule);
        }
    }

    fn text(&mut self, rules: &DynamicMessage) {
        self.ignore_empty = flag(rules, "ignore_empty");
        let most = u64::from(u32::MAX);
        let exact = number(rules, "len");
        let least = number(rules, "min_len").or(exact).unwrap_or(0);
        let longest = number(rules, "max_len").or(exact);
        if least > 0 || longest.is_some() {
            self.rules.push(format!(
                "Rule::Length({least}, {})",
                longest.unwrap_or(most)
            ));
        }
        let smallest = number(rules, "min_bytes").unwrap_or(0);
        let largest = number(rules, "max_bytes");
        if smallest > 0 || largest.is_some() {
            self.rules.push(format!(
                "Rule::Size({smallest}, {})",
                largest.unwrap_or(most)
            ));
        }
        let mut empty_fails = least > 0 || smallest > 0;
        for (name, rule) in [("prefix", "Prefix"), ("suffix", "Suffix")] {
            if let Some(text) = word(rules, name) {
                self.rules.push(format!("Rule::{rule}({text:?})"));
                empty_fails = true;
            }
        }
        if let Some(pattern) = word(rules, "pattern") {
            // The rest is of fields that nothing here writes.
            if pattern == "^[^?#]+[^?#/]$" {
                self.rules
                    .push("Rule::Check(Check::SeparatedPrefix)".to_owned());
                empty_fails = true;
            }
        }
        let allowed = words(rules, "in");
        if !allowed.is_empty() {
            empty_fails |= !allowed.iter().any(String::is_empty);
            self.rules.push(format!("Rule::Among(&{allowed:?})"));
        }
        // 1 is the name of a header, 2 the value of one.
        let strict = !has(rules, "strict") || flag(rules, "strict");
        match number(rules, "well_known_regex") {
            Some(1) => {
                empty_fails |= strict;
                self.rules.push(format!("Rule::HeaderName({strict})"));
            }
            Some(2) => self.rules.push(format!("Rule::HeaderValue({strict})")),
            _ => {}
        }
        self.default_fails |= empty_fails && !self.ignore_empty;
    }

    fn integers(&mut self, rules: &DynamicMessage, rule: &str, (lowest, highest): (i128, i128)) {
        self.ignore_empty |= flag(rules, "ignore_empty");
        let bound = |name: &str| integer(rules, name);
        let low = bound("gte")
            .or(bound("gt").map(|n| n + 1))
            .or(bound("const"));
        let high = bound("lte")
            .or(bound("lt").map(|n| n - 1))
            .or(bound("const"));
        let (low, high) = (low.unwrap_or(lowest), high.unwrap_or(highest));
        self.default_fails |= !self.ignore_empty && !(low..=high).contains(&0);
        let shown = |n: i128| match n {
            _ if n == i128::from(i64::MIN) => "i64::MIN".to_owned(),
            n => n.to_string(),
        };
        self.rules
            .push(format!("Rule::{rule}({}, {})", shown(low), shown(high)));
    }

    fn floats(&mut self, rules: &DynamicMessage) {
        let bound = |name: &str| float(rules, name);
        let low = bound("gte")
            .or(bound("gt").map(f64::next_up))
            .unwrap_or(f64::MIN);
        let high = bound("lte")
            .or(bound("lt").map(f64::next_down))
            .unwrap_or(f64::MAX);
        self.default_fails |= !(low..=high).contains(&0.0);
        self.rules.push(format!("Rule::Real({low:?}, {high:?})"));
    }

    fn enumeration(&mut self, rules: &DynamicMessage, field: &FieldDescriptor) {
        let kind = match field.kind() {
            // An entry of a map does not occur.
            Kind::Enum(kind) => kind,
            _ => return,
        };
        let refused: Vec<i64> = numbers(rules, "not_in");
        let defined: BTreeSet<i64> = kind
            .values()
            .map(|value| i64::from(value.number()))
            .filter(|number| !refused.contains(number))
            .collect();
        if flag(rules, "defined_only") || !refused.is_empty() {
            self.default_fails |= !defined.contains(&0);
            self.rules.push(format!(
                "Rule::OneOf(&{:?})",
                defined.into_iter().collect::<Vec<_>>()
            ));
        }
    }

    fn duration(&mut self, rules: &DynamicMessage) {
        let bound = |name: &str| {
            let time = sub(rules, name)?;
            let seconds = integer(&time, "seconds").unwrap_or(0);
            let nanos = integer(&time, "nanos").unwrap_or(0);
            Some(seconds * 1_000_000_000 + nanos)
        };
        let low = bound("gte").or(bound("gt").map(|n| n + 1));
        let high = bound("lte").or(bound("lt").map(|n| n - 1));
        if low.is_some() || high.is_some() {
            self.rules.push(format!(
                "Rule::Nanos({}, {})",
                low.unwrap_or(0),
                high.unwrap_or(i128::from(u64::MAX) * 1_000_000_000)
            ));
        }
    }
}

fn has(message: &DynamicMessage, name: &str) -> bool {
    message.descriptor().get_field_by_name(name).is_some() && message.has_field_by_name(name)
}

fn value(message: &DynamicMessage, name: &str) -> Option<Value> {
    has(message, name).then(|| {
        let value = message.get_field_by_name(name).expect("it has the field");
        value.into_owned()
    })
}

fn sub(message: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    value(message, name)?.as_message().cloned()
}

fn flag(message: &DynamicMessage, name: &str) -> bool {
    value(message, name).and_then(|value| value.as_bool()) == Some(true)
}

fn integer(message: &DynamicMessage, name: &str) -> Option<i128> {
    match value(message, name)? {
        Value::I32(n) => Some(n.into()),
        Value::I64(n) => Some(n.into()),
        Value::U32(n) => Some(n.into()),
        Value::U64(n) => Some(n.into()),
        Value::EnumNumber(n) => Some(n.into()),
        _ => None,
    }
}

fn number(message: &DynamicMessage, name: &str) -> Option<u64> {
    integer(message, name).and_then(|n| n.try_into().ok())
}

fn float(message: &DynamicMessage, name: &str) -> Option<f64> {
    match value(message, name)? {
        Value::F32(n) => Some(n.into()),
        Value::F64(n) => Some(n),
        _ => None,
    }
}

fn word(message: &DynamicMessage, name: &str) -> Option<String> {
    value(message, name)?.as_str().map(str::to_owned)
}

fn words(message: &DynamicMessage, name: &str) -> Vec<String> {
    let list = value(message, name);
    let list = list.as_ref().and_then(Value::as_list).unwrap_or_default();
    list.iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

fn numbers(message: &DynamicMessage, name: &str) -> Vec<i64> {
    let list = value(message, name);
    let list = list.as_ref().and_then(Value::as_list).unwrap_or_default();
    list.iter()
        .filter_map(|item| item.as_i32().map(i64::from))
        .collect()
}

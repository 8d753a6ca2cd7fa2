//! The limits of kinds as a CustomResourceDefinition states them: what [`super::check`] finds in an object, an API
//! server finds as well.

use model::Kind;
use serde_json::{Value, json};

use super::limits::{Limit, SPECS};
use super::shape::{Row, Spec};
use super::{MESSAGES, Scalar, shape};

/// Conditions in CEL of what [`Limit::Other`] and `rules` check: message without `istio.` or shape, field (`spec` for the
/// message as a whole object's), rule, what it says.
const RULES: &[(&str, &str, &str, &str)] = &[
    (
        "networking.v1alpha3.ServiceEntry",
        "",
        "!has(self.endpoints) || (has(self.resolution) && self.resolution != 'NONE')",
        "endpoints have no meaning where the resolution is NONE",
    ),
    (
        "networking.v1alpha3.ServiceEntry",
        "",
        "!has(self.addresses) || !has(self.resolution) || self.resolution in ['NONE', 'STATIC'] || \
         !self.addresses.exists(address, address.contains('/'))",
        "ranges of addresses are for the resolutions NONE and STATIC",
    ),
    (
        "networking.v1alpha3.ServiceEntry",
        "endpoints[]",
        ADDRESS,
        NO_ADDRESS,
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "spec",
        ADDRESS,
        NO_ADDRESS,
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "",
        "!has(self.address) || !self.address.startsWith('unix://') || \
         self.address.matches('^unix://(@.*|/(.*[^/])?)$')",
        "the address of a Unix socket is unix:// and the absolute path of a file",
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "",
        "!has(self.address) || !self.address.startsWith('unix://') || !has(self.ports)",
        "a Unix socket has no ports",
    ),
    (
        "networking.v1alpha3.WorkloadEntry",
        "ports",
        "self.all(name, name.matches('^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$'))",
        "names of ports have up to 63 letters, digits and dashes",
    ),
    (
        "networking.v1alpha3.EnvoyFilter.EnvoyConfigObjectMatch",
        "",
        "(has(self.context) && self.context == 'WAYPOINT') == has(self.waypoint)",
        "the context WAYPOINT is matched by `waypoint`, and no other",
    ),
    (
        "security.v1beta1.Source",
        "",
        "!(has(self.serviceAccounts) || has(self.notServiceAccounts)) || \
         !(has(self.principals) || has(self.notPrincipals) || has(self.namespaces) || has(self.notNamespaces))",
        "service accounts go without principals and namespaces",
    ),
    (
        "telemetry.v1alpha1.MetricsOverrides.TagOverride",
        "",
        "!(has(self.operation) && self.operation == 'REMOVE' && has(self.value))",
        "REMOVE has no value",
    ),
    (
        "extensions.v1alpha1.EnvVar",
        "",
        "!(has(self.valueFrom) && self.valueFrom == 'HOST' && has(self.value))",
        "`value` has no meaning where `valueFrom` is HOST",
    ),
];

const ADDRESS: &str = "has(self.address) || has(self.network)";
const NO_ADDRESS: &str = "an address is needed where there is no network";

/// Patterns of texts that `rules` check: message without `istio.`, field, pattern.
const TEXTS: &[(&str, &str, &str)] = &[
    ("type.v1beta1.WorkloadSelector", "matchLabels[]", NO_STAR),
    ("networking.v1alpha3.WorkloadSelector", "labels[]", NO_STAR),
    ("networking.v1alpha3.HTTPHeader", "name", HEADER),
    (
        "networking.v1alpha3.HTTPHealthCheckConfig",
        "scheme",
        "^(HTTPS?)?$",
    ),
    ("security.v1beta1.ClaimToHeader", "header", HEADER),
    ("security.v1beta1.JWTRule", "jwksUri", "^https?://."),
    ("extensions.v1alpha1.WasmPlugin", "sha256", SHA_256),
    ("extensions.v1alpha1.WasmConfig", "sha256", SHA_256),
];

const NO_STAR: &str = "^[^*]*$";
const HEADER: &str = "^[-_A-Za-z0-9]+$";
const SHA_256: &str = "^([a-f0-9]{64})?$";
/// A length of time as Go reads it.
const TIME: &str = "^[-+]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// Patterns of what [`Limit::Form`] checks, by what it is the name of.
const PATTERNS: &[(&str, &str)] = &[
    (
        "a group",
        "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
    ),
    ("a kind", "^([a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)?$"),
];

/// Adds the limits of a kind to a schema of it, as CustomResourceDefinitions have it. Fields that the schema has not are
/// left out.
pub fn constrain(kind: Kind, schema: &mut Value) {
    let (needed, limit): (bool, fn(&str, &mut Value)) = match SPECS.iter().find(|s| s.0 == kind) {
        Some((.., needed)) => (*needed, message),
        None => match shape::spec(kind) {
            Some((_, place)) if place != Spec::None => (place == Spec::Needed, shape),
            _ => return,
        },
    };
    if needed {
        require(schema, ["spec"]);
    }
    let name = SPECS.iter().find(|s| s.0 == kind).map(|s| s.1);
    let name = name.or_else(|| shape::spec(kind).map(|(name, _)| name));
    let spec = schema.pointer_mut("/properties/spec");
    if let (Some(name), Some(spec)) = (name, spec) {
        limit(name, spec);
        rules(name, "spec", spec);
    }
}

fn message(name: &str, schema: &mut Value) {
    let Some(message) = MESSAGES.get(name) else {
        return;
    };
    for limit in &message.limits {
        limit.state(schema);
    }
    for choice in &message.choices {
        exclude(choice, schema);
    }
    rules(name, "", schema);
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for (key, schema) in properties {
        let Some(field) = message.fields.get(key) else {
            continue;
        };
        for limit in &field.limits {
            limit.state(schema);
        }
        rules(name, key, schema);
        let inner = match within(schema) {
            Some(item) => {
                for limit in &field.of_items {
                    limit.state(item);
                }
                rules(name, &format!("{key}[]"), item);
                item
            }
            None => schema,
        };
        match field.scalar {
            Some(Scalar::Time) => set(inner, "pattern", TIME),
            Some(Scalar::Unsigned) if inner.get("minimum").is_none() => set(inner, "minimum", 0),
            _ => {}
        }
        if let Some(name) = &field.inner {
            self::message(name, inner);
        }
    }
}

fn shape(name: &str, schema: &mut Value) {
    rules(name, "", schema);
    for (_, field, row) in shape::rows(name) {
        let target = match (field.strip_suffix("[]"), field.is_empty()) {
            (_, true) => Some(&mut *schema),
            (Some(list), _) => property(schema, list).and_then(within),
            (None, _) => property(schema, field),
        };
        match (target, row) {
            (Some(target), Row::Has(limit)) => limit.state(target),
            (Some(target), Row::Is(inner)) => shape(inner, target),
            (_, Row::Only(_)) | (None, _) => {}
        }
    }
}

fn property<'s>(schema: &'s mut Value, name: &str) -> Option<&'s mut Value> {
    schema.get_mut("properties")?.get_mut(name)
}

/// The schema of the items of a list or of the values of a map.
fn within(schema: &mut Value) -> Option<&mut Value> {
    let key = ["items", "additionalProperties"]
        .into_iter()
        .find(|key| schema.get(key).is_some_and(Value::is_object))?;
    schema.get_mut(key)
}

/// What is said of a field beside its limits.
fn rules(of: &str, field: &str, schema: &mut Value) {
    let of = of.strip_prefix("istio.").unwrap_or(of);
    let own = RULES.iter().filter(|r| (r.0, r.1) == (of, field));
    for (.., rule, message) in own {
        condition(schema, rule, message);
    }
    let own = TEXTS.iter().find(|t| (t.0, t.1) == (of, field));
    if let Some((.., pattern)) = own {
        set(schema, "pattern", *pattern);
    }
}

fn condition(schema: &mut Value, rule: &str, message: &str) {
    let rule = json!({"rule": rule, "message": message});
    push(schema, "x-kubernetes-validations", rule);
}

fn push(schema: &mut Value, key: &str, item: Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    let list = map.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&item)
    {
        list.push(item);
    }
}

fn require<'k>(schema: &mut Value, keys: impl IntoIterator<Item = &'k str>) {
    for key in keys {
        if property(schema, key).is_some() {
            push(schema, "required", key.into());
        }
    }
}

/// Of these keys those that the schema has.
fn known<'k>(schema: &Value, keys: impl IntoIterator<Item = &'k str>) -> Vec<&'k str> {
    let has = |key: &&str| schema["properties"].get(key).is_some();
    keys.into_iter().filter(has).collect()
}

/// At most one of these keys: in conditions of the schema, which cost nothing however often it is met.
fn exclude(keys: &[String], schema: &mut Value) {
    let keys = known(schema, keys.iter().map(String::as_str));
    let pairs = keys.iter().enumerate().flat_map(|(at, first)| {
        let others = keys[at + 1..].iter();
        others.map(move |second| json!({"required": [first, second]}))
    });
    let pairs: Vec<Value> = pairs.collect();
    if !pairs.is_empty() {
        push(schema, "allOf", json!({"not": {"anyOf": pairs}}));
    }
}

fn set(schema: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(map) = schema.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}

/// A bound as it is written: whole numbers without a point.
fn number(bound: f64) -> Value {
    #[expect(clippy::cast_possible_truncation)] // The bounds of the tables are small.
    let whole = bound as i64;
    if bound.fract() == 0.0 {
        whole.into()
    } else {
        bound.into()
    }
}

impl Limit {
    /// Adds the limit to the schema of the value that it is about.
    fn state(&self, schema: &mut Value) {
        let (many_least, many_most) = match schema["type"].as_str() {
            Some("array") => ("minItems", "maxItems"),
            _ => ("minProperties", "maxProperties"),
        };
        match *self {
            Self::Needs(keys) => require(schema, keys.iter().copied()),
            Self::OneOf(keys) => {
                let keys = known(schema, keys.iter().copied());
                let set = keys.iter().map(|k| format!("(has(self.{k}) ? 1 : 0)"));
                let rule = format!("{} <= 1", set.collect::<Vec<_>>().join(" + "));
                let message = format!("only one of {} may be set", keys.join(", "));
                if keys.len() > 1 {
                    condition(schema, &rule, &message);
                }
            }
            Self::Length(least, most) => bounds(schema, ("minLength", "maxLength"), least, most),
            Self::Entries(least, most) => bounds(schema, (many_least, many_most), least, most),
            Self::Between(least, most) => {
                set(schema, "minimum", number(least));
                if most < f64::MAX {
                    set(schema, "maximum", number(most));
                }
            }
            Self::Time => condition(
                schema,
                "duration(self) >= duration('1ms')",
                "must be a time of at least 1ms",
            ),
            // A rule in CEL would cost too much where the list has no bound. Such a key is needed.
            Self::Unique(key) => {
                set(schema, "x-kubernetes-list-type", "map");
                set(schema, "x-kubernetes-list-map-keys", vec![key]);
                if let Some(items) = within(schema) {
                    require(items, [key]);
                }
            }
            Self::Choice(texts) => {
                let texts = texts.iter().copied().chain([""]);
                set(schema, "enum", texts.collect::<Vec<_>>());
            }
            Self::Form(_, name) => {
                if let Some((_, pattern)) = PATTERNS.iter().find(|(of, _)| *of == name) {
                    set(schema, "pattern", *pattern);
                }
            }
            // Of these there are rules.
            Self::Other(_) => {}
        }
    }
}

fn bounds(schema: &mut Value, (least_key, most_key): (&str, &str), least: usize, most: usize) {
    if least > 0 {
        set(schema, least_key, least);
    }
    if most < usize::MAX {
        set(schema, most_key, most);
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::LIMITS;
    use super::*;
    use crate::report::{At, Report};
    use crate::schema::compile;

    #[test]
    fn what_has_no_form_of_its_own_has_a_rule_or_a_pattern() {
        for (of, field, limit) in LIMITS {
            match limit {
                Limit::Other(_) => {
                    let stated = RULES.iter().any(|r| (r.0, r.1) == (*of, *field));
                    assert!(stated, "{of}.{field}");
                }
                Limit::Form(is, name) => {
                    let pattern = PATTERNS.iter().find(|(of, _)| of == name);
                    let pattern = pattern.unwrap_or_else(|| panic!("{name}")).1;
                    let schema = compile(&json!({"type": "string", "pattern": pattern})).unwrap();
                    let matches = |text: &str| {
                        let mut report = Report::default();
                        schema.check(&text.into(), &At::TOP, &mut report);
                        !report.has_errors()
                    };
                    for text in [
                        "", "a", "a.b", "a-", "-a", "A", "Ab-c", "1a", "a..b", "a/b", "a.B",
                    ] {
                        assert_eq!(matches(text), is(text), "{name}: {text:?}");
                    }
                }
                _ => {}
            }
        }
        let named = RULES.iter().map(|r| (r.0, r.1));
        for (of, field) in named.chain(TEXTS.iter().map(|t| (t.0, t.1))) {
            let message = MESSAGES.get(&format!("istio.{of}"));
            let message = message.unwrap_or_else(|| panic!("{of}"));
            let field = field.trim_end_matches("[]");
            let known = matches!(field, "" | "spec") || message.fields.contains_key(field);
            assert!(known, "{of}.{field}");
        }
    }
}

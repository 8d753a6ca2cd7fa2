//! Expressions of CEL, with the functions that Kubernetes adds to it.

mod check;
mod condition;
pub mod envoy;
mod functions;
mod kind;

use std::sync::{Arc, LazyLock};

use ::cel::{Context, Env, Program, Value};
use base64::Engine;

pub use condition::{Condition, Subject};
pub use kind::{Kind, most_entries, most_often};

use kind::Shape;

/// Characters of an expression.
const LONGEST: usize = 16 << 10;
/// How deep brackets and operators may be nested.
const DEEPEST: usize = 100;

/// The standard library with the extensions that Kubernetes has.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [::cel::extensions::strings, ::cel::extensions::lists] {
        env.add_extension(extension)
            .expect("the extensions declare functions of names of their own");
    }
    Arc::new(env)
});

/// Whether an expression can be read at all.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse(expression: &str) -> Result<(), String> {
    compile(expression).map(|_| ())
}

/// What an expression has to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Whether something is so.
    Bool,
    /// A message.
    Text,
}

/// An expression that fits its variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The most that one evaluation may cost, in units of CEL's own estimates.
    pub cost: u64,
    /// Whether it looks at what was before.
    pub is_of_change: bool,
}

/// Judges an expression by the kinds of its variables, before there is any value: fields that are not there, operators and
/// functions that do not take what they are given, and what it may cost.
///
/// # Errors
///
/// What is wrong with it.
pub fn judge(
    expression: &str,
    variables: &[(&str, Kind)],
    wanted: Wanted,
) -> Result<Judged, String> {
    let program = compile(expression)?;
    let known = check::check(program.expression(), variables)?;
    match (wanted, &known.kind.shape) {
        (Wanted::Bool, Shape::Bool | Shape::Any) | (Wanted::Text, Shape::Text | Shape::Any) => {}
        (Wanted::Bool, _) => return Err("must evaluate to a bool".to_owned()),
        (Wanted::Text, _) => return Err("must evaluate to a string".to_owned()),
    }
    Ok(Judged {
        cost: known.cost,
        is_of_change: program.references().has_variable("oldSelf"),
    })
}

/// The most that an evaluation may cost with variables of these sizes.
pub(crate) fn cost(program: &Program, variables: &[(&str, Kind)]) -> u64 {
    check::check(program.expression(), variables).map_or(0, |known| known.cost)
}

/// Reads an expression.
pub(crate) fn compile(expression: &str) -> Result<Program, String> {
    if expression.len() > LONGEST {
        return Err(format!("the expression has more than {LONGEST} characters"));
    }
    if depth(expression) > DEEPEST {
        return Err("the expression is nested too deeply".to_owned());
    }
    ENVIRONMENT.compile(expression).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        format!("not an expression of CEL: {line}")
    })
}

/// What an expression is evaluated in, without variables.
pub(crate) fn context(expression: &str) -> Context<'static, 'static> {
    let mut context = Context::with_env(ENVIRONMENT.clone());
    functions::add(&mut context, expression.contains("null"));
    context
}

/// What a text of a format is to rules: moments, spans of time and bytes are no texts to them.
pub(crate) fn of_format(text: &str, format: &str) -> Option<Value> {
    static TIMESTAMP: LazyLock<Option<Program>> = LazyLock::new(|| compile("timestamp(t)").ok());
    static DURATION: LazyLock<Option<Program>> = LazyLock::new(|| compile("duration(t)").ok());
    let read = |program: &Option<Program>, text: String| {
        let mut context = context("");
        context.add_variable_from_value("t", Value::String(Arc::new(text)));
        program.as_ref()?.execute(&context).ok()
    };
    match format {
        "date-time" => read(&TIMESTAMP, text.to_owned()),
        "date" => read(&TIMESTAMP, format!("{text}T00:00:00Z")),
        "duration" => read(&DURATION, text.to_owned()),
        "byte" => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(text)
                .ok()?;
            Some(Value::Bytes(Arc::new(bytes)))
        }
        _ => None,
    }
}

/// An upper bound of how deep an expression is nested: brackets, and operators that stand before what they are for.
fn depth(expression: &str) -> usize {
    let (mut open, mut deepest, mut operators) = (0_usize, 0_usize, 0_usize);
    let mut quote: Option<char> = None;
    let mut chars = expression.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => _ = chars.next(),
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => open += 1,
            (None, ')' | ']' | '}') => open = open.saturating_sub(1),
            (None, '?' | '!' | '-') => operators += 1,
            (None, _) => {}
        }
        deepest = deepest.max(open);
    }
    deepest.max(operators / 4)
}

/// How deep the loops of an expression stand within one another.
pub(crate) fn loops(expression: &str) -> u32 {
    const LOOPS: [&str; 6] = ["all", "exists", "exists_one", "map", "filter", "sortBy"];
    let mut open: Vec<bool> = Vec::new();
    let mut deepest = 0;
    let mut word = String::new();
    for c in expression.chars() {
        match c {
            '(' => {
                open.push(LOOPS.contains(&word.as_str()));
                deepest = deepest.max(open.iter().filter(|is_loop| **is_loop).count());
            }
            ')' => _ = open.pop(),
            _ => {}
        }
        match c {
            'a'..='z' | 'A'..='Z' | '_' | '0'..='9' => word.push(c),
            _ => word.clear(),
        }
    }
    u32::try_from(deepest).unwrap_or(u32::MAX)
}

/// Names that CEL keeps for itself.
const RESERVED: [&str; 20] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

/// The name that rules have for a field.
pub(crate) fn escape(field: &str) -> String {
    if RESERVED.contains(&field) || field == "while" {
        return format!("__{field}__");
    }
    if !field.contains(['-', '.', '/']) && !field.contains("__") {
        return field.to_owned();
    }
    field
        .replace("__", "__underscores__")
        .replace('-', "__dash__")
        .replace('.', "__dot__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(expression: &str) -> Value {
        let program = compile(expression).unwrap();
        program.execute(&context(expression)).unwrap()
    }

    #[test]
    fn functions_of_kubernetes_are_there() {
        for holds in [
            "isURL('https://a.b:80/c?d=e') && url('https://a.b:80/c').getPort() == '80'",
            "url('https://a.b:80/c').getScheme() == 'https'",
            "url('https://a.b:80/c').getHostname() == 'a.b'",
            "!isURL('a b')",
            "isIP('::1') && !isIP('1.2.3') && ip('1.2.3.4').family() == 4",
            "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0')",
            "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
            "'abc 123'.find('[0-9]+') == '123'",
            "'a1b2'.findAll('[0-9]') == ['1', '2']",
            "[1, 2, 3].isSorted() && [1, 2].sum() == 3",
            "'abcdef'.substring(1, 3) == 'bc' && 'A'.lowerAscii() == 'a'",
            "duration('2ms') >= duration('1ms')",
            "[1, 2, 2].exists_one(x, x == 1)",
            "'a-b'.split('-').size() == 2",
            "!format.dns1123Label().validate('a-b').hasValue()",
            "format.dns1123Label().validate('a.b').hasValue()",
            "isQuantity('1Gi') && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        ] {
            assert_eq!(eval(holds), Value::Bool(true), "{holds}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for bad in [
            "1 +",
            "a ? b",
            "(",
            &"(".repeat(200),
            &"a".repeat(LONGEST + 1),
        ] {
            assert!(parse(bad).is_err());
        }
        assert!(parse("response.code >= 500 && !has(a.b)").is_ok());
    }

    #[test]
    fn loops_are_counted_by_depth() {
        assert_eq!(
            loops("self.all(x, x.exists(y, y)) && self.map(x, x) == []"),
            2
        );
        assert_eq!(loops("self.size() == 0"), 0);
    }

    fn said(rule: &str) -> String {
        let schema = serde_json::json!({"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 10},
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "on": {"type": "boolean"},
            "port": {"x-kubernetes-int-or-string": true},
            "since": {"type": "string", "format": "date-time"},
            "labels": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 10}},
            "items": {"type": "array", "maxItems": 4, "items": {"type": "object", "properties": {"id": {"type": "string", "maxLength": 5}}}},
            "open": {"x-kubernetes-preserve-unknown-fields": true},
            "if": {"type": "string"},
        }});
        let kind = Kind::of_schema(&schema, false).unwrap();
        let variables = [("self", kind.clone()), ("oldSelf", kind.optional())];
        match judge(rule, &variables, Wanted::Bool) {
            Ok(judged) => judged.cost.to_string(),
            Err(fault) => fault,
        }
    }

    #[test]
    fn what_cannot_be_right_is_told_before_there_is_a_value() {
        let overload = |call: &str| format!("found no matching overload for {call}");
        for (rule, wanted) in [
            ("self.nmae == 'a'", "undefined field 'nmae'".to_owned()),
            ("self.open.x == 1", "undefined field 'open'".to_owned()),
            ("has(self.items[0].idd)", "undefined field 'idd'".to_owned()),
            ("self.items.all(i, i.idd == '')", "undefined field 'idd'".to_owned()),
            ("slef.name == 'a'", "undeclared reference to 'slef'".to_owned()),
            ("self.name.lower() == 'a'", "undeclared reference to 'lower'".to_owned()),
            ("self.name == 1", overload("'_==_' applied to '(string, int)'")),
            ("self.share == 1", overload("'_==_' applied to '(double, int)'")),
            ("self.name == null", overload("'_==_' applied to '(string, null)'")),
            ("self.count + 'a' == 'b'", overload("'_+_' applied to '(int, string)'")),
            ("self.count && self.on", overload("'_&&_' applied to '(int, bool)'")),
            ("!self.name", overload("'!_' applied to '(string)'")),
            ("self.name < self.count", overload("'_<_' applied to '(string, int)'")),
            ("self.count in ['a']", overload("'@in' applied to '(int, list(string))'")),
            ("self.name.startsWith(1)", overload("'startsWith' applied to '(string, int)'")),
            ("self.since > '2020-01-01'", overload("'_>_' applied to '(google.protobuf.Timestamp, string)'")),
            ("self.on ? self.name : self.count", overload("'_?_:_' applied to '(bool, string, int)'")),
            ("self.name.id == ''", "type 'string' does not support field selection".to_owned()),
            ("self.count.all(x, true)", "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)".to_owned()),
            ("self.name", "must evaluate to a bool".to_owned()),
            ("self.items.map(i, i.id)", "must evaluate to a bool".to_owned()),
        ] {
            assert_eq!(said(rule), wanted, "{rule}");
        }
    }

    #[test]
    fn what_may_be_right_is_taken() {
        for rule in [
            "true",
            "self.name == 'a' || self.__if__ == 'b'",
            "self.share < 1 && self.count <= 1.5",
            "type(self.port) == int ? self.port > 0 : self.port.matches('[0-9]+%')",
            "self.since > timestamp('2020-01-01T00:00:00Z') && self.since - self.since == duration('0s')",
            "self.labels.all(k, self.labels[k] != '' && k.startsWith('a'))",
            "'a' in self.labels && self.labels.a == 'x' && !has(self.labels.b)",
            "self.items.map(i, i.id).filter(id, id != '').exists_one(id, id == self.name)",
            "self.items.all(i, self.items.exists(j, i == j)) && self.items[0].id == 'a'",
            "self.items == [] || self.items.map(i, i.id) + ['x'] == ['a', 'x']",
            "oldSelf.hasValue() && oldSelf.value().name == self.name",
            "oldSelf.orValue(self).count >= 1 && self.?name.orValue('') == ''",
            "[1, 2].sum() + self.count == 3 && ['a', 'b'].isSorted()",
            "url(self.name).getHost() == 'a' && quantity(self.name).isLessThan(quantity('1Gi'))",
            "!format.dns1123Label().validate(self.name).hasValue()",
            "size(self.name) > 1 && self.items.size() == size(self.labels)",
            "{'a': 1}['a'] == 1 && string(self.count) != dyn(self.name)",
        ] {
            assert!(said(rule).parse::<u64>().is_ok(), "{rule}: {}", said(rule));
        }
    }

    #[test]
    fn costs_grow_with_what_the_schema_allows() {
        let cost = |rule: &str| said(rule).parse::<u64>().unwrap();
        // Two steps to the field, and a tenth of one character.
        assert_eq!(cost("self.name == 'a'"), 3);
        // A name has at most 40 bytes, and a pattern a quarter of its length.
        assert_eq!(cost("self.name.matches('[a-z]{4}')"), 2 + 5 * 2);
        let once = cost("self.items.all(i, i.id == '')");
        assert_eq!(once, 2 + 4 * (2 + 1 + 2) + 1);
        assert!(cost("self.items.all(i, self.items.all(j, i == j))") > 4 * once);
        // Keys are short, values have at most 40 bytes.
        let values = cost("self.labels.all(k, self.labels[k].matches('[a-z]{4}'))");
        assert_eq!(values, 2 + 5 * (2 + 1 + (2 + 1 + 1) + 5 * 2) + 1);
    }

    #[test]
    fn every_function_that_is_taken_can_be_called() {
        for holds in [
            "bool('true') && bool(true)",
            "bytes('a') == b'a' && string(b'a') == 'a' && bytes(b'a') == b'a'",
            "double(1) == 1.0 && double('1.5') == 1.5 && double(1u) == 1.0 && double(1.0) == 1.0",
            "int('1') == 1 && int(1.9) == 1 && int(1u) == 1 && int(1) == 1 && int(timestamp('1970-01-01T00:00:01Z')) == 1",
            "uint(1) == 1u && uint('1') == 1u && uint(1.0) == 1u && uint(1u) == 1u",
            "string(1) == '1' && string(true) == 'true' && string(1.5) == '1.5' && string('a') == 'a' && string(1u) == '1'",
            "string(duration('1s')) == '1s' && string(timestamp('1970-01-01T00:00:01Z')) == '1970-01-01T00:00:01Z'",
            "type(1) == int && dyn(1) == 1 && 'a'.size() == 1 && size(b'a') == 1 && {'a': 1}.size() == 1 && b'a'.size() == 1",
            "'abc'.contains('b') && 'abc'.endsWith('c') && 'abc'.startsWith('a') && matches('abc', 'b') && 'abc'.matches('b')",
            "duration('1h1m').getHours() == 1 && duration('1h').getMinutes() == 60 && duration('1s').getSeconds() == 1 && duration('1s').getMilliseconds() == 1000",
            "timestamp('2020-02-03T04:05:06.007Z').getDate() == 3 && timestamp('2020-02-03T04:05:06Z').getDayOfMonth() == 2",
            "timestamp('2020-02-03T04:05:06Z').getDayOfWeek() == 1 && timestamp('2020-02-03T04:05:06Z').getDayOfYear() == 33",
            "timestamp('2020-02-03T04:05:06Z').getFullYear() == 2020 && timestamp('2020-02-03T04:05:06Z').getMonth() == 1",
            "timestamp('2020-02-03T04:05:06.007Z').getHours() == 4 && timestamp('2020-02-03T04:05:06Z').getMinutes() == 5",
            "timestamp('2020-02-03T04:05:06.007Z').getSeconds() == 6 && timestamp('2020-02-03T04:05:06.007Z').getMilliseconds() == 7",
            "timestamp(0) == timestamp('1970-01-01T00:00:00Z') && timestamp(timestamp(0)) == timestamp(0)",
            "duration(duration('1s')) == duration('1s')",
            "'abc'.charAt(1) == 'b' && 'abcb'.indexOf('b') == 1 && 'abcb'.indexOf('b', 2) == 3 && 'abcb'.lastIndexOf('b') == 3 && 'abcb'.lastIndexOf('b', 2) == 1",
            "'aB'.lowerAscii() == 'ab' && 'aB'.upperAscii() == 'AB' && 'aa'.replace('a', 'b') == 'bb' && 'aa'.replace('a', 'b', 1) == 'ba'",
            "'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.substring(1) == 'bc' && ' a '.trim() == 'a'",
            "'%d-%s'.format([1, 'a']) == '1-a' && ['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'",
            "strings.quote('a') == '\"a\"' && 'a1b2'.findAll('[0-9]', 1) == ['1']",
            "[2, 1].min() == 1 && [2, 3].max() == 3",
            "!optional.none().hasValue() && optional.of(1).value() == 1 && optional.ofNonZeroValue(0).orValue(2) == 2",
            "optional.none().or(optional.of(1)).value() == 1",
            "ip.isCanonical('127.0.0.1') && !ip.isCanonical('::0001') && string(ip('::1')) == '::1'",
            "ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast()",
            "ip('169.254.1.1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast() && !ip('::1').isGlobalUnicast()",
            "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsIP(ip('10.1.1.1'))",
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('11.0.0.0/8'))",
            "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
            "quantity('-1').sign() == -1 && quantity('1k').isInteger() && !quantity('1m').isInteger()",
            "quantity('1k').asInteger() == 1000 && quantity('1500m').asApproximateFloat() == 1.5 && quantity('1').compareTo(quantity('2')) == -1",
            "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2]) && !sets.intersects([1], [2])",
            "url('https://a.b:80/c').getHost() == 'a.b:80' && url('https://a.b/c').getEscapedPath() == '/c' && string(url('https://a.b/c')) == 'https://a.b/c'",
            "!format.dns1123Subdomain().validate('a.b').hasValue() && !format.dns1035Label().validate('a').hasValue()",
            "!format.qualifiedName().validate('a/b').hasValue() && !format.labelValue().validate('a').hasValue() && !format.uri().validate('http://a/b').hasValue()",
            "format.dns1123Label().validate('a.b').value().size() == 1",
            "format.dns1123Label().validate('a') == null && format.dns1123Label().validate('a.b') != null",
        ] {
            assert!(
                judge(holds, &[], Wanted::Bool).is_ok(),
                "{holds}: {:?}",
                judge(holds, &[], Wanted::Bool)
            );
            let program = compile(holds).unwrap();
            assert_eq!(
                program.execute(&context(holds)),
                Ok(Value::Bool(true)),
                "{holds}"
            );
        }
    }
}

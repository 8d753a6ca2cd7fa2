//! Expressions of CEL, with the functions that Kubernetes adds to it.

mod functions;

use std::sync::{Arc, LazyLock};

use ::cel::{Context, Env, Program};

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
pub(crate) fn context() -> Context<'static, 'static> {
    let mut context = Context::with_env(ENVIRONMENT.clone());
    functions::add(&mut context);
    context
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
    use ::cel::Value;

    use super::*;

    fn eval(expression: &str) -> Value {
        let program = compile(expression).unwrap();
        program.execute(&context()).unwrap()
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
            "format.dns1123Label().validate('a-b') == null",
            "format.dns1123Label().validate('a.b') != null",
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
}

//! Expressions of CEL.

/// Characters of an expression.
const LONGEST: usize = 16 << 10;
/// How deep brackets may be nested.
const DEEPEST: usize = 100;

/// Whether an expression can be read at all.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse(expression: &str) -> Result<(), String> {
    compile(expression).map(|_| ())
}

/// Reads an expression.
pub(crate) fn compile(expression: &str) -> Result<::cel::Program, String> {
    if expression.len() > LONGEST {
        return Err(format!("the expression has more than {LONGEST} characters"));
    }
    let mut depth = 0_usize;
    for c in expression.chars() {
        match c {
            '(' | '[' | '{' | '?' | '!' | '-' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err("the expression is nested too deeply".to_owned());
        }
    }
    ::cel::Program::compile(expression).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        format!("not an expression of CEL: {line}")
    })
}

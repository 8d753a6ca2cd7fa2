//! Expressions that Envoy evaluates: filters of access logs, tags of metrics, and `%CEL(...)%` in formats.
//!
//! Envoy refuses the listener that holds an expression which it cannot build. It has the standard functions but for
//! conversions to strings, no macro except `has`, no messages, and its own limits on depth and on regular expressions. Names of
//! attributes are not checked: an unknown one has no value when it is asked for, and nothing is refused.

use ::cel::IdedExpr;
use ::cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};

use super::compile;
use crate::text::program_size;

/// How deep an expression may be for Envoy.
const DEEPEST: usize = 32;
/// How deep brackets may be nested, and bytes of an expression: fewer than Envoy takes, as each level costs stack where the
/// expression is read.
const MOST_BRACKETS: usize = 8;
const LONGEST: usize = 2048;
/// The most instructions of a regular expression.
const LARGEST_PROGRAM: u64 = 100;

/// Operators with the number of operands.
const OPERATORS: [(&str, usize); 17] = [
    (operators::CONDITIONAL, 3),
    (operators::LOGICAL_AND, 2),
    (operators::LOGICAL_OR, 2),
    (operators::LOGICAL_NOT, 1),
    (operators::SUBSTRACT, 2),
    (operators::ADD, 2),
    (operators::MULTIPLY, 2),
    (operators::DIVIDE, 2),
    (operators::MODULO, 2),
    (operators::EQUALS, 2),
    (operators::NOT_EQUALS, 2),
    (operators::GREATER_EQUALS, 2),
    (operators::LESS_EQUALS, 2),
    (operators::GREATER, 2),
    (operators::LESS, 2),
    (operators::NEGATE, 1),
    (operators::INDEX, 2),
];
/// Functions of one argument.
const OF_ONE: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "size",
    "timestamp",
    "type",
    "uint",
];
/// Functions of a text and another, which may stand before the dot.
const OF_TEXTS: [&str; 4] = ["contains", "endsWith", "matches", "startsWith"];
/// Functions of a time, which may be given a time zone.
const OF_TIME: [&str; 10] = [
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
];

/// Whether Envoy can build an expression.
///
/// # Errors
///
/// What it would refuse.
pub fn check(expression: &str) -> Result<(), String> {
    if expression.len() > LONGEST {
        return Err(format!("the expression has more than {LONGEST} bytes"));
    }
    if brackets(expression) > MOST_BRACKETS {
        return Err(format!(
            "brackets are nested more than {MOST_BRACKETS} deep"
        ));
    }
    let program = compile(expression)?;
    walk(program.expression(), 1)
}

fn too_deep() -> String {
    format!("the expression is nested more than {DEEPEST} deep")
}

/// How deep brackets stand within each other.
fn brackets(expression: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    for b in expression.bytes() {
        match b {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

fn walk(expression: &IdedExpr, depth: usize) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    let within = |inner: &IdedExpr| walk(inner, depth + 1);
    match &expression.expr {
        Expr::Ident(_) | Expr::Literal(_) => Ok(()),
        Expr::Select(select) => within(&select.operand),
        Expr::List(list) => {
            if !list.optional_indices.is_empty() {
                return Err(optional());
            }
            list.elements.iter().try_for_each(within)
        }
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) if !entry.optional => {
                within(&entry.key)?;
                within(&entry.value)
            }
            _ => Err(optional()),
        }),
        Expr::Call(call) => {
            called(call)?;
            call.target.as_deref().map_or(Ok(()), within)?;
            call.args.iter().try_for_each(within)
        }
        Expr::Comprehension(_) => {
            Err("Envoy has no `all`, `exists`, `exists_one`, `filter` and `map`".to_owned())
        }
        Expr::Struct(_) | Expr::Unspecified => Err("Envoy makes no messages".to_owned()),
    }
}

fn optional() -> String {
    "Envoy has no optional values".to_owned()
}

fn called(call: &CallExpr) -> Result<(), String> {
    let name = call.func_name.as_str();
    if matches!(name, operators::OPT_INDEX | operators::OPT_SELECT) {
        return Err(optional());
    }
    let count = call.args.len();
    let is_member = call.target.is_some();
    let known = match name {
        operators::IN => !is_member && count == 2,
        "size" if is_member => count == 0,
        _ if OF_ONE.contains(&name) => !is_member && count == 1,
        _ if OF_TEXTS.contains(&name) => count + usize::from(is_member) == 2,
        _ if OF_TIME.contains(&name) => is_member && count < 2,
        _ => !is_member && OPERATORS.contains(&(name, count)),
    };
    if !known {
        return Err(format!(
            "Envoy has no function `{name}` for these arguments"
        ));
    }
    if name == "matches"
        && let Some(Expr::Literal(LiteralValue::String(pattern))) =
            call.args.last().map(|last| &last.expr)
    {
        let size = program_size(pattern.inner())?;
        if size > LARGEST_PROGRAM {
            return Err(format!(
                "the regular expression {:?} is too large: it becomes about {size} instructions, and Envoy allows \
                 {LARGEST_PROGRAM} within an expression",
                pattern.inner()
            ));
        }
    }
    Ok(())
}

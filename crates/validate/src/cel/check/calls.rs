//! Operators and calls of functions.

use std::sync::Arc;

use ::cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::{Found, Known, Walk, add, quarter, signatures, tenth};
use crate::cel::kind::{Kind, LARGEST, Shape};

impl Walk {
    pub(super) fn call(&mut self, call: &CallExpr) -> Found {
        let name = call.func_name.as_str();
        if let Some(target) = &call.target {
            if let Expr::Ident(space) = &target.expr
                && self.find(space).is_none()
            {
                // A function whose name has a space before it.
                let full = format!("{space}.{name}");
                if signatures::has(&full) {
                    let arguments = self.all(&call.args)?;
                    return function(&full, None, &arguments);
                }
            }
            if !signatures::has(name) {
                return Err(format!("undeclared reference to '{name}'"));
            }
            let target = self.of(target)?;
            let arguments = self.all(&call.args)?;
            return function(name, Some(&target), &arguments);
        }
        if !is_operator(name) && !signatures::has(name) {
            return Err(format!("undeclared reference to '{name}'"));
        }
        if let (operators::OPT_SELECT, [operand, field]) = (name, call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = self.of(operand)?;
            return optional_field(operand, field.inner());
        }
        let arguments = self.all(&call.args)?;
        match arguments.as_slice() {
            [a, b] if is_operator(name) => binary(name, a, b),
            [a] if is_operator(name) => unary(name, a),
            [a, b, c] if name == operators::CONDITIONAL => conditional(a, b, c),
            _ => function(name, None, &arguments),
        }
    }

    fn all(&mut self, expressions: &[::cel::IdedExpr]) -> Result<Vec<Known>, String> {
        expressions.iter().map(|e| self.of(e)).collect()
    }
}

fn is_operator(name: &str) -> bool {
    name.contains('_') && !name.starts_with(char::is_alphabetic) || name.starts_with('@')
}

fn mismatch(name: &str, kinds: &[&Kind]) -> String {
    let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    let name = if name == operators::IN { "@in" } else { name };
    format!(
        "found no matching overload for '{name}' applied to '({})'",
        kinds.join(", ")
    )
}

fn known(shape: Shape, cost: u64) -> Found {
    Ok(Known {
        kind: Kind::plain(shape),
        cost,
    })
}

fn is_open(kind: &Kind) -> bool {
    matches!(kind.shape, Shape::Any | Shape::Nothing)
}

fn is_bool(kind: &Kind) -> bool {
    kind.shape == Shape::Bool || is_open(kind)
}

fn unary(name: &str, a: &Known) -> Found {
    let cost = add(a.cost, 1);
    match name {
        operators::LOGICAL_NOT if !is_bool(&a.kind) => Err(mismatch(name, &[&a.kind])),
        operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE => known(Shape::Bool, cost),
        operators::NEGATE if a.kind.shape.is_number() || is_open(&a.kind) => Ok(Known {
            kind: a.kind.clone(),
            cost,
        }),
        operators::NEGATE => Err(mismatch(name, &[&a.kind])),
        _ => Ok(Known {
            kind: Kind::any(),
            cost,
        }),
    }
}

fn conditional(condition: &Known, yes: &Known, no: &Known) -> Found {
    if !is_bool(&condition.kind) || !yes.kind.fits(&no.kind) {
        let kinds = [&condition.kind, &yes.kind, &no.kind];
        return Err(mismatch(operators::CONDITIONAL, &kinds));
    }
    Ok(Known {
        kind: yes.kind.clone().join(no.kind.clone()),
        cost: add(condition.cost, yes.cost.max(no.cost)),
    })
}

fn binary(name: &str, a: &Known, b: &Known) -> Found {
    let both = add(a.cost, b.cost);
    let bad = || Err(mismatch(name, &[&a.kind, &b.kind]));
    let smaller = a.kind.most.min(b.kind.most);
    match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR => {
            if !is_bool(&a.kind) || !is_bool(&b.kind) {
                return bad();
            }
            known(Shape::Bool, both)
        }
        operators::EQUALS | operators::NOT_EQUALS => {
            if !a.kind.fits(&b.kind) {
                return bad();
            }
            known(Shape::Bool, add(both, tenth(smaller)))
        }
        operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS => {
            if !is_ordered(&a.kind, &b.kind) {
                return bad();
            }
            let step = match a.kind.shape {
                Shape::Text | Shape::Bytes => tenth(smaller),
                _ => 1,
            };
            known(Shape::Bool, add(both, step))
        }
        operators::IN => match &b.kind.shape {
            Shape::List(of) if of.fits(&a.kind) => known(Shape::Bool, add(both, b.kind.most)),
            Shape::Map(_) | Shape::Object(_) | Shape::Any | Shape::Nothing => {
                known(Shape::Bool, add(both, 1))
            }
            _ => bad(),
        },
        operators::INDEX | operators::OPT_INDEX => {
            let (of, optional) = match &a.kind.shape {
                Shape::Optional(of) => (&**of, true),
                _ => (&a.kind, name == operators::OPT_INDEX),
            };
            let Some(kind) = at_index(of, &b.kind) else {
                return bad();
            };
            Ok(Known {
                kind: if optional { kind.optional() } else { kind },
                cost: add(both, 1),
            })
        }
        operators::ADD => sum(a, b, both).map_or_else(bad, Ok),
        operators::SUBSTRACT => {
            let shape = match (&a.kind.shape, &b.kind.shape) {
                (a, b) if a == b && a.is_number() => a.clone(),
                (Shape::Timestamp, Shape::Timestamp) | (Shape::Duration, Shape::Duration) => {
                    Shape::Duration
                }
                (Shape::Timestamp, Shape::Duration) => Shape::Timestamp,
                _ if is_open(&a.kind) || is_open(&b.kind) => Shape::Any,
                _ => return bad(),
            };
            known(shape, add(both, 1))
        }
        operators::MULTIPLY | operators::DIVIDE | operators::MODULO => {
            let shape = match (&a.kind.shape, &b.kind.shape) {
                (Shape::Double, Shape::Double) if name == operators::MODULO => return bad(),
                (a, b) if a == b && a.is_number() => a.clone(),
                _ if is_open(&a.kind) || is_open(&b.kind) => Shape::Any,
                _ => return bad(),
            };
            known(shape, add(both, 1))
        }
        _ => Ok(Known {
            kind: Kind::any(),
            cost: add(both, 1),
        }),
    }
}

/// What a value has at an index; `None` where it has nothing at such an index.
fn at_index(of: &Kind, index: &Kind) -> Option<Kind> {
    let key = &index.shape;
    match &of.shape {
        Shape::List(item) if key.is_number() || is_open(index) => Some((**item).clone()),
        Shape::Map(value) if *key == Shape::Text || is_open(index) => Some((**value).clone()),
        Shape::Object(_) | Shape::Any | Shape::Nothing => Some(Kind::any()),
        // Keys of a map that an expression makes may be of any kind.
        Shape::Map(_) if !matches!(key, Shape::List(_) | Shape::Map(_)) => Some(Kind::any()),
        _ => None,
    }
}

fn is_ordered(a: &Kind, b: &Kind) -> bool {
    let (a, b) = (&a.shape, &b.shape);
    let has_order = |shape: &Shape| {
        matches!(
            shape,
            Shape::Bool | Shape::Text | Shape::Bytes | Shape::Duration | Shape::Timestamp
        )
    };
    matches!(a, Shape::Any | Shape::Nothing)
        || matches!(b, Shape::Any | Shape::Nothing)
        || (a.is_number() && b.is_number())
        || (a == b && has_order(a))
}

fn sum(a: &Known, b: &Known, cost: u64) -> Option<Known> {
    let most = a.kind.most.saturating_add(b.kind.most);
    let (shape, most, step) = match (&a.kind.shape, &b.kind.shape) {
        (a, b) if a == b && a.is_number() => (a.clone(), 1, 1),
        (Shape::Text, Shape::Text) => (Shape::Text, most, tenth(most)),
        (Shape::Bytes, Shape::Bytes) => (Shape::Bytes, most, tenth(most)),
        (Shape::List(x), Shape::List(y)) if x.fits(y) => {
            let of = (**x).clone().join((**y).clone());
            (Shape::List(Arc::new(of)), most, 1)
        }
        (Shape::Duration, Shape::Duration) => (Shape::Duration, 1, 1),
        (Shape::Timestamp, Shape::Duration) | (Shape::Duration, Shape::Timestamp) => {
            (Shape::Timestamp, 1, 1)
        }
        _ if is_open(&a.kind) || is_open(&b.kind) => (Shape::Any, most, 1),
        _ => return None,
    };
    Some(Known {
        kind: Kind::of(shape, most),
        cost: add(cost, step),
    })
}

fn optional_field(operand: Known, field: &str) -> Found {
    let of = match &operand.kind.shape {
        Shape::Optional(of) => (**of).clone(),
        _ => operand.kind.clone(),
    };
    let kind = match &of.shape {
        Shape::Object(fields) => match fields.get(field) {
            Some(kind) => kind.clone(),
            None => return Err(format!("undefined field '{field}'")),
        },
        Shape::Map(value) => (**value).clone(),
        Shape::Any => Kind::any(),
        _ => return Err(format!("type '{of}' does not support field selection")),
    };
    Ok(Known {
        kind: kind.optional(),
        cost: add(operand.cost, 1),
    })
}

fn function(name: &str, target: Option<&Known>, arguments: &[Known]) -> Found {
    let kinds: Vec<&Kind> = arguments.iter().map(|a| &a.kind).collect();
    let receiver = target.map(|t| &t.kind);
    let Some(mut kind) = signatures::result(name, receiver, &kinds) else {
        let all: Vec<&Kind> = receiver.into_iter().chain(kinds).collect();
        return Err(mismatch(name, &all));
    };
    let inputs = target.into_iter().chain(arguments);
    let inputs = inputs.map(|known| known.cost).fold(0, add);
    // The sizes of what is looked at, the receiver first.
    let sizes: Vec<u64> = receiver
        .into_iter()
        .chain(kinds.iter().copied())
        .map(|kind| kind.most)
        .collect();
    let (price, most) = price(name, target.is_some(), &sizes, receiver);
    kind.most = kind.most.min(most);
    if let Shape::List(of) = &mut kind.shape
        && of.most > most
    {
        let mut item = (**of).clone();
        item.most = most;
        *of = Arc::new(item);
    }
    Ok(Known {
        kind,
        cost: add(inputs, price),
    })
}

/// What a call costs beyond its arguments, and how large its result may be.
fn price(name: &str, is_member: bool, sizes: &[u64], receiver: Option<&Kind>) -> (u64, u64) {
    let size = |index: usize| sizes.get(index).copied().unwrap_or(1);
    let of_list = |kind: Option<&Kind>| match kind.map(|k| &k.shape) {
        Some(Shape::List(item)) => item.most,
        _ => 1,
    };
    let pattern =
        |text: u64, pattern: u64| tenth(text.saturating_add(1)).saturating_mul(quarter(pattern));
    match name {
        "startsWith" | "endsWith" => (tenth(size(1)), 1),
        "contains" if is_member => (tenth(size(0)).saturating_mul(tenth(size(1))), 1),
        "matches" => (pattern(size(0), size(1)), 1),
        "find" | "findAll" => (pattern(size(0), size(1)), size(0)),
        "bytes" | "string" => (tenth(size(0)), size(0).saturating_mul(4)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "split" => (tenth(size(0)), size(0)),
        "charAt" => (1, 1),
        "replace" => {
            // Each character may be one that is replaced.
            let most = size(0).saturating_mul(size(2).max(1)).min(LARGEST);
            (tenth(size(0)), most)
        }
        "join" => {
            let item = of_list(receiver).saturating_add(sizes.get(1).copied().unwrap_or(0));
            let most = size(0).saturating_mul(item).min(LARGEST);
            (tenth(most), most)
        }
        "indexOf" | "lastIndexOf" if matches!(receiver.map(|r| &r.shape), Some(Shape::Text)) => {
            (tenth(size(0)).saturating_mul(tenth(size(1))), 1)
        }
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" if is_member => {
            let each = tenth(of_list(receiver)).max(1);
            (size(0).saturating_mul(each), LARGEST)
        }
        "sets.contains" | "sets.equivalent" | "sets.intersects" => {
            (size(0).saturating_mul(size(1)), 1)
        }
        "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR" | "quantity" | "isQuantity"
        | "ip.isCanonical" | "validate" | "format" | "strings.quote" => {
            let text = if is_member && name == "validate" {
                size(1)
            } else {
                size(0)
            };
            (tenth(text).max(1), LARGEST)
        }
        _ => (1, LARGEST),
    }
}

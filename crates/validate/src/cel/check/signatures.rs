//! Which functions there are, and what they take and give.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::cel::kind::{Kind, LARGEST, Shape};

/// A function as the table has it.
struct Signature {
    receiver: Option<&'static str>,
    arguments: Vec<&'static str>,
    result: &'static str,
}

/// By name; a map, since order never shows.
static TABLE: LazyLock<HashMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut table: HashMap<&str, Vec<Signature>> = HashMap::new();
    let lines = include_str!("../functions.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let Some((head, result)) = line.rsplit_once(") ") else {
            continue;
        };
        // The receiver may hold brackets of its own.
        let Some((name, arguments)) = opening(head) else {
            continue;
        };
        let (receiver, name) = match name.rsplit_once('.') {
            Some((space, _)) if SPACES.contains(&space) => (None, name),
            Some((receiver, name)) => (Some(receiver), name),
            None => (None, name),
        };
        let arguments = arguments.split(", ").filter(|a| !a.is_empty()).collect();
        table.entry(name).or_default().push(Signature {
            receiver,
            arguments,
            result,
        });
    }
    table
});

/// What stands before names of functions and is no value.
const SPACES: [&str; 5] = ["optional", "ip", "format", "sets", "strings"];

/// Splits at the bracket that opens the arguments: the one that is not closed.
fn opening(head: &str) -> Option<(&str, &str)> {
    let mut open = Vec::new();
    for (at, c) in head.char_indices() {
        match c {
            '(' => open.push(at),
            ')' => _ = open.pop(),
            _ => {}
        }
    }
    let at = open.first()?;
    Some((&head[..*at], &head[at + 1..]))
}

/// Whether there is a function of that name, which may have a space before it.
pub(super) fn has(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// What a call gives; `None` where no function of the name takes these.
pub(super) fn result(name: &str, receiver: Option<&Kind>, arguments: &[&Kind]) -> Option<Kind> {
    let mut found: Option<Kind> = None;
    for signature in TABLE.get(name).into_iter().flatten() {
        if signature.receiver.is_some() != receiver.is_some()
            || signature.arguments.len() != arguments.len()
        {
            continue;
        }
        let mut any = None;
        let takes = signature.receiver.into_iter().zip(receiver);
        let takes = takes.chain(
            signature
                .arguments
                .iter()
                .copied()
                .zip(arguments.iter().copied()),
        );
        if takes
            .into_iter()
            .all(|(wanted, kind)| takes_kind(wanted, kind, &mut any))
        {
            let result = made(signature.result, any.as_ref());
            found = Some(match found {
                Some(before) => before.join(result),
                None => result,
            });
        }
    }
    found
}

fn within<'w>(wanted: &'w str, word: &str) -> Option<&'w str> {
    wanted
        .strip_prefix(word)?
        .strip_prefix('(')?
        .strip_suffix(')')
}

/// Whether a kind is what is wanted; what `A` stands for is kept in `any`.
fn takes_kind(wanted: &str, kind: &Kind, any: &mut Option<Kind>) -> bool {
    if wanted == "A" {
        let fits = any.as_ref().is_none_or(|known| known.fits(kind));
        *any = Some(match any.take() {
            Some(known) => known.join(kind.clone()),
            None => kind.clone(),
        });
        return fits;
    }
    if wanted == "any" {
        return true;
    }
    match &kind.shape {
        Shape::Any | Shape::Nothing => true,
        Shape::List(of) => within(wanted, "list").is_some_and(|w| takes_kind(w, of, any)),
        Shape::Map(of) => within(wanted, "map").is_some_and(|w| takes_kind(w, of, any)),
        Shape::Optional(of) => within(wanted, "opt").is_some_and(|w| takes_kind(w, of, any)),
        // An object is no map to the type checker, and one to everything else.
        Shape::Object(_) => within(wanted, "map").is_some(),
        _ => shape_of(wanted).as_ref() == Some(&kind.shape),
    }
}

fn shape_of(name: &str) -> Option<Shape> {
    Some(match name {
        "bool" => Shape::Bool,
        "bytes" => Shape::Bytes,
        "double" => Shape::Double,
        "duration" => Shape::Duration,
        "int" => Shape::Int,
        "string" => Shape::Text,
        "timestamp" => Shape::Timestamp,
        "type" => Shape::Type,
        "uint" => Shape::Uint,
        _ if name.bytes().all(|b| b.is_ascii_uppercase()) && name.len() > 1 => {
            let known = ["URL", "IP", "CIDR", "QUANTITY", "FORMAT"];
            Shape::Made(known.into_iter().find(|k| *k == name)?)
        }
        _ => return None,
    })
}

fn made(name: &str, any: Option<&Kind>) -> Kind {
    if name == "A" {
        return any.cloned().unwrap_or_else(Kind::any);
    }
    for (word, make) in [
        ("list", Shape::List as fn(Arc<Kind>) -> Shape),
        ("map", Shape::Map),
        ("opt", Shape::Optional),
    ] {
        if let Some(inner) = within(name, word) {
            return Kind::of(make(Arc::new(made(inner, any))), LARGEST);
        }
    }
    match shape_of(name) {
        Some(shape @ (Shape::Text | Shape::Bytes)) => Kind::of(shape, LARGEST),
        Some(shape) => Kind::plain(shape),
        None => Kind::any(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let lines = include_str!("../functions.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#')).count();
        assert_eq!(TABLE.values().map(Vec::len).sum::<usize>(), lines);
        let known = |name: &str| {
            let plain = ["list", "map", "opt"].into_iter();
            let inner = plain.fold(name, |name, word| within(name, word).unwrap_or(name));
            let inner = within(inner, "list").unwrap_or(inner);
            matches!(inner, "A" | "any") || shape_of(inner).is_some()
        };
        for (name, all) in TABLE.iter() {
            for of in all {
                let kinds = of.receiver.iter().chain(&of.arguments).chain([&of.result]);
                for kind in kinds {
                    assert!(known(kind), "{name}: {kind}");
                }
            }
        }
    }

    #[test]
    fn the_kind_that_is_held_is_the_kind_that_comes_out() {
        let list = Kind::of(Shape::List(Arc::new(Kind::plain(Shape::Int))), 3);
        assert_eq!(
            result("sum", Some(&list), &[]),
            Some(Kind::plain(Shape::Int))
        );
        assert_eq!(result("sum", Some(&Kind::plain(Shape::Int)), &[]), None);
        let text = Kind::of(Shape::Text, 5);
        assert!(result("optional.of", None, &[&text]).is_some());
        assert!(result("startsWith", Some(&text), &[&list]).is_none());
    }
}

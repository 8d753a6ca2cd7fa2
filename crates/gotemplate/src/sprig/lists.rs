//! Lists.

use super::convert::int;
use super::defaults::list_of;
use super::reflect::deep_equal;
use super::{A, I};
use crate::budget::Meter;
use crate::functions::{Args, Fault, Functions};
use crate::value::{List, Type, Value};

pub(super) fn add(functions: &mut Functions) {
    for name in ["list", "tuple"] {
        functions.add_variadic(name, &[], A, |meter, args| {
            made(meter, args.rest(0).to_vec())
        });
    }
    ends(functions);
    searches(functions);
    for name in ["append", "push", "mustAppend", "mustPush"] {
        functions.add(name, &[A, A], |meter, args| {
            let mut items = items(&args, "push on")?;
            items.push(args.value(1).clone());
            made(meter, items)
        });
    }
    for name in ["prepend", "mustPrepend"] {
        functions.add(name, &[A, A], |meter, args| {
            let mut all = vec![args.value(1).clone()];
            all.extend(items(&args, "prepend on")?);
            made(meter, all)
        });
    }
    for name in ["reverse", "mustReverse"] {
        functions.add(name, &[A], |meter, args| {
            let mut items = items(&args, "find reverse on")?;
            items.reverse();
            made(meter, items)
        });
    }
    functions.add_variadic("concat", &[], A, |meter, args| {
        let mut all = Vec::new();
        for list in args.rest(0) {
            match list {
                Value::List(list) => {
                    meter.step(list.len())?;
                    all.extend_from_slice(list.items());
                }
                other => return Err(format!("Cannot concat type {} as list", other.kind()).into()),
            }
        }
        if all.is_empty() {
            return Ok(Value::List(List::nil(A)));
        }
        made(meter, all)
    });
    for name in ["chunk", "mustChunk"] {
        functions.add(name, &[I, A], |meter, args| {
            let Value::List(list) = args.value(1) else {
                return Err(format!("Cannot chunk type {}", args.value(1).kind()).into());
            };
            let size = usize::try_from(args.int(0)).ok().filter(|size| *size > 0);
            let size = size.ok_or("a chunk needs at least one item")?;
            meter.step(list.len())?;
            let chunks = list
                .items()
                .chunks(size)
                .map(|chunk| Value::list(chunk.to_vec()));
            Ok(Value::List(List::new(Type::list_of(A), chunks.collect())))
        });
    }
    for name in ["slice", "mustSlice"] {
        functions.add_variadic(name, &[A], A, |meter, args| slice(meter, &args));
    }
}

/// A list of anything; each item counts.
fn made(meter: &Meter, items: Vec<Value>) -> Result<Value, Fault> {
    meter.step(items.len())?;
    Ok(Value::list(items))
}

fn items(args: &Args<'_>, what: &str) -> Result<Vec<Value>, Fault> {
    Ok(list_of(args, what)?.items().to_vec())
}

fn ends(functions: &mut Functions) {
    for name in ["first", "mustFirst"] {
        functions.add(name, &[A], |_, args| {
            Ok(list_of(&args, "find first on")?
                .items()
                .first()
                .cloned()
                .unwrap_or(Value::Nil))
        });
    }
    for name in ["last", "mustLast"] {
        functions.add(name, &[A], |_, args| {
            Ok(list_of(&args, "find last on")?
                .items()
                .last()
                .cloned()
                .unwrap_or(Value::Nil))
        });
    }
    for name in ["rest", "mustRest"] {
        functions.add(name, &[A], |meter, args| {
            match items(&args, "find rest on")?.split_first() {
                Some((_, rest)) => made(meter, rest.to_vec()),
                None => Ok(Value::List(List::nil(A))),
            }
        });
    }
    for name in ["initial", "mustInitial"] {
        functions.add(name, &[A], |meter, args| {
            match items(&args, "find initial on")?.split_last() {
                Some((_, initial)) => made(meter, initial.to_vec()),
                None => Ok(Value::List(List::nil(A))),
            }
        });
    }
}

fn searches(functions: &mut Functions) {
    for name in ["uniq", "mustUniq"] {
        functions.add(name, &[A], |meter, args| {
            let mut unique: Vec<Value> = Vec::new();
            for item in list_of(&args, "find uniq on")?.items() {
                if !has(meter, &unique, item)? {
                    unique.push(item.clone());
                }
            }
            made(meter, unique)
        });
    }
    for name in ["without", "mustWithout"] {
        functions.add_variadic(name, &[A], A, |meter, args| {
            let mut kept = Vec::new();
            for item in list_of(&args, "find without on")?.items() {
                if !has(meter, args.rest(1), item)? {
                    kept.push(item.clone());
                }
            }
            made(meter, kept)
        });
    }
    for name in ["has", "mustHas"] {
        functions.add(name, &[A, A], |meter, args| match args.value(1) {
            Value::Nil => Ok(false.into()),
            Value::List(list) => Ok(has(meter, list.items(), args.value(0))?.into()),
            other => Err(format!("Cannot find has on type {}", other.kind()).into()),
        });
    }
}

fn has(meter: &Meter, items: &[Value], wanted: &Value) -> Result<bool, Fault> {
    for item in items {
        if deep_equal(meter, item, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn slice(meter: &Meter, args: &Args<'_>) -> Result<Value, Fault> {
    let Value::List(list) = args.value(0) else {
        return Err(format!(
            "list should be type of slice or array but {}",
            args.value(0).kind()
        )
        .into());
    };
    if list.is_empty() {
        return Ok(Value::Nil);
    }
    let from = if args.len() > 1 {
        int(args.value(1))
    } else {
        0
    };
    let to = if args.len() > 2 {
        int(args.value(2))
    } else {
        list.len() as i64
    };
    let bounds = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    let part = bounds.and_then(|(from, to)| list.items().get(from..to));
    let part = part.ok_or_else(|| {
        format!(
            "slice bounds out of range [{from}:{to}] with length {}",
            list.len()
        )
    })?;
    meter.step(part.len())?;
    Ok(Value::List(List::new(list.elem().clone(), part.to_vec())))
}

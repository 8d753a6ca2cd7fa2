//! Maps.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::convert::text;
use super::reflect::contains;
use super::{A, S, dict_type};
use crate::budget::Meter;
use crate::functions::{Args, Fault, Functions};
use crate::value::{List, Map, Value};

/// How deep maps may be nested that are copied or merged.
const MAX_DEPTH: usize = 100;

pub(super) fn add(functions: &mut Functions) {
    functions.add_variadic("dict", &[], A, |meter, args| {
        meter.step(args.len())?;
        let mut entries = BTreeMap::new();
        for pair in args.rest(0).chunks(2) {
            let key = text(meter, &pair[0])?;
            entries.insert(
                Rc::from(key),
                pair.get(1).cloned().unwrap_or_else(|| "".into()),
            );
        }
        Ok(Value::Map(Map::new(A, entries)))
    });
    functions.add("get", &[dict_type(), S], |_, args| {
        Ok(args.map(0).get(args.str(1)).unwrap_or_else(|| "".into()))
    });
    functions.add("set", &[dict_type(), S, A], |meter, args| {
        put(
            meter,
            &args.map(0),
            args.str(1).into(),
            args.value(2).clone(),
        )?;
        Ok(args.value(0).clone())
    });
    functions.add("unset", &[dict_type(), S], |_, args| {
        args.map(0).remove(args.str(1));
        Ok(args.value(0).clone())
    });
    functions.add("hasKey", &[dict_type(), S], |_, args| {
        Ok(args.map(0).contains(args.str(1)).into())
    });
    functions.add_variadic("pluck", &[S], dict_type(), |_, args| {
        let maps = args.rest(1).iter().filter_map(Value::as_map);
        Ok(Value::list(
            maps.filter_map(|map| map.get(args.str(0))).collect(),
        ))
    });
    functions.add_variadic("keys", &[], dict_type(), |meter, args| {
        let mut keys = Vec::new();
        for map in args.rest(0).iter().filter_map(Value::as_map) {
            meter.step(map.len())?;
            keys.extend(map.entries().into_iter().map(|(key, _)| key));
        }
        Ok(Value::strings(keys))
    });
    functions.add("values", &[dict_type()], |meter, args| {
        meter.step(args.map(0).len())?;
        Ok(Value::list(
            args.map(0)
                .entries()
                .into_iter()
                .map(|(_, value)| value)
                .collect(),
        ))
    });
    functions.add_variadic("pick", &[dict_type()], S, |meter, args| {
        chosen(meter, &args, true)
    });
    functions.add_variadic("omit", &[dict_type()], S, |meter, args| {
        chosen(meter, &args, false)
    });
    for (name, overwrite) in [
        ("merge", false),
        ("mustMerge", false),
        ("mergeOverwrite", true),
        ("mustMergeOverwrite", true),
    ] {
        functions.add_variadic(name, &[dict_type()], dict_type(), move |meter, args| {
            for source in args.rest(1).iter().filter_map(Value::as_map) {
                merge(meter, &args.map(0), source, overwrite, 0)?;
            }
            Ok(args.value(0).clone())
        });
    }
    for name in ["deepCopy", "mustDeepCopy"] {
        functions.add(name, &[A], |meter, args| copy(meter, args.value(0), 0));
    }
    functions.add_variadic("dig", &[], A, dig);
}

/// Puts a value into a map that it does not hold.
fn put(meter: &Meter, map: &Map, key: Rc<str>, value: Value) -> Result<(), Fault> {
    if contains(meter, &value, map.identity())? {
        return Err("a dict cannot hold itself".into());
    }
    Ok(map.insert(key, value)?)
}

/// The entries whose keys are named, or all others.
fn chosen(meter: &Meter, args: &Args<'_>, wanted: bool) -> Result<Value, Fault> {
    let named: Vec<&str> = args.rest(1).iter().filter_map(Value::as_str).collect();
    meter.step(args.map(0).len().saturating_mul(named.len()))?;
    let entries = args.map(0).entries();
    let kept = entries
        .into_iter()
        .filter(|(key, _)| named.contains(&&**key) == wanted);
    Ok(Value::Map(Map::new(A, kept.collect())))
}

/// Brings the entries of another map into one: those that are missing or empty there, or all.
fn merge(
    meter: &Meter,
    into: &Map,
    from: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), Fault> {
    if depth > MAX_DEPTH {
        return Err("the dicts are nested too deeply to be merged".into());
    }
    meter.step(from.len())?;
    for (key, value) in from.entries() {
        match (into.get(&key), &value) {
            (Some(Value::Map(old)), Value::Map(new)) if !old.is_empty() => {
                merge(meter, &old, new, overwrite, depth + 1)?
            }
            (Some(old), Value::Nil) if old.truth() && !overwrite => {}
            (None, Value::Nil) if !overwrite => {}
            (Some(old), _) if old.truth() && !overwrite => {}
            _ => put(meter, into, key, value)?,
        }
    }
    Ok(())
}

/// A value whose maps are no longer shared.
fn copy(meter: &Meter, value: &Value, depth: usize) -> Result<Value, Fault> {
    if depth > MAX_DEPTH {
        return Err("the value is nested too deeply to be copied".into());
    }
    meter.step(1)?;
    Ok(match value {
        Value::Map(map) if !map.is_nil() => {
            let entries = map
                .entries()
                .into_iter()
                .map(|(key, value)| Ok((key, copy(meter, &value, depth + 1)?)));
            Value::Map(Map::new(
                map.elem().clone(),
                entries.collect::<Result<_, Fault>>()?,
            ))
        }
        Value::List(list) if !list.is_nil() => {
            let items = list.items().iter().map(|item| copy(meter, item, depth + 1));
            Value::List(List::new(
                list.elem().clone(),
                items.collect::<Result<_, Fault>>()?,
            ))
        }
        other => other.clone(),
    })
}

/// A value deep within maps, or a default: keys, default, map.
fn dig(_: &Meter, args: Args<'_>) -> Result<Value, Fault> {
    let [keys @ .., default, map] = args.rest(0) else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let mut value = map.clone();
    for key in keys {
        let no_conversion = |value: &Value, wanted: &str| {
            format!(
                "interface conversion: interface {{}} is {}, not {wanted}",
                value.type_name()
            )
        };
        let Value::Map(map) = &value else {
            return Err(no_conversion(&value, "map[string]interface {}").into());
        };
        let key = key.as_str().ok_or_else(|| no_conversion(key, "string"))?;
        match map.get(key) {
            Some(found) => value = found,
            None => return Ok(default.clone()),
        }
    }
    Ok(value)
}

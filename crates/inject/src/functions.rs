//! Functions that Istio adds to those of Sprig.
// Istio: pkg/kube/inject/template.go createInjectionFuncmap, 1.32.

mod networks;
mod otel;
pub(crate) mod ports;

use std::collections::BTreeMap;
use std::rc::Rc;

use gotemplate::{Args, Fault, Functions, Map, Meter, Type, Value, json, print, yaml};

use crate::go::Typed;
use crate::message::{self, Message};
use crate::numbers;
use crate::typed::write_text;

fn strings() -> Type {
    Type::map_of(Type::String)
}

fn containers() -> Type {
    Type::list_of(Type::Named("v1.Container".into()))
}

/// All functions of injection templates. `env` answers with what `environment` holds.
pub(crate) fn functions(environment: BTreeMap<String, String>) -> Functions {
    let mut functions = Functions::sprig();
    let f = &mut functions;
    f.add("env", &[Type::String, Type::String], move |_, a| {
        let stated = environment.get(a.str(0)).filter(|value| !value.is_empty());
        Ok(stated.map_or(a.str(1), String::as_str).into())
    });
    texts(f);
    maps(f);
    encodings(f);
    f.add(
        "excludeInboundPort",
        &[Type::Any, Type::String],
        |meter, a| {
            let port = print::value(meter, a.value(0))?;
            Ok(ports::exclude(port.trim(), a.str(1)).into())
        },
    );
    f.add("includeInboundPorts", &[containers()], |_, a| {
        Ok(ports::of(&a, |_| true).into())
    });
    f.add("applicationPorts", &[containers()], |_, a| {
        Ok(ports::of(&a, |name| name != crate::pod::PROXY).into())
    });
    f.add(
        "appendMultusNetwork",
        &[Type::String, Type::String],
        |_, a| Ok(networks::append(a.str(0), a.str(1)).into()),
    );
    f.add(
        "otelResourceAttributes",
        &[
            Type::Named("*v1alpha1.MeshConfig".into()),
            strings(),
            strings(),
            Type::String,
            containers(),
        ],
        |_, a| Ok(otel::attributes(&a).into()),
    );
    functions
}

fn texts(f: &mut Functions) {
    let two = [Type::String, Type::String];
    f.add("contains", &two, |_, a| {
        Ok(a.str(1).contains(a.str(0)).into())
    });
    f.add("toLower", &[Type::String], |meter, a| {
        meter.make(a.str(0).len())?;
        Ok(a.str(0).to_lowercase().into())
    });
    for same in ["kubevirtInterfaces", "excludeInterfaces"] {
        f.add(same, &[Type::String], |_, a| Ok(a.str(0).into()));
    }
    f.add("directory", &[Type::String], |_, a| {
        let path = a.str(0);
        Ok(path.rfind('/').map_or("", |at| &path[..=at]).into())
    });
    f.add("indent", &[Type::INT, Type::String], |meter, a| {
        let (spaces, text) = (usize::try_from(a.int(0)).unwrap_or_default(), a.str(1));
        let lines = text.matches('\n').count();
        meter.make(text.len().saturating_add(lines.saturating_mul(spaces)))?;
        Ok(text
            .replace('\n', &format!("\n{}", " ".repeat(spaces)))
            .into())
    });
    f.add(
        "annotation",
        &[Type::Named("v1.ObjectMeta".into()), Type::String, Type::Any],
        |meter, a| {
            let meta = Typed::of(a.value(0)).map(Typed::raw);
            let stated = meta.and_then(|m| m["annotations"].get(a.str(1))?.as_str());
            match stated {
                Some(stated) => Ok(stated.into()),
                None => Ok(print::value(meter, a.value(2))?.into()),
            }
        },
    );
    f.add("valueOrDefault", &[Type::Any, Type::Any], |_, a| {
        let empty = match a.value(0) {
            Value::String(text) => text.is_empty(),
            Value::Nil | Value::Missing => true,
            _ => false,
        };
        Ok(a.value(usize::from(empty)).clone())
    });
    f.add(
        "formatDuration",
        &[Type::Named("*durationpb.Duration".into())],
        |_, a| Ok(numbers::duration(duration(a.value(0)).unwrap_or_default()).into()),
    );
}

fn duration(value: &Value) -> Option<i128> {
    let Value::Object(object) = value else {
        return None;
    };
    let any: &dyn std::any::Any = &**object;
    any.downcast_ref::<Message>()?.duration()
}

fn maps(f: &mut Functions) {
    f.add("isset", &[strings(), Type::String], |_, a| {
        Ok(a.map(0).contains(a.str(1)).into())
    });
    f.add_variadic("omit", &[strings()], Type::String, |meter, a| {
        let gone: Vec<&str> = a.rest(1).iter().filter_map(Value::as_str).collect();
        let entries = a.map(0).entries().into_iter();
        meter.step(a.map(0).len().saturating_mul(gone.len() + 1))?;
        Ok(map(entries.filter(|(key, _)| !gone.contains(&&**key))))
    });
    f.add_variadic("strdict", &[], Type::String, |meter, a| {
        meter.step(a.len())?;
        let empty = Value::str("");
        let pairs = a.rest(0).chunks(2);
        Ok(map(pairs.filter_map(|pair| {
            let value = pair.get(1).unwrap_or(&empty);
            Some((Rc::from(pair[0].as_str()?), value.clone()))
        })))
    });
    f.add_variadic("mergeMaps", &[], strings(), |meter, a| merged(meter, &a));
    f.add_variadic("toJsonMap", &[], strings(), |meter, a| {
        Ok(string_map_json(merged(meter, &a)?.as_map()).into())
    });
    f.add("omitNil", &[Type::Any], |meter, a| {
        Ok(without_nil(meter, a.value(0))?.unwrap_or(Value::Nil))
    });
}

fn map(entries: impl Iterator<Item = (Rc<str>, Value)>) -> Value {
    Value::Map(Map::new(Type::String, entries.collect()))
}

fn merged(meter: &Meter, a: &Args<'_>) -> Result<Value, Fault> {
    if a.is_empty() {
        return Ok(Value::Map(Map::nil(Type::String)));
    }
    let maps = a.rest(0).iter().filter_map(Value::as_map);
    let mut all = Vec::new();
    for map in maps {
        meter.step(map.len() + 1)?;
        all.extend(map.entries());
    }
    Ok(map(all.into_iter()))
}

fn string_map_json(map: Option<&Map>) -> String {
    let mut out = String::from("{");
    let entries = map.map(Map::entries).unwrap_or_default();
    for (at, (key, value)) in entries.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(&mut out, key);
        out.push(':');
        write_text(&mut out, value.as_str().unwrap_or_default());
    }
    out.push('}');
    if map.is_some_and(Map::is_nil) {
        return "null".to_owned();
    }
    out
}

fn encodings(f: &mut Functions) {
    f.add("toJSON", &[strings()], |meter, a| {
        let map = a.map(0);
        meter.step(map.len() + 1)?;
        let json = if map.is_nil() {
            "{}".to_owned()
        } else {
            string_map_json(Some(&map))
        };
        Ok(json.into())
    });
    f.add("fromJSON", &[Type::String], |meter, a| {
        meter.make(a.str(0).len())?;
        let read = serde_json::from_str(a.str(0));
        Ok(read.map_or_else(|_| Value::str("{}"), |json| json::read(&json)))
    });
    f.add("structToJSON", &[Type::Any], |meter, a| {
        let json = match a.value(0) {
            Value::Nil | Value::Missing => "{}".to_owned(),
            value => json::write(meter, value, true)?,
        };
        meter.make(json.len())?;
        Ok(json.into())
    });
    f.add("protoToJSON", &[Type::Any], |meter, a| {
        let Value::Object(object) = a.value(0) else {
            return Ok("{}".into());
        };
        let any: &dyn std::any::Any = &**object;
        let message = any.downcast_ref::<Message>();
        let message = message.and_then(|m| m.message.as_ref());
        let json = message.map_or_else(
            || "{}".to_owned(),
            |message| message::to_json(&crate::proxy_config::without_defaults(message)),
        );
        meter.make(json.len())?;
        Ok(json.into())
    });
    f.add("toYaml", &[Type::Any], |meter, a| {
        let json = json::write(meter, a.value(0), false)?;
        meter.make(json.len())?;
        let read = serde_json::from_str(&json).map(|json| yaml::write(&json));
        Ok(read.unwrap_or_default().into())
    });
}

/// A value without what is nil, and without the lists and maps that are empty then; `None` if nothing is left.
fn without_nil(meter: &Meter, value: &Value) -> Result<Option<Value>, Fault> {
    meter.step(1)?;
    Ok(match value {
        Value::Nil | Value::Missing => None,
        Value::Map(map) if *map.elem() == Type::Any => {
            let mut kept = BTreeMap::new();
            for (key, value) in map.entries() {
                if let Some(value) = without_nil(meter, &value)? {
                    kept.insert(key, value);
                }
            }
            let emptied = kept.is_empty() && !map.is_empty();
            (!emptied).then(|| Value::Map(Map::new(Type::Any, kept)))
        }
        Value::List(list) if *list.elem() == Type::Any => {
            let mut kept = Vec::new();
            for value in list.items() {
                kept.extend(without_nil(meter, value)?);
            }
            let emptied = kept.is_empty() && !list.is_empty();
            (!emptied).then(|| Value::list(kept))
        }
        other => Some(other.clone()),
    })
}

//! Definitions from the Rust types of the kinds that are no messages, written as rustfmt leaves them.

use std::path::Path;

use anyhow::Context;

use super::{Definition, Definitions, Member, camel};

/// Every struct and enum below a folder of kinds, by module and name: `kube::Pod`.
pub(super) fn definitions(folder: &Path) -> anyhow::Result<Definitions> {
    let mut all = Definitions::new();
    for module in ["kube", "gateway_api", "higress", "knative", "multicluster"] {
        let inner = folder.join(module);
        let mut files = vec![folder.join(format!("{module}.rs"))];
        if inner.is_dir() {
            let entries = std::fs::read_dir(&inner).with_context(|| inner.display().to_string())?;
            files.extend(entries.flatten().map(|e| e.path()));
        }
        files.sort();
        for file in files {
            let text =
                std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            read(&text, module, &mut all);
        }
    }
    // Values of enums that count where a field is absent.
    let defaults: Vec<(String, String)> = all
        .iter()
        .filter_map(|(key, d)| Some((key.clone(), d.default.clone()?)))
        .collect();
    for definition in all.values_mut() {
        for member in &mut definition.members {
            let plain = matches!(&*member.refers, [one] if member.shape == format!("{{{one}}}"));
            let default = defaults
                .iter()
                .find(|(key, _)| plain && member.refers[0] == *key);
            if let Some((_, value)) = default {
                member.about.push_str(&format!(" Default: `{value}`."));
            }
        }
    }
    Ok(all)
}

/// What stands above a member or a type.
#[derive(Default)]
struct Above {
    about: String,
    serde: String,
    is_default: bool,
}

fn read(text: &str, module: &str, all: &mut Definitions) {
    let mut above = Above::default();
    let mut open: Option<(String, Definition, bool)> = None;
    for line in text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")) {
        let trimmed = line.trim();
        if let Some(words) = trimmed.strip_prefix("/// ") {
            if !above.about.is_empty() {
                above.about.push(' ');
            }
            above.about.push_str(words);
        } else if trimmed.starts_with("#[") {
            if trimmed.starts_with("#[serde(") {
                above.serde.push_str(trimmed);
            }
            above.is_default |= trimmed == "#[default]";
        } else if let Some((name, is_enum)) = begins(line) {
            let camel = above.serde.contains("rename_all = \"camelCase\"");
            let definition = Definition {
                about: std::mem::take(&mut above).about,
                members: Vec::new(),
                is_enum,
                default: None,
            };
            if line.ends_with("{}") {
                all.insert(format!("{module}::{name}"), definition);
            } else {
                open = Some((name.to_owned(), definition, camel));
            }
        } else if line == "}" {
            if let Some((name, definition, _)) = open.take() {
                all.insert(format!("{module}::{name}"), definition);
            }
            above = Above::default();
        } else if let Some((_, definition, camel)) = &mut open {
            let above = std::mem::take(&mut above);
            let is_enum = definition.is_enum;
            if let Some(member) = member(trimmed, &above, *camel, is_enum, module) {
                if above.is_default {
                    definition.default = Some(member.name.clone());
                }
                definition.members.push(member);
            }
        } else if !trimmed.starts_with("Clone") && trimmed != ")]" {
            above = Above::default();
        }
    }
}

fn begins(line: &str) -> Option<(&str, bool)> {
    let (rest, is_enum) = match line.strip_prefix("pub struct ") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix("pub enum ")?, true),
    };
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    rest.contains('{').then_some((name, is_enum))
}

fn member(
    line: &str,
    above: &Above,
    camel_case: bool,
    is_enum: bool,
    module: &str,
) -> Option<Member> {
    let (mut about, serde) = (above.about.clone(), above.serde.as_str());
    let renamed = between(serde, "rename = \"", "\"");
    if is_enum {
        let variant = line.split(|c: char| !c.is_alphanumeric()).next()?;
        return (!variant.is_empty()).then(|| Member {
            name: renamed.unwrap_or(variant).to_owned(),
            shape: String::new(),
            refers: Vec::new(),
            about,
        });
    }
    let (name, shape) = line
        .strip_prefix("pub ")?
        .strip_suffix(',')?
        .split_once(": ")?;
    let name = match renamed {
        Some(name) => name.to_owned(),
        None if camel_case => camel(name),
        None => name.to_owned(),
    };
    if let Some(default) = between(serde, "default = \"", "\"")
        && let Some(value) = default_of(default)
    {
        about.push_str(&format!(" Default: {value}."));
    }
    let mut refers = Vec::new();
    let shape = named(shape, module, &mut refers);
    Some(Member {
        name,
        shape,
        refers,
        about,
    })
}

/// What the functions that fill in defaults return.
fn default_of(function: &str) -> Option<&'static str> {
    Some(match function.rsplit("::").next()? {
        "group" => "`gateway.networking.k8s.io`",
        "core" => "the core group",
        "gateway" => "`Gateway`",
        "service" => "`Service`",
        "secret" => "`Secret`",
        "one" => "1",
        "slash" => "`/`",
        _ => return None,
    })
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

fn named(shape: &str, module: &str, refers: &mut Vec<String>) -> String {
    let inside = |wrapper: &str| shape.strip_prefix(wrapper)?.strip_suffix('>');
    if let Some(inner) = inside("Option<") {
        return format!("{}; may be unset", named(inner, module, refers));
    }
    if let Some(inner) = inside("Box<") {
        let list = inner.strip_prefix('[').and_then(|i| i.strip_suffix(']'));
        return match list {
            Some(inner) => format!("list of {}", named(inner, module, refers)),
            None => named(inner, module, refers),
        };
    }
    if let Some(inner) = inside("Vec<") {
        return format!("list of {}", named(inner, module, refers));
    }
    if let Some(inner) = inside("BTreeMap<") {
        let (_, value) = inner.split_once(", ").unwrap_or(("", inner));
        return format!("map of {}", named(value, module, refers));
    }
    let shown = match shape {
        "Arc<str>" | "String" => "text",
        "bool" => "true or false",
        "Labels" => "map of text",
        "Base64" => "base64",
        "IntOrString" => "whole number or text",
        "GatewayDuration" => "duration, as `1h30m` or `500ms`",
        "PluginConfig" => "any",
        "f32" | "f64" => "number",
        "u8" | "u16" | "u32" | "u64" => "whole number, not negative",
        "i32" | "i64" => "whole number",
        other => {
            let name = other.rsplit("::").next().unwrap_or(other);
            let key = match name {
                "Condition" => format!("kube::{name}"),
                "LabelSelector" => format!("gateway_api::{name}"),
                _ => format!("{module}::{name}"),
            };
            refers.push(key.clone());
            return format!("{{{key}}}");
        }
    };
    shown.to_owned()
}

//! A registry as a flag names it: an entry of McpBridge in one line.

use model::kinds::higress::Registry;
use serde_json::{Map, Value, json};

/// Short names of fields, by kind; any kind where it is empty.
const SHORT: &[(&str, &str, &str)] = &[
    ("consul", "tag", "consulServiceTag"),
    ("consul", "datacenter", "consulDatacenter"),
    ("consul", "namespace", "consulNamespace"),
    ("nacos", "namespace", "nacosNamespaceId"),
    ("nacos", "groups", "nacosGroups"),
    ("zookeeper", "paths", "zkServicesPath"),
    ("", "secret", "authSecretName"),
];
/// Fields that are numbers.
const NUMBERS: &[&str] = &["port", "nacosRefreshInterval", "consulRefreshInterval"];
/// Fields that are lists, with commas.
const LISTS: &[&str] = &[
    "nacosGroups",
    "zkServicesPath",
    "allowMcpServers",
    "mcpServerExportDomains",
];
/// Fields that are either true or false.
const SWITCHES: &[&str] = &["enableMCPServer", "enableScopeMcpServers"];

/// Reads `KIND://HOST:PORT/PATH?KEY=VALUE&...`; `KIND+https` is over TLS.
pub(super) fn read(text: &str) -> Result<Registry, String> {
    let wrong = || format!("{text:?} is not KIND://HOST:PORT/?KEY=VALUE");
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let (kind, tls) = match scheme.strip_suffix("+https") {
        Some(kind) => (kind, true),
        None => (scheme, false),
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let mut fields = Map::new();
    // The addresses of a list have ports of their own.
    let (host, port) = match (kind, authority.rsplit_once(':')) {
        ("static", _) | (_, None) => (authority, None),
        (_, Some((host, port))) => (host, Some(port)),
    };
    let host = if tls {
        format!("https://{host}")
    } else {
        host.to_owned()
    };
    fields.insert("type".into(), kind.into());
    fields.insert("domain".into(), host.into());
    if let Some(port) = port {
        fields.insert("port".into(), number(port)?);
    }
    let mut settings = Map::new();
    if !path.is_empty() {
        settings.insert("path".into(), format!("/{path}").into());
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value = unescape(value).ok_or_else(wrong)?;
        match key {
            "vport" => _ = fields.insert(key.into(), json!({"default": number(&value)?})),
            "refreshSeconds" => _ = settings.insert(key.into(), value.into()),
            _ => {
                let (field, value) = field(kind, key, value)?;
                fields.insert(field.into(), value);
            }
        }
    }
    if !settings.is_empty() {
        fields.insert(
            "metadata".into(),
            json!({"pilothouse": {"innerMap": settings}}),
        );
    }
    // One of a kind needs no name of its own.
    fields.entry("name").or_insert_with(|| kind.into());
    let read = serde_json::from_value(Value::Object(fields));
    read.map_err(|error| format!("{text:?} is no registry: {error}"))
}

fn field<'a>(kind: &str, key: &'a str, value: String) -> Result<(&'a str, Value), String> {
    let short = SHORT
        .iter()
        .find(|(of, short, _)| kind.starts_with(of) && *short == key);
    let field = short.map_or(key, |(_, _, field)| field);
    let value = match field {
        _ if NUMBERS.contains(&field) => number(&value)?,
        _ if LISTS.contains(&field) => value.split(',').collect(),
        _ if SWITCHES.contains(&field) => (value == "true").into(),
        _ => value.into(),
    };
    Ok((field, value))
}

fn number(text: &str) -> Result<Value, String> {
    let number: u64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    Ok(number.into())
}

/// A text with `%XX` in it.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('%') {
        bytes.extend(plain.as_bytes());
        bytes.push(u8::from_str_radix(after.get(..2)?, 16).ok()?);
        rest = &after[2..];
    }
    bytes.extend(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_a_bridge() {
        let consul =
            read("consul+https://consul.example:8501/?tag=a%20b&datacenter=dc2&secret=s").unwrap();
        assert_eq!(&*consul.domain, "https://consul.example");
        assert_eq!((consul.port, &*consul.consul_service_tag), (8501, "a b"));
        assert_eq!(&*consul.auth_secret_name, "s");
        assert_eq!(&*consul.name, "consul");
        let fixed = read("static://10.0.0.1:80,[::1]:81/?name=shop&port=80&vport=8080").unwrap();
        assert_eq!(&*fixed.domain, "10.0.0.1:80,[::1]:81");
        assert_eq!((fixed.port, fixed.vport.unwrap().default), (80, 8080));
        let nacos = read("nacos2://n:8848?groups=a,b&name=x").unwrap();
        assert_eq!(nacos.nacos_groups.len(), 2);
        let eureka = read("eureka://e:8761/api?refreshSeconds=5").unwrap();
        let settings = &eureka.metadata["pilothouse"].inner_map;
        assert_eq!(
            (&*settings["path"], &*settings["refreshSeconds"]),
            ("/api", "5")
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "consul",
            "consul://a:b",
            "consul://a:1/?colour=red",
            "consul://a:1/?tag",
            "consul://a:1/?tag=%zz",
            "consul://a:1/?tag=%é",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}

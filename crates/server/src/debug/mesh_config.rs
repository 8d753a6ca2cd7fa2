//! The mesh configuration in force.

use model::settings::MeshConfig;
use serde_json::{Value, json};

/// Fields that hold a token.
const TOKENS: [&str; 1] = ["accessToken"];
/// Fields that hold headers of requests to providers, by list. Their values may come from the environment of this process.
const HEADERS: [&str; 2] = ["headers", "initialMetadata"];
/// Fields that hold such headers by name.
const HEADERS_BY_NAME: [&str; 1] = ["includeAdditionalHeadersInCheck"];
/// What stands for a value that is not shown.
const HIDDEN: &str = "redacted";

/// The page: all of it but what proves something to a provider.
pub(crate) fn page(mesh: &MeshConfig) -> Value {
    let mut shown = serde_json::to_value(mesh).unwrap_or_default();
    hide(&mut shown);
    shown
}

fn hide(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_in = |names: &[&str]| names.contains(&name.as_str());
                if is_in(&TOKENS) {
                    *value = json!(HIDDEN);
                } else if is_in(&HEADERS) {
                    let headers = value.as_array_mut().into_iter().flatten();
                    let values = headers.filter_map(|header| header.get_mut("value"));
                    values.for_each(|value| *value = json!(HIDDEN));
                } else if is_in(&HEADERS_BY_NAME) {
                    let values = value.as_object_mut().into_iter().flatten();
                    values.for_each(|(_, value)| *value = json!(HIDDEN));
                } else {
                    hide(value);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proves_something_to_a_provider_is_not_shown() {
        let mesh: MeshConfig = serde_json::from_str(
            r#"{"trustDomain": "td", "extensionProviders": [
                {"name": "a", "zipkin": {"service": "z", "headers": [{"name": "authorization", "value": "hunter2"}, {"name": "x", "envName": "NONE"}]}},
                {"name": "b", "opentelemetry": {"service": "o", "grpc": {"initialMetadata": [{"name": "k", "value": "hunter2"}]}}},
                {"name": "c", "lightstep": {"service": "l", "accessToken": "hunter2"}},
                {"name": "d", "envoyExtAuthzHttp": {"service": "e", "includeAdditionalHeadersInCheck": {"k": "hunter2"}}}]}"#,
        )
        .expect("it can be read");
        let shown = page(&mesh);
        let text = shown.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(shown["trustDomain"], "td");
        let zipkin = &shown["extensionProviders"][0]["zipkin"];
        assert_eq!(zipkin["headers"][0]["name"], "authorization");
        assert_eq!(zipkin["headers"][0]["value"], HIDDEN);
        assert_eq!(zipkin["headers"][1]["envName"], "NONE");
    }
}

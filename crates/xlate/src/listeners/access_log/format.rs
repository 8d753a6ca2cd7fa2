//! Formats of access logs.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};
use proto_envoy::envoy::config::core::v3::substitution_format_string::Format as Source;
use proto_envoy::envoy::config::core::v3::{
    DataSource, JsonFormatOptions, SubstitutionFormatString, TypedExtensionConfig, data_source,
};
use proto_istio::mesh::MeshConfig;
use proto_istio::mesh::mesh_config::AccessLogEncoding;
use proto_istio::mesh::mesh_config::extension_provider::EnvoyFileAccessLogProvider;
use proto_istio::mesh::mesh_config::extension_provider::envoy_file_access_log_provider::log_format::LogFormat;

/// A format for Envoy.
pub(super) type Format = SubstitutionFormatString;

/// Istio's text format.
///
/// Istio: pilot/pkg/model/telemetry_logging.go EnvoyTextLogFormat, 1.32.
pub(super) const TEXT: &str = concat!(
    "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" %RESPONSE_CODE% ",
    "%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% ",
    "\"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% ",
    "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" ",
    "\"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% ",
    "%UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% ",
    "%REQUESTED_SERVER_NAME% %ROUTE_NAME%\n",
);

/// The fields of Istio's JSON format, with what each holds.
const JSON: [(&str, &str); 24] = [
    ("authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    (
        "connection_termination_details",
        "%CONNECTION_TERMINATION_DETAILS%",
    ),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("protocol", "%PROTOCOL%"),
    ("request_id", "%REQ(X-REQUEST-ID)%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    (
        "upstream_service_time",
        "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
    ),
    (
        "upstream_transport_failure_reason",
        "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    ),
    ("user_agent", "%REQ(USER-AGENT)%"),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"),
];

/// The format that `accessLogEncoding` and `accessLogFormat` of the mesh ask for.
pub(super) fn of_mesh(mesh: &MeshConfig) -> Format {
    let mut format = match mesh.access_log_encoding() {
        AccessLogEncoding::Text => text(&mesh.access_log_format),
        AccessLogEncoding::Json => {
            let stated = serde_json::from_str::<proto_istio::wkt::Struct>(&mesh.access_log_format);
            json(stated.ok().map(|s| s.0))
        }
    };
    format.omit_empty_values = false;
    format
}

/// The format of a provider.
pub(super) fn of_provider(provider: &EnvoyFileAccessLogProvider) -> Option<Format> {
    let stated = provider.log_format.as_ref();
    let mut format = match stated.map(|f| f.log_format.as_ref()) {
        None => text(""),
        Some(None) => return None,
        Some(Some(LogFormat::Text(stated))) => text(stated),
        Some(Some(LogFormat::Labels(labels))) => json(Some(labels.0.clone())),
    };
    format.omit_empty_values = provider.omit_empty_values;
    Some(format)
}

/// The text of a value; empty for what is none.
pub(super) fn text_of(value: &Value) -> &str {
    match &value.kind {
        Some(Kind::StringValue(text)) => text,
        _ => "",
    }
}

/// The formatter extensions that some text needs.
pub(super) fn formatters<'a>(
    texts: impl IntoIterator<Item = &'a str>,
) -> Vec<TypedExtensionConfig> {
    let needed = texts
        .into_iter()
        .any(|text| text.contains("%REQ_WITHOUT_QUERY"));
    let formatter = || {
        TypedExtensionConfig {
        name: "envoy.formatter.req_without_query".to_owned(),
        typed_config: Some(Any {
            type_url:
                "type.googleapis.com/envoy.extensions.formatter.req_without_query.v3.ReqWithoutQuery"
                    .to_owned(),
            value: Vec::new(),
        }),
    }
    };
    needed.then(formatter).into_iter().collect()
}

fn text(stated: &str) -> Format {
    let mut text = if stated.is_empty() { TEXT } else { stated }.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Format {
        formatters: formatters([text.as_str()]),
        format: Some(Source::TextFormatSource(DataSource {
            specifier: Some(data_source::Specifier::InlineString(text)),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn json(stated: Option<Struct>) -> Format {
    let fields = stated
        .filter(|s| !s.fields.is_empty())
        .unwrap_or_else(|| Struct {
            fields: JSON.into_iter().map(field).collect::<BTreeMap<_, _>>(),
        });
    Format {
        formatters: formatters(fields.fields.values().map(text_of)),
        format: Some(Source::JsonFormat(fields)),
        json_format_options: Some(JsonFormatOptions::default()),
        ..Default::default()
    }
}

fn field((name, value): (&str, &str)) -> (String, Value) {
    let kind = Kind::StringValue(value.to_owned());
    (name.to_owned(), Value { kind: Some(kind) })
}

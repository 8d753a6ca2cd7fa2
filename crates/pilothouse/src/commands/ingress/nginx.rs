//! Lines as ingress-nginx logs requests: its log format `upstreaminfo`, so that what reads those reads these.
//!
//! ingress-nginx: internal/ingress/controller/config/config.go logFormatUpstream, 1.15.

use serde_json::Value;

/// What Envoy writes of each request.
pub(super) const FORMAT: &str = r#"{
    "remote_addr": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "time_local": "%START_TIME(%d/%b/%Y:%H:%M:%S +0000)%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "body_bytes_sent": "%BYTES_SENT%",
    "http_referer": "%REQ(REFERER)%",
    "http_user_agent": "%REQ(USER-AGENT)%",
    "request_length": "%DOWNSTREAM_WIRE_BYTES_RECEIVED%",
    "milliseconds": "%DURATION%",
    "cluster": "%UPSTREAM_CLUSTER_RAW%",
    "upstream_addr": "%UPSTREAM_HOST%",
    "upstream_milliseconds": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
    "req_id": "%REQ(X-REQUEST-ID)%"
}"#;

/// What nginx writes where there is nothing.
const NOTHING: &str = "-";
/// The status of requests whose client went away.
const CLIENT_CLOSED: &str = "499";

/// `127.0.0.1 - - [24/Nov/2026:00:01:02 +0000] "GET /a HTTP/1.1" 200 12 "-" "curl/8.5.0" 82 0.003 [shop-front-9080] [] 10.0.0.7:9080
/// 12 0.002 200 9a59fbcb-…`.
pub(super) fn line(request: &Value) -> String {
    let text = |field: &str| match &request[field] {
        Value::String(text) if !text.is_empty() => escaped(text),
        Value::Null | Value::String(_) => NOTHING.to_owned(),
        other => other.to_string(),
    };
    let seconds = |field: &str| seconds(&text(field));
    let status = match text("status") {
        nobody if nobody == "0" => CLIENT_CLOSED.to_owned(),
        status => status,
    };
    let is_of_backend = request["details"] == "via_upstream";
    let of_backend = |text: String| match is_of_backend {
        true => text,
        false => NOTHING.to_owned(),
    };
    let sent = text("body_bytes_sent");
    let upstream = upstream(request["cluster"].as_str().unwrap_or_default());
    format!(
        "{} - {NOTHING} [{}] \"{} {} {}\" {status} {sent} \"{}\" \"{}\" {} {} [{upstream}] [] {} {} {} {} {}",
        text("remote_addr"),
        text("time_local"),
        text("method"),
        text("path"),
        text("protocol"),
        text("http_referer"),
        text("http_user_agent"),
        text("request_length"),
        seconds("milliseconds"),
        text("upstream_addr"),
        of_backend(sent.clone()),
        of_backend(seconds("upstream_milliseconds")),
        of_backend(status.clone()),
        text("req_id"),
    )
}

/// Milliseconds as seconds.
fn seconds(milliseconds: &str) -> String {
    let number = milliseconds.parse::<u64>();
    number.map_or_else(
        |_| NOTHING.to_owned(),
        |number| format!("{}.{:03}", number / 1000, number % 1000),
    )
}

/// A cluster as ingress-nginx names backends: namespace, Service and port.
fn upstream(cluster: &str) -> String {
    let mut parts = cluster.split('|');
    let (Some(_), Some(port), Some(_), Some(host)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return match cluster.is_empty() {
            true => NOTHING.to_owned(),
            false => escaped(cluster),
        };
    };
    let mut labels = host.split('.');
    match (labels.next(), labels.next(), labels.next()) {
        (Some(name), Some(namespace), Some("svc")) => format!("{namespace}-{name}-{port}"),
        _ => format!("{host}-{port}"),
    }
}

/// A text as nginx writes it: nothing in it ends a field or steers a terminal.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | ..32 | 127.. => shown.push_str(&format!("\\x{byte:02X}")),
            plain => shown.push(char::from(plain)),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::line;

    #[test]
    fn a_request_is_the_line_of_ingress_nginx() {
        let served = json!({
            "remote_addr": "127.0.0.1", "time_local": "24/Nov/2026:00:01:02 +0000", "method": "GET", "path": "/a?b=c",
            "protocol": "HTTP/1.1", "status": 200, "details": "via_upstream", "body_bytes_sent": 12, "http_referer": null,
            "http_user_agent": "a\"b\u{1b}é", "request_length": 82, "milliseconds": 1003,
            "cluster": "outbound|9080||front.shop.svc.cluster.local", "upstream_addr": "10.0.0.7:9080",
            "upstream_milliseconds": "2", "req_id": "9a59",
        });
        assert_eq!(
            line(&served),
            "127.0.0.1 - - [24/Nov/2026:00:01:02 +0000] \"GET /a?b=c HTTP/1.1\" 200 12 \"-\" \"a\\x22b\\x1B\\xC3\\xA9\" 82 1.003 \
             [shop-front-9080] [] 10.0.0.7:9080 12 0.002 200 9a59"
        );
        let left = json!({
            "remote_addr": "127.0.0.1", "time_local": "24/Nov/2026:00:01:02 +0000", "method": "GET", "path": "/",
            "protocol": "HTTP/2", "status": 0, "details": "downstream_remote_disconnect", "body_bytes_sent": 0,
            "request_length": 40, "milliseconds": 5,
        });
        assert_eq!(
            line(&left),
            "127.0.0.1 - - [24/Nov/2026:00:01:02 +0000] \"GET / HTTP/2\" 499 0 \"-\" \"-\" 40 0.005 [-] [] - - - - -"
        );
    }
}

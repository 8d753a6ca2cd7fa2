//! Instances of Spring Cloud, and of Dubbo at application level: what a node holds, as Curator's discovery writes it.
// Higress: registry/zookeeper/watcher.go GetSpringCloudConfig, 2.1. Unlike there, instances that are disabled or out of service
// are not healthy, and applications of Dubbo speak what they say.

use std::sync::Arc;

use serde::Deserialize;

use crate::lenient::Pairs;
use crate::report::Instance;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    address: Option<Arc<str>>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    enabled: Option<bool>,
    payload: Option<Payload>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Payload {
    metadata: Pairs,
}

/// One of `dubbo.endpoints`.
#[derive(Deserialize)]
struct Endpoint {
    port: u16,
    protocol: Arc<str>,
}

/// Reads what a node holds.
pub(super) fn instance(content: &[u8]) -> Option<Instance> {
    let written: Written = serde_json::from_slice(content).ok()?;
    let address = written.address.filter(|a| !a.is_empty())?;
    let is_port = |port: &u16| *port > 0;
    let (port, mut protocol) = match written.port.filter(is_port) {
        Some(port) => (port, None),
        None => (written.ssl_port.filter(is_port)?, Some("https".into())),
    };
    let metadata = written.payload.unwrap_or_default().metadata.0;
    if let Some(endpoints) = metadata.get("dubbo.endpoints") {
        let endpoints: Vec<Endpoint> = serde_json::from_str(endpoints).unwrap_or_default();
        let spoken = endpoints.into_iter().find(|e| e.port == port);
        protocol = Some(spoken.map_or_else(|| "dubbo".into(), |e| e.protocol));
    }
    let status = metadata.get("instance_status");
    let is_up = status.is_none_or(|s| s.eq_ignore_ascii_case("UP"));
    Some(Instance {
        address,
        port,
        protocol,
        weight: 1.0,
        healthy: is_up && written.enabled.unwrap_or(true),
        metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_say_where_they_are_and_whether_they_serve() {
        for (content, wanted) in [
            (r#"{"address":"a","port":1}"#, Some(("a", 1, None, true))),
            (
                r#"{"address":"a","port":1,"enabled":false}"#,
                Some(("a", 1, None, false)),
            ),
            (
                r#"{"address":"a","port":null,"sslPort":2}"#,
                Some(("a", 2, Some("https"), true)),
            ),
            (
                r#"{"address":"a","port":1,"payload":{"metadata":{"instance_status":"OUT_OF_SERVICE"}}}"#,
                Some(("a", 1, None, false)),
            ),
            (
                r#"{"address":"a","port":1,"payload":{"metadata":{"instance_status":"UP"}}}"#,
                Some(("a", 1, None, true)),
            ),
            (
                r#"{"address":"a","port":3,"payload":{"@class":"x","metadata":
                    {"dubbo.endpoints":"[{\"port\":2,\"protocol\":\"dubbo\"},{\"port\":3,\"protocol\":\"tri\"}]"}}}"#,
                Some(("a", 3, Some("tri"), true)),
            ),
            (
                r#"{"address":"a","port":3,"payload":{"metadata":{"dubbo.endpoints":"["}}}"#,
                Some(("a", 3, Some("dubbo"), true)),
            ),
            (
                r#"{"address":"a","port":1,"payload":null}"#,
                Some(("a", 1, None, true)),
            ),
            (r#"{"address":"","port":1}"#, None),
            (r#"{"address":"a","port":0}"#, None),
            (r#"{"address":"a","port":65536}"#, None),
            (r#"{"address":"a"}"#, None),
            ("", None),
            ("null", None),
        ] {
            let read = instance(content.as_bytes());
            let read = read
                .as_ref()
                .map(|i| (&*i.address, i.port, i.protocol.as_deref(), i.healthy));
            assert_eq!(read, wanted, "{content}");
        }
    }
}

//! The JSON mapping: what YAML of Kubernetes has, and what must fail.

use pilothouse_proto_istio::json::{self, Error};
use pilothouse_proto_istio::mesh::{MeshConfig, MeshNetworks};
use pilothouse_proto_istio::networking::{
    DestinationRule, EnvoyFilter, ServiceEntry, VirtualService,
};
use pilothouse_proto_istio::wkt::Duration;
use pilothouse_proto_istio::workload::Extension;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn rich_virtual_service() -> Value {
    json!({
        "hosts": ["reviews", "*.shop.example"],
        "gateways": ["mesh", "istio-system/edge"],
        "exportTo": ["."],
        "http": [{
            "name": "canary",
            "match": [{
                "uri": {"prefix": "/v2"},
                "method": {"exact": "GET"},
                "headers": {"end-user": {"regex": "j.*"}, "x-present": {}},
                "withoutHeaders": {"x-skip": {"exact": "1"}},
                "queryParams": {"q": {"exact": ""}},
                "sourceLabels": {"app": "productpage"},
                "port": 9080,
                "ignoreUriCase": true
            }],
            "route": [
                {
                    "destination": {"host": "reviews", "subset": "v2", "port": {"number": 9080}},
                    "weight": 25,
                    "headers": {"request": {"set": {"x-canary": "yes"}, "remove": ["x-old"]}}
                },
                {"destination": {"host": "reviews", "subset": "v1"}, "weight": 75}
            ],
            "rewrite": {"uriRegexRewrite": {"match": "^/v2/(.*)", "rewrite": "/\\1"}},
            "timeout": "1.500s",
            "retries": {"attempts": 3, "perTryTimeout": "0.250s", "retryOn": "5xx", "retryRemoteLocalities": false},
            "fault": {"delay": {"fixedDelay": "7s", "percentage": {"value": 0.5}}, "abort": {"httpStatus": 503}},
            "mirrors": [{"destination": {"host": "shadow"}, "percentage": {"value": 10.0}}],
            "corsPolicy": {
                "allowOrigins": [{"regex": ".*"}],
                "allowMethods": ["GET"],
                "maxAge": "86400s",
                "allowCredentials": true,
                "unmatchedPreflights": "IGNORE"
            }
        }, {
            "match": [{"uri": {"exact": "/old"}}],
            "redirect": {"uri": "/new", "derivePort": "FROM_REQUEST_PORT", "redirectCode": 308}
        }, {
            "directResponse": {"status": 418, "body": {"bytes": "dGVhcG90"}}
        }],
        "tls": [{
            "match": [{"sniHosts": ["a.example"], "port": 443}],
            "route": [{"destination": {"host": "a.example"}}]
        }],
        "tcp": [{"match": [{"destinationSubnets": ["10.0.0.0/8"]}], "route": [{"destination": {"host": "db"}}]}]
    })
}

fn strict<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}

fn written<T: Serialize>(message: &T) -> Value {
    serde_json::to_value(message).expect("the message has JSON")
}

#[test]
fn a_rich_virtual_service_prints_as_it_was_written() {
    let wanted = rich_virtual_service();
    assert_eq!(
        written(&strict::<VirtualService>(wanted.clone()).expect("it fits")),
        wanted
    );
    let read = json::from_value::<VirtualService>(&wanted).expect("it fits");
    assert_eq!(read.unknown, Vec::<String>::new());
    assert_eq!(written(&read.message), wanted);
}

#[test]
fn strict_reading_rejects_unknown_fields_and_enum_names() {
    let error = strict::<VirtualService>(json!({"hosts": ["a"], "hostz": []}))
        .expect_err("hostz is unknown");
    assert!(error.contains("unknown field `hostz`"), "{error}");
    let error =
        strict::<VirtualService>(json!({"http": [{"retrys": {}}]})).expect_err("retrys is unknown");
    assert!(error.contains("unknown field `retrys`"), "{error}");
    let error = strict::<ServiceEntry>(json!({"resolution": "DOES_NOT_EXIST"}))
        .expect_err("the name is unknown");
    assert!(
        error.contains("unknown variant `DOES_NOT_EXIST`"),
        "{error}"
    );
}

#[test]
fn lenient_reading_lists_unknown_fields_and_skips_null() {
    let read = json::from_value::<VirtualService>(&json!({
        "hosts": ["a"],
        "gateways": null,
        "surprise": {"deep": 1},
        "http": [{"name": null, "match": null, "timeout": null}, {"route": [{"destination": {"host": "a", "hos": 1}}]}]
    }))
    .expect("what is unknown or null does no harm");
    assert_eq!(
        read.unknown,
        ["http[1].route[0].destination.hos", "surprise"]
    );
    assert_eq!(
        written(&read.message),
        json!({"hosts": ["a"], "http": [{}, {"route": [{"destination": {"host": "a"}}]}]})
    );
}

#[test]
fn errors_name_the_field_at_fault() {
    for (value, path) in [
        (json!({"host": 5}), "host"),
        (
            json!({"subsets": [{"name": "a"}, {"labels": {"v": 1}}]}),
            "subsets[1].labels.v",
        ),
        (
            json!({"trafficPolicy": {"loadBalancer": {"simple": "FASTEST"}}}),
            "trafficPolicy.loadBalancer.simple",
        ),
        (
            json!({"trafficPolicy": {"tunnel": {"targetPort": -1}}}),
            "trafficPolicy.tunnel.targetPort",
        ),
        (
            json!({"trafficPolicy": {"outlierDetection": {"interval": "soon"}}}),
            "trafficPolicy.outlierDetection.interval",
        ),
        (json!(["host"]), "."),
    ] {
        let Error {
            path: found,
            reason,
        } = json::from_value::<DestinationRule>(&value).expect_err("it does not fit");
        assert_eq!(found, path, "{reason}");
    }
}

#[test]
fn numbers_may_be_quoted_and_fields_may_have_their_proto_names() {
    let read = json::from_value::<DestinationRule>(&json!({
        "traffic_policy": {
            "outlier_detection": {"consecutive5xxErrors": "7", "max_ejection_percent": "50"},
            "loadBalancer": {"zone_aware_lb_setting": {"minClusterSize": "6"}, "warmup": {"aggression": "1.5"}},
            "connectionPool": {"tcp": {"maxConnections": "100"}}
        }
    }))
    .expect("it fits");
    assert_eq!(read.unknown, Vec::<String>::new());
    let policy = read.message.traffic_policy.expect("it is set");
    let outliers = policy.outlier_detection.expect("it is set");
    assert_eq!(
        (
            outliers.consecutive_5xx_errors,
            outliers.max_ejection_percent
        ),
        (Some(7), 50)
    );
    let balancer = policy.load_balancer.expect("it is set");
    assert_eq!(
        balancer
            .zone_aware_lb_setting
            .expect("it is set")
            .min_cluster_size,
        Some(6)
    );
    assert_eq!(balancer.warmup.expect("it is set").aggression, Some(1.5));
    assert_eq!(
        policy
            .connection_pool
            .and_then(|p| p.tcp)
            .expect("it is set")
            .max_connections,
        100
    );
}

#[test]
fn durations_are_read_in_the_syntax_of_go() {
    let rule: DestinationRule =
        strict(json!({"trafficPolicy": {"outlierDetection": {"baseEjectionTime": "15m"}}}))
            .expect("it fits");
    let outliers = rule
        .traffic_policy
        .and_then(|p| p.outlier_detection)
        .expect("it is set");
    assert_eq!(outliers.base_ejection_time, Some(Duration::new(900, 0)));
    let mesh: MeshConfig =
        strict(json!({"dnsRefreshRate": "1m30s", "connectTimeout": "100ms"})).expect("it fits");
    assert_eq!(
        written(&mesh),
        json!({"dnsRefreshRate": "90s", "connectTimeout": "0.100s"})
    );
}

#[test]
fn two_branches_of_a_oneof_are_an_error() {
    let both = json!({"http": [{"match": [{"uri": {"exact": "/", "prefix": "/"}}]}]});
    assert!(json::from_value::<VirtualService>(&both).is_err());
}

#[test]
fn patches_keep_any_json_in_order_of_their_keys() {
    let patch = json!({
        "configPatches": [{
            "applyTo": "HTTP_FILTER",
            "match": {"context": "SIDECAR_INBOUND", "listener": {"portNumber": 80}},
            "patch": {"operation": "INSERT_BEFORE", "value": {
                "a": null, "b": [1, 2.5, "x", true, {"c": {}}], "name": "f", "z": -3
            }}
        }]
    });
    let read = json::from_value::<EnvoyFilter>(&patch).expect("it fits");
    assert_eq!(written(&read.message), patch);
}

#[test]
fn maps_of_messages_name_their_unknown_fields() {
    let networks = json!({"networks": {"n1": {"endpoints": [{"fromRegistry": "c1", "what": 1}]}}});
    let read = json::from_value::<MeshNetworks>(&networks).expect("it fits");
    assert_eq!(read.unknown, ["networks.n1.endpoints[0].what"]);
}

#[test]
fn any_carries_its_type() {
    let extension = json!({
        "name": "e",
        "config": {"@type": "type.googleapis.com/istio.workload.NamespacedHostname", "hostname": "h"}
    });
    assert_eq!(
        written(&strict::<Extension>(extension.clone()).expect("the type is known")),
        extension
    );
}

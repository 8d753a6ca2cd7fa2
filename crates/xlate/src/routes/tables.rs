//! What Istio's own tests recorded of its route building, when the recordings are there.

use std::sync::Arc;

use incr::Engine;
use model::change::{Change, Owner};
use model::kinds::istio::VirtualService;
use model::object::{Meta, Object, ObjectName, Origin};
use model::service::Picker;
use model::settings::Settings;
use model::{Age, Kinded, Labels};
use prost::Message;
use prost_reflect::DynamicMessage;
use proto_envoy::envoy::config::route::v3::VirtualHost;
use serde_json::{Value, json};
use store::Store;
use testkit::{Score, cases, derived_as_marked};

use super::filters;
use super::matching;
use super::rule::{RuleRoutes, Target};
use descriptors::pool;

fn as_json(type_name: &str, message: &impl Message) -> Value {
    let descriptor = pool().get_message_by_name(type_name).unwrap();
    let bytes = message.encode_to_vec();
    let message = DynamicMessage::decode(descriptor, bytes.as_slice()).unwrap();
    serde_json::to_value(message).unwrap()
}

fn settings() -> Settings {
    Settings {
        mesh: Arc::default(),
        networks: Arc::default(),
        features: Arc::default(),
        domain: "cluster.local".into(),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
        access_reviews: Default::default(),
        unguessable: Default::default(),
    }
}

fn strings(map: &Value) -> Labels {
    let map = map.as_object();
    map.into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
        .collect()
}

/// The routes of a VirtualService on a port.
fn routes(case: &Value) -> Value {
    let input = &case["in"];
    let object = &input["virtualService"];
    let mut spec: VirtualService = serde_json::from_value(object["spec"].clone()).unwrap();
    // The function is called with rules that have no hosts, which are delegates elsewhere.
    spec.hosts = vec!["any.example.org".to_owned()];
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let name = ObjectName::new(
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
    );
    let source = Owner::new(0, "test");
    let object = VirtualService::any(Arc::new(Object {
        meta: Meta {
            name: name.clone(),
            labels: Labels::default(),
            annotations: Labels::default(),
            created: Age::default(),
            maker: None,
            derived: derived_as_marked(&strings(&object["metadata"]["annotations"])),
            closed: None,
            uid: "".into(),
            resource_version: "".into(),
            generation: 0,
            templates: None,
            origin: Origin::Source(source.source.clone()),
        },
        spec,
        status: (),
    }));
    let mut store = Store::new(Arc::new(settings()));
    store.apply([Change::Put(source, object)]);
    let gateways = input["gatewayNames"].as_object().unwrap();
    let query = RuleRoutes {
        rule: name,
        refused: false,
        gateway: gateways.keys().next().map_or("", |g| g).into(),
        port: u16::try_from(input["listenPort"].as_u64().unwrap()).unwrap(),
        tls: input["opts"]["IsTLS"] == true,
        http3: input["opts"]["IsHTTP3AltSvcHeaderNeeded"] == true,
        edge: false,
        route_timeout: 0,
        can: Default::default(),
        // The recorded proxies do not show their headers.
        forwarded_host: case["out"].to_string().contains("appendXForwardedHost"),
        trusts_forwarded: false,
        proxyless: false,
        namespace: text(&input["node"]["Metadata"]["Namespace"]).into(),
        labels: strings(&input["node"]["Labels"]),
        // The tests look services up in a registry that has one.
        targets: Arc::from([Target {
            host: "*.example.org".into(),
            namespace: None,
            port: Some(8080),
            alias: None,
            session: None,
            picker: picker(input),
        }]),
    };
    let engine = Engine::new();
    let list = engine.get(&*store.snapshot(), &query);
    let host = VirtualHost::decode(list.bytes().clone()).unwrap();
    let routes = host
        .routes
        .iter()
        .map(|r| as_json("envoy.config.route.v3.Route", r));
    routes.collect()
}

/// The endpoint picker of the one service, as the first of the rule's routes has it.
fn picker(input: &Value) -> Option<Arc<Picker>> {
    let pickers = input["opts"]["InferencePoolExtensionRefs"].as_object()?;
    let picker = pickers.values().next()?;
    Some(Arc::new(Picker {
        host: picker["FQDN"].as_str().unwrap().into(),
        port: picker["Port"].as_str().unwrap().parse().unwrap(),
        fails_open: picker["FailureModeAllow"] == true,
    }))
}

/// Takes out what differs on purpose (docs/differences.md): how a picker is addressed.
fn without_authority(routes: &mut Value) {
    for route in routes.as_array_mut().into_iter().flatten() {
        let asked =
            "/typedPerFilterConfig/envoy.filters.http.ext_proc/overrides/grpcService/envoyGrpc";
        if let Some(Value::Object(asked)) = route.pointer_mut(asked) {
            assert!(asked.remove("authority").is_some());
        }
    }
}

/// What cannot be made from the recorded input: DestinationRules and labels of services are not in it.
fn is_opaque(case: &Value) -> bool {
    let out = case["out"].to_string();
    let unseen = ["hashPolicy", "stateful"];
    unseen.iter().any(|u| out.contains(u)) || case["in"]["node"].is_null()
}

/// Lists whose order is that of a Go map.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["headers", "queryParameters", "dynamicMetadata"] {
                if let Some(Value::Array(list)) = map.get_mut(key) {
                    list.sort_by_key(Value::to_string);
                }
            }
            map.values_mut().for_each(normalise);
        }
        Value::Array(list) => list.iter_mut().for_each(normalise),
        _ => {}
    }
}

#[test]
fn routes_of_rules_are_those_that_istio_recorded() {
    let mut score = Score::default();
    for case in cases("core-route", "route.BuildHTTPRoutesForVirtualService") {
        if is_opaque(&case) || case["out"][0].is_null() {
            continue;
        }
        let mut ours = routes(&case);
        let mut theirs = case["out"][0].clone();
        without_authority(&mut ours);
        normalise(&mut ours);
        normalise(&mut theirs);
        let different = (ours != theirs).then(|| format!("ours {ours} theirs {theirs}"));
        let name = case["test"].as_str().expect("a case names its test");
        score.count(name, different.as_slice());
    }
    score.as_listed(include_str!("../../tests/differences/route-tables.txt"));
}

#[test]
fn faults_are_those_that_istio_recorded() {
    for case in cases("core-route", "route.TranslateFault") {
        let fault = serde_json::from_value(case["in"]["in"].clone()).unwrap();
        let name = "envoy.extensions.filters.http.fault.v3.HTTPFault";
        assert_eq!(as_json(name, &filters::fault(&fault)), case["out"]);
    }
}

#[test]
fn cors_policies_are_those_that_istio_recorded() {
    for case in cases("core-route", "route.TranslateCORSPolicy") {
        let cors = serde_json::from_value(case["in"]["in"].clone()).unwrap();
        let name = "envoy.extensions.filters.http.cors.v3.CorsPolicy";
        assert_eq!(as_json(name, &filters::cors(&cors)), case["out"]);
    }
}

#[test]
fn claims_are_matched_as_istio_recorded() {
    for case in cases("core-route", "route.translateMetadataMatch") {
        let name = case["in"]["name"].as_str().unwrap();
        let text = match case["in"]["in"].clone() {
            Value::Null => json!({}),
            text => text,
        };
        let request = json!({ "headers": { name: text } });
        let request = serde_json::from_value(request).unwrap();
        let matched = matching::route_match(Some(&request), Default::default());
        let ours = matched
            .dynamic_metadata
            .first()
            .map(|m| as_json("envoy.type.matcher.v3.MetadataMatcher", m));
        assert_eq!(ours.unwrap_or(Value::Null), case["out"], "{name}");
    }
}

#[test]
fn routes_that_take_everything_are_those_that_istio_recorded() {
    for case in cases("core-route", "route.IsCatchAllRoute") {
        let descriptor = pool()
            .get_message_by_name("envoy.config.route.v3.Route")
            .unwrap();
        let route = DynamicMessage::deserialize(descriptor, case["in"]["r"].clone()).unwrap();
        let route: proto_envoy::envoy::config::route::v3::Route = route.transcode_to().unwrap();
        let ours = route.r#match.as_ref().is_some_and(matching::is_catch_all);
        assert_eq!(ours, case["out"] == true, "{}", case["test"]);
    }
}

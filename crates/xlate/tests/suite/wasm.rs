//! Higress's WasmPlugins at the gateways of Ingresses, and modules that are fetched for proxies without an agent.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::change::Change;
use model::diagnostic::Severity;
use model::module::{FetchedModule, Module, ModuleDemand, ModuleSource, Pull};
use model::object::ObjectName;
use model::parse::Validation;
use model::settings::{Features, Settings};
use pilothouse_xlate::View;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Value, json};
use testkit::{World, decode, node, recording, settings};
use xds::TypeUrl;

const EDGE: &str = "higress-system";
const CONFIG: &str = "extensions.higress.io/wasmplugin/higress-system.p";

fn plugin(spec: &str) -> String {
    format!(
        "apiVersion: extensions.higress.io/v1alpha1\nkind: WasmPlugin\n\
         metadata: {{name: p, namespace: {EDGE}}}\nspec: {{{spec}}}\n"
    )
}

/// A gateway of Ingresses; a stock Envoy unless it has Istio's version.
fn gateway(world: &World, more: &Value) -> Arc<View> {
    let namespace = more["namespace"].as_str().unwrap_or(EDGE);
    let mut described = json!({
        "id": format!("router~10.1.0.1~gw-0.{namespace}~{namespace}.svc.cluster.local"),
        "metadata": {
            "NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes",
            "LABELS": {"higress": more["label"].as_str().unwrap_or("higress-system-higress-gateway")}},
    });
    match more["version"].as_str() {
        Some(version) => described["metadata"]["ISTIO_VERSION"] = version.into(),
        None => {
            described["extensions"] = json!([
                "envoy.filters.http.router",
                "envoy.filters.http.wasm",
                "envoy.filters.http.rbac",
                "envoy.filters.network.rbac",
                "envoy.filters.network.wasm",
                "envoy.filters.network.tcp_proxy",
                "envoy.filters.network.http_connection_manager",
            ]);
        }
    }
    if let Some(token) = more["token"].as_str() {
        described["token"] = token.into();
    }
    world.view(&node(&described))
}

fn config(world: &World, view: &Arc<View>) -> Option<Value> {
    let set = world.set(view, TypeUrl::Extension);
    let resource = set.get(CONFIG)?;
    Some(decode(TypeUrl::Extension.as_str(), &resource.body))
}

/// What the module of a configuration is told.
fn told(config: &Value) -> Value {
    let text = config["typed_config"]["config"]["configuration"]["value"].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

fn vm(config: &Value) -> Value {
    config["typed_config"]["config"]["vm_config"].clone()
}

fn is_a(config: &Value, ty: &str) -> bool {
    config["typed_config"]["@type"]
        .as_str()
        .unwrap()
        .ends_with(ty)
}

#[test]
fn modules_are_told_their_settings_as_higress_tells_them() {
    let routes = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: r, namespace: shop}
spec: {rules: [{}, {name: named}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: shop}
spec: {rules: [{}]}
";
    let file = "url: \"file:///p.wasm\"";
    let rule = "matchRules: [{ingress: [shop/web, api], config: {a: 1}}";
    let cases = [
        (
            "pluginConfig: {a: 1}, defaultConfig: {b: 2}, matchRules: [{domain: [x]}]",
            json!({"a": 1}),
        ),
        ("defaultConfig: {b: [1.5, big]}", json!({"b": [1.5, "big"]})),
        (
            &format!("defaultConfig: {{b: 2}}, {rule}]"),
            json!({"b": 2, "_rules_": [{"a": 1, "_match_route_": ["shop/web", "api"]}]}),
        ),
        (
            &format!("defaultConfig: {{b: 2}}, defaultConfigDisable: true, {rule}]"),
            json!({"_rules_": [{"a": 1, "_match_route_": ["shop/web", "api"]}]}),
        ),
        (
            &format!("{rule}, {{domain: ['*.a.b'], service: [s.d:80], ingress: []}}]"),
            json!({"_rules_": [{"a": 1, "_match_route_": ["shop/web", "api"]},
                {"_match_domain_": ["*.a.b"], "_match_service_": ["s.d:80"]}]}),
        ),
        (
            &format!("defaultConfig: {{b: 2}}, {rule}, configDisable: true}}]")
                .replace("}, config", ", config"),
            json!({"b": 2}),
        ),
        (
            "matchRules: [{ingress: [shop/r, shop/none], routeType: GRPC}]",
            json!({"_rules_": [{"_match_route_": ["GRPC/shop/r", "shop.r.0", "named", "GRPC/shop/none"]}]}),
        ),
        (
            "matchRules: [{ingress: [shop/r]}]",
            json!({"_rules_": [{"_match_route_": ["shop/r", "shop.r.0"]}]}),
        ),
        // Without a condition a rule is left out, where others get in as before.
        (
            "defaultConfig: {b: 2}, matchRules: [{config: {a: 1}}]",
            json!({"b": 2}),
        ),
    ];
    for (spec, expected) in cases {
        let mut world = World::of(routes);
        world.put(&plugin(&format!("{file}, {spec}")));
        let view = gateway(&world, &json!({}));
        let config = config(&world, &view).unwrap();
        assert_eq!(told(&config), expected, "{spec}");
    }
    let off = "defaultConfig: {b: 2}, defaultConfigDisable: true, matchRules: [{domain: [x], configDisable: true}]";
    let world = World::of(&plugin(&format!("{file}, {off}")));
    assert_eq!(config(&world, &gateway(&world, &json!({}))), None);
}

#[test]
fn the_machine_and_its_place_are_as_stated() {
    let spec = "url: \"file:///p.wasm\", pluginName: me, failStrategy: FAIL_OPEN, \
        vmConfig: {env: [{name: A, value: b}, {name: HOME, valueFrom: HOST}]}";
    let world = World::of(&plugin(spec));
    let config = config(&world, &gateway(&world, &json!({}))).unwrap();
    let stated = &config["typed_config"]["config"];
    assert_eq!(stated["root_id"], "me");
    assert_eq!(stated["name"], "higress-system.p");
    assert_eq!(stated["failure_policy"], "FAIL_OPEN");
    assert_eq!(vm(&config)["code"]["local"]["filename"], "/p.wasm");
    let environment = &vm(&config)["environment_variables"];
    assert_eq!(environment["key_values"]["A"], "b");
    assert_eq!(environment["host_env_keys"], json!(["HOME"]));
}

/// Four phases, and two priorities within one.
#[test]
fn plugins_run_by_phase_and_from_high_to_low() {
    let one = |name: &str, spec: &str| {
        let spec = format!("url: \"file:///p.wasm\", {spec}");
        plugin(&spec).replace("name: p,", &format!("name: {name},")) + "---\n"
    };
    let mut text = String::new();
    text += &one("last", "priority: 900");
    text += &one("stats", "phase: STATS");
    text += &one("authz-low", "phase: AUTHZ, priority: 1");
    text += &one("authz-none", "phase: AUTHZ");
    text += &one("authz-high", "phase: AUTHZ, priority: 30");
    text += &one("authn", "phase: AUTHN, priority: -5");
    text += "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: higress-system}
spec:
  selector: {higress: higress-system-higress-gateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
";
    let world = World::of(&text);
    let names = |view: &Arc<View>| -> Vec<String> {
        let set = world.set(view, TypeUrl::Listener);
        let listener = set.iter().next().unwrap();
        let listener = decode(TypeUrl::Listener.as_str(), &listener.body);
        let filters = &listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
        let names = filters.as_array().unwrap().iter();
        let names = names.map(|f| f["name"].as_str().unwrap().to_owned());
        let own =
            names.filter_map(|n| n.rsplit_once("/higress-system.").map(|(_, n)| n.to_owned()));
        own.collect()
    };
    let expected = [
        "authn",
        "authz-high",
        "authz-low",
        "authz-none",
        "stats",
        "last",
    ];
    assert_eq!(names(&gateway(&world, &json!({}))), expected);
    // Before all of them stands what gives them the names of routes.
    let set = world.set(&gateway(&world, &json!({})), TypeUrl::Listener);
    let listener = decode(TypeUrl::Listener.as_str(), &set.iter().next().unwrap().body);
    let filters = &listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
    let at = |name: &str| {
        let mut all = filters.as_array().unwrap().iter();
        all.position(|f| f["name"].as_str().unwrap().ends_with(name))
    };
    assert!(at("pilothouse.names").unwrap() < at("higress-system.authn").unwrap());
    // Wherever the gateway is; and no other proxies.
    assert_eq!(
        names(&gateway(&world, &json!({"namespace": "edge"}))),
        expected
    );
    let other = gateway(&world, &json!({"label": "other"}));
    assert_eq!(world.set(&other, TypeUrl::Extension).len(), 0);
}

#[test]
fn what_cannot_be_told_refuses_where_it_protects() {
    // Of the rule, whether the plugin refuses, and whether it is there at all.
    let cases = [
        (
            "phase: AUTHN, matchRules: [{config: {a: 1}}, {domain: [x]}]",
            true,
            true,
        ),
        ("phase: AUTHZ, matchRules: [{config: {a: 1}}]", true, true),
        (
            "phase: AUTHN, failStrategy: FAIL_OPEN, defaultConfig: {}, matchRules: [{}]",
            false,
            true,
        ),
        (
            "phase: STATS, matchRules: [{config: {a: 1}}, {domain: [x]}]",
            false,
            true,
        ),
        (
            "defaultConfigDisable: true, matchRules: [{config: {a: 1}}]",
            false,
            false,
        ),
    ];
    for (spec, refuses, there) in cases {
        let world = World::of(&plugin(&format!("url: \"file:///p.wasm\", {spec}")));
        let config = config(&world, &gateway(&world, &json!({})));
        assert_eq!(config.is_some(), there, "{spec}");
        assert_eq!(config.is_some_and(|c| is_a(&c, ".RBAC")), refuses, "{spec}");
        let findings = world.get(&FindingsOfMesh);
        let found = findings.iter().find(|d| d.code == "PIL0463").unwrap();
        assert_eq!(&*found.path, "spec.matchRules[0]");
        let effect = if refuses {
            "refuses every request"
        } else {
            "left out"
        };
        assert!(found.message.contains(effect), "{}", found.message);
    }
    // Elsewhere a plugin has no effect, and that is said.
    let text = plugin("url: \"file:///p.wasm\"").replace(EDGE, "shop");
    let world = World::of(&text);
    let findings = world.get(&FindingsOfMesh);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert!(findings[0].message.contains("it has no effect"));
    assert_eq!(
        world
            .set(&gateway(&world, &json!({})), TypeUrl::Extension)
            .len(),
        0
    );
}

fn source(url: &str) -> ModuleSource {
    ModuleSource {
        url: url.into(),
        sha256: "".into(),
        pull: Pull::Once,
        secret: None,
    }
}

fn came(module: Option<&[u8]>, trouble: Option<&str>) -> Option<Arc<FetchedModule>> {
    Some(Arc::new(FetchedModule {
        module: module.map(|bytes| Module::new(bytes.to_vec())),
        trouble: trouble.map(Arc::from),
    }))
}

#[test]
fn a_module_is_handed_over_once_it_has_come() {
    let image = "oci://registry.example.com/p:v1";
    for (strategy, instead) in [("FAIL_CLOSE", true), ("FAIL_OPEN", false)] {
        let spec = format!("url: \"{image}\", phase: AUTHN, failStrategy: {strategy}");
        let mut world = World::of(&plugin(&spec));
        let stock = gateway(&world, &json!({}));
        let told = |world: &World| {
            let found = world.get(&stock.findings());
            let found = found.iter().find(|d| d.code == "PIL0462");
            found.map(|d| (d.severity, d.message.to_string()))
        };
        // What the proxy had before runs on until something is known.
        assert_eq!(config(&world, &stock), None);
        assert_eq!(told(&world), None);
        world.apply([Change::Module(
            source(image),
            came(None, Some("it is late")),
        )]);
        let standin = config(&world, &stock).unwrap();
        assert!(is_a(&standin, ".http.rbac.v3.RBAC"), "{standin}");
        assert_eq!(standin["typed_config"].get("rules").is_some(), instead);
        let (severity, message) = told(&world).unwrap();
        assert_eq!(severity == Severity::Error, instead);
        assert!(message.contains("it is late"), "{message}");

        world.apply([Change::Module(source(image), came(Some(b"\0asm"), None))]);
        let runs = config(&world, &stock).unwrap();
        assert!(is_a(&runs, ".http.wasm.v3.Wasm"), "{runs}");
        assert_eq!(vm(&runs)["code"]["local"]["inline_bytes"], "AGFzbQ==");
        assert_eq!(told(&world), None);
        let kept = came(Some(b"\0asm"), Some("gone"));
        world.apply([Change::Module(source(image), kept)]);
        assert_eq!(config(&world, &stock).unwrap(), runs);
        assert_eq!(told(&world).unwrap().0, Severity::Warning);
        // An agent fetches by itself.
        let agent = gateway(&world, &json!({"version": "1.27.0"}));
        let own = config(&world, &agent).unwrap();
        assert_eq!(vm(&own)["code"]["remote"]["http_uri"]["uri"], image);
    }
}

#[test]
fn the_listener_stays_as_it_is_while_modules_come_and_go() {
    let image = "oci://registry.example.com/p:v1";
    let mut world = World::of(&plugin(&format!("url: \"{image}\"")));
    world.put(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: higress-system}
spec:
  selector: {higress: higress-system-higress-gateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
",
    );
    let view = gateway(&world, &json!({}));
    let before = world.set(&view, TypeUrl::Listener);
    assert_eq!(before.len(), 1);
    for fetched in [came(None, Some("no")), came(Some(b"\0asm"), None), None] {
        world.apply([Change::Module(source(image), fetched)]);
        assert!(world.set(&view, TypeUrl::Listener) == before);
    }
}

#[test]
fn modules_are_wanted_for_proxies_without_an_agent() {
    let spec = "url: \"registry.example.com/p\", imagePullSecret: pull";
    let mut world = World::of(&plugin(spec));
    let wanted = |world: &World, more: Value| -> Vec<ModuleDemand> {
        let view = gateway(world, &more);
        let wants = world.wants(&view, TypeUrl::Extension);
        wants.modules.iter().cloned().collect()
    };
    let one = wanted(&world, json!({}));
    assert_eq!(one.len(), 1);
    let expected = ModuleSource {
        url: "oci://registry.example.com/p".into(),
        pull: Pull::Always,
        secret: Some(ObjectName::new(EDGE, "pull")),
        ..source("")
    };
    assert_eq!(one[0].source, expected);
    assert_eq!(one[0].credentials, None);
    world.put(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull, namespace: {EDGE}}}\n\
         type: kubernetes.io/dockerconfigjson\nstringData: {{.dockerconfigjson: the-secret}}\n"
    ));
    let two = wanted(&world, json!({}));
    assert_eq!(two[0].credentials.as_ref().unwrap().expose(), "the-secret");
    assert!(!format!("{two:?}").contains("the-secret"));
    assert_eq!(wanted(&world, json!({"version": "1.27.0"})), []);
    assert_eq!(wanted(&world, json!({"label": "other"})), []);
    world.put(&plugin("url: \"file:///p.wasm\""));
    assert_eq!(wanted(&world, json!({})), []);
}

#[test]
fn istios_plugins_are_fetched_in_the_same_way_and_where_that_is_off_refused() {
    let text = "
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: p, namespace: higress-system}
spec: {url: https://a.example.com/p.wasm, type: NETWORK}
";
    let name = "extensions.istio.io/trafficextension/higress-system.p~istio-translated-wasmplugin";
    let mut world = World::of(text);
    let view = gateway(&world, &json!({}));
    let config = |world: &World| {
        let set = world.set(&view, TypeUrl::Extension);
        set.get(name)
            .map(|r| decode(TypeUrl::Extension.as_str(), &r.body))
    };
    let url = source("https://a.example.com/p.wasm");
    world.apply([Change::Module(url.clone(), came(None, Some("no")))]);
    assert!(is_a(&config(&world).unwrap(), ".network.rbac.v3.RBAC"));
    world.apply([Change::Module(url, came(Some(b"\0asm"), None))]);
    assert!(is_a(&config(&world).unwrap(), ".network.wasm.v3.Wasm"));

    let features = Features {
        wasm_fetch: false,
        ..Features::default()
    };
    let mut settings = settings("");
    settings.features = Arc::new(features);
    let mut world = World::new(settings);
    world.put(text);
    let view = gateway(&world, &json!({}));
    let found = world.get(&view.findings());
    assert!(found.iter().any(|d| d.code == "PIL0431"), "{found:?}");
    let wants = world.wants(&view, TypeUrl::Extension);
    assert!(wants.modules.is_empty());
}

/// A world with the Secrets of a table of Higress's, and a plugin.
fn with_secrets(values: &Value, spec: &Value) -> World {
    let features = Features {
        secret_templates: "*".into(),
        ..Features::default()
    };
    let mut world = World::new(Settings {
        features: Arc::new(features),
        ..settings("")
    });
    let mut objects = vec![json!({
        "apiVersion": "extensions.higress.io/v1alpha1", "kind": "WasmPlugin",
        "metadata": {"name": "p", "namespace": EDGE}, "spec": spec})];
    for (name, value) in values.as_object().unwrap() {
        let name = name.strip_prefix("secret.").unwrap();
        let (name, key) = name.split_once('.').unwrap();
        let (namespace, name) = name.split_once('/').unwrap();
        let same = |o: &&mut Value| {
            o["metadata"]["name"] == name && o["metadata"]["namespace"] == namespace
        };
        match objects.iter_mut().find(same) {
            Some(secret) => secret["stringData"][key] = value.clone(),
            None => objects.push(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace}, "stringData": {key: value}})),
        }
    }
    world.apply_json(&objects);
    world
}

#[test]
fn values_of_secrets_stand_in_settings_as_in_higress() {
    let Some(path) = recording("higress-tables/conversion.json") else {
        return;
    };
    let tables: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |table: &&Value| table["test"] == "TestTemplateProcessor_ProcessConfig";
    let table = tables.iter().find(of).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() > 5);
    for case in cases {
        let mut spec = case["wasmPlugin"].clone();
        spec["url"] = "file:///p.wasm".into();
        let world = with_secrets(&table["values"], &spec);
        let proven = json!({"token": format!("sa:{EDGE}:gateway")});
        let config = config(&world, &gateway(&world, &proven)).unwrap();
        // Without a value the filter refuses requests.
        let failed = !is_a(&config, "v3.Wasm");
        assert_eq!(
            failed,
            case["expectError"].as_bool().unwrap(),
            "{}",
            case["name"]
        );
        if !failed {
            assert_eq!(
                told(&config),
                case["expected"]["pluginConfig"],
                "{}",
                case["name"]
            );
        }
    }
}

#[test]
fn plugins_of_higress_are_read_and_run_without_error() {
    let Some(recordings) = recording("higress") else {
        return;
    };
    let mut plugins = 0;
    for below in ["samples/wasmplugin", "test/e2e/conformance/tests"] {
        for entry in std::fs::read_dir(recordings.join(below)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            if path.extension().is_none_or(|e| e != "yaml") || !text.contains("kind: WasmPlugin") {
                continue;
            }
            let documents = text
                .split("\n---")
                .filter(|d| d.contains("kind: WasmPlugin"));
            for document in documents {
                plugins += 1;
                let file: Arc<Path> = path.as_path().into();
                let parsed = validate::parse(document, &file, Validation::Strict);
                assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
                assert_eq!(parsed.objects().count(), 1);
                let mut world = World::default();
                world.put(document);
                let found = world.get(&FindingsOfMesh);
                assert!(found.is_empty(), "{}: {found:?}", path.display());
                let view = gateway(&world, &json!({"version": "1.27.0"}));
                assert_eq!(
                    world.set(&view, TypeUrl::Extension).len(),
                    1,
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert!(plugins >= 27, "{plugins}");
}

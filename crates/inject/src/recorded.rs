//! Calls of Istio's functions, as they were recorded.

use std::collections::BTreeMap;

use gotemplate::{Budget, Functions, Struct, Template, Value as Go, json as go_json};
use model::mesh::{MeshConfig, ProxyConfig};
use serde_json::{Map, Value, json};
use testkit::{Score, cases, differences};

use crate::config::{Injection, Policy};
use crate::go::Typed;
use crate::message::Message;
use crate::pod::{Pod, find};
use crate::{config, path, policy, probes, prometheus, status, values};

fn score(function: &str, call: impl Fn(&Value) -> Option<Value>) {
    let mut score = Score::default();
    for case in cases("inject-helpers", &format!("inject.{function}")) {
        let name = case["test"].as_str().unwrap_or_default();
        let got = call(&case["in"]).unwrap_or_default();
        score.count(name, &differences(&case["out"], &got));
    }
    score.all_as_recorded();
}

/// A recorded pod, which has Go's names of the outermost fields.
fn pod(recorded: &Value) -> Pod {
    Pod::read(&json!({"metadata": recorded["ObjectMeta"], "spec": recorded["Spec"]})).unwrap()
}

fn annotated(annotations: &Value) -> Pod {
    Pod::read(&json!({"metadata": {"annotations": annotations}})).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn functions() -> Functions {
    crate::functions::functions(BTreeMap::new())
}

/// What a template prints over some data.
fn rendered(template: &str, data: Struct) -> String {
    let functions = functions();
    let template = Template::parse("test", template, &functions).unwrap();
    template
        .render(&data.into(), &functions, &Budget::default())
        .unwrap()
}

fn strings(map: &Value) -> Go {
    let map = map.as_object().into_iter().flatten();
    Go::string_map(map.map(|(key, value)| (key.as_str(), text(value))))
}

fn message<M: serde::de::DeserializeOwned + Default>(value: &Value) -> M {
    testkit::message(value).unwrap_or_default()
}

fn mesh(value: &Value) -> MeshConfig {
    message(value)
}

#[test]
fn pods_are_injected_or_not() {
    score("injectRequired", |of| {
        let config = &of["config"];
        let read = |field: &str| {
            let list = config[field].as_array().cloned().unwrap_or_default();
            config::selectors(&Value::Array(list)).unwrap()
        };
        let policy = match text(&config["Policy"]) {
            "enabled" => Policy::Enabled,
            "disabled" => Policy::Disabled,
            other => Policy::Other(other.to_owned()),
        };
        let pod = Pod::read(&json!({"metadata": of["metadata"], "spec": of["podSpec"]})).unwrap();
        let (never, always) = (read("NeverInjectSelector"), read("AlwaysInjectSelector"));
        let skipped = policy::skipped_by(&pod, &policy, &never, &always, &mut Vec::new());
        Some(skipped.is_none().into())
    });
}

#[test]
fn networks_are_appended() {
    score("appendMultusNetwork", |of| {
        let data = Struct::new("test")
            .field("A", text(&of["existingValue"]))
            .field("B", text(&of["istioCniNetwork"]));
        Some(rendered("{{ appendMultusNetwork .A .B }}", data).into())
    });
}

#[test]
fn attributes_of_workloads_are_told() {
    score("otelResourceAttributes", |of| {
        let spec = json!({"containers": of["containers"]});
        let spec = crate::typed::typed(&spec, "PodSpec").unwrap();
        let mesh = Message::of(&mesh(&of["mc"])).unwrap();
        let data = Struct::new("test")
            .field("Mesh", Go::Object(std::rc::Rc::new(mesh)))
            .field("Annotations", strings(&of["annotations"]))
            .field("Labels", strings(&of["labels"]))
            .field("Namespace", text(&of["namespace"]))
            .field("Spec", Typed::value(&spec, "PodSpec"));
        let template =
            "{{ otelResourceAttributes .Mesh .Annotations .Labels .Namespace .Spec.Containers }}";
        Some(rendered(template, data).into())
    });
}

#[test]
fn paths_state_variables() {
    score("parseInjectEnvs", |of| {
        serde_json::to_value(path::variables(text(&of["path"]))).ok()
    });
}

#[test]
fn images_have_a_type() {
    score("ProxyImage", |of| {
        let values = values::Values::read(&of["values"].to_string()).unwrap();
        let annotated = of["annotations"]["sidecar.istio.io/proxyImageType"].as_str();
        Some(
            values
                .proxy_image(text(&of["image"]["imageType"]), annotated)
                .into(),
        )
    });
}

#[test]
fn containers_are_found() {
    score("FindContainer", |of| {
        let all = of["containers"].as_array().cloned().unwrap_or_default();
        find(&all, text(&of["name"])).map(named)
    });
    score("FindSidecar", |of| {
        pod(&of["pod"]).container(crate::pod::PROXY).map(named)
    });
}

/// Fields of a container that recordings of it hold.
fn named(container: &Value) -> Value {
    let mut out = json!({"Name": container["name"]});
    if let Some(image) = container.get("image") {
        out["Image"] = image.clone();
    }
    out
}

#[test]
fn probes_are_rewritten_where_wanted() {
    score("ShouldRewriteAppHTTPProbers", |of| {
        let pod = annotated(&of["annotations"]);
        Some(probes::is_wanted(&pod, of["specSetting"] == true).into())
    });
}

#[test]
fn probers_are_dumped() {
    score("DumpAppProbers", |of| {
        let agent = i32::try_from(of["targetPort"].as_i64()?).ok()?;
        let probers = probes::probers(&pod(&of["pod"]), agent);
        let text = if probers.is_empty() {
            String::new()
        } else {
            probes::text(&probers)
        };
        Some(text.into())
    });
}

#[test]
fn probers_are_merged_with_earlier_ones() {
    score("mergeOrAppendProbers", |of| {
        let mut env = of["envVars"].as_array()?.clone();
        let probers: Map<String, Value> = serde_json::from_str(text(&of["newProbers"])).ok()?;
        probes::tell(&mut env, &probers, of["previouslyInjected"] == true);
        Some(Value::Array(env))
    });
}

#[test]
fn nil_is_left_out() {
    score("omitNil", |of| {
        let data = Struct::new("test").field("V", go_json::read(&of["v"]));
        let printed = rendered("{{ omitNil .V | toJson }}", data);
        serde_json::from_str(&printed).ok()
    });
}

#[test]
fn ports_of_containers_are_listed() {
    score("getPortsForContainer", |of| {
        let container = crate::typed::typed(&of["container"], "Container").unwrap();
        serde_json::to_value(crate::functions::ports::of_container(&container)).ok()
    });
}

#[test]
fn metrics_are_merged_where_wanted() {
    score("enablePrometheusMerge", |of| {
        let merged = prometheus::is_merged(&annotated(&of["anno"]), &mesh(&of["mesh"]));
        Some(merged.into())
    });
    score("applyPrometheusMerge", |of| {
        let mesh = mesh(&of["mesh"]);
        let agent = mesh.default_config.as_ref().map_or(0, |c| c.status_port);
        let done = prometheus::merge(&mut pod(&of["pod"]), &mesh, agent, &mut Vec::new());
        done.err().map(|e| e.to_string().into())
    });
}

#[test]
fn statuses_are_read() {
    score("parseStatus", |of| {
        let pod = annotated(&json!({status::STATUS: of["status"]}));
        let earlier = status::Earlier::of(&pod);
        let list = |field: &str| -> Value {
            let names = earlier.iter().flat_map(|e| e.names(field));
            names
                .map(|name| json!({"name": name, "resources": {}}))
                .collect()
        };
        Some(json!({"Containers": list("containers"), "InitContainers": list("initContainers")}))
    });
}

#[test]
fn annotations_are_judged() {
    score("validateAnnotations", |of| {
        let fault = crate::check_annotations(&annotated(&of["annotations"])).err();
        fault.map(|e| e.to_string().into())
    });
    score("validateResourceQuantity", |of| {
        let fault = validate::annotation::fault("sidecar.istio.io/proxyCPU", text(&of["value"]));
        fault.map(Into::into)
    });
}

#[test]
fn configurations_are_told_without_defaults() {
    score("protoToJSON", |of| {
        let config = Message::of(&message::<ProxyConfig>(&of["v"])).unwrap();
        let data = Struct::new("test").field("V", Go::Object(std::rc::Rc::new(config)));
        Some(rendered("{{ protoToJSON .V }}", data).into())
    });
}

#[test]
fn the_scrape_configuration_is_read() {
    score("getPrometheusScrapeConfiguration", |of| {
        let scrape = prometheus::Scrape::of(&pod(&of["pod"]), &mut Vec::new());
        let mut out = json!({});
        for (name, value) in [("Path", &scrape.path), ("Port", &scrape.port)] {
            if !value.is_empty() {
                out[name] = value.as_str().into();
            }
        }
        let targets = scrape.targets.iter();
        let targets: Vec<Value> = targets
            .map(|t| json!({"Path": t.path, "Port": t.port}))
            .collect();
        if !targets.is_empty() {
            out["Targets"] = targets.into();
        }
        Some(out)
    });
}

#[test]
fn a_configuration_says_what_is_odd_about_it() {
    let config =
        "policy: what\nneverInjectSelector:\n- matchExpressions:\n  - {key: a, operator: In}\n";
    let injection = Injection::read(config, "{}", BTreeMap::new()).unwrap();
    assert_eq!(injection.remarks().len(), 3);
    assert_eq!(injection.default_templates, [config::SIDECAR]);
    let wrong = Injection::read("templates: {a: '{{ nothing }}'}", "{}", BTreeMap::new());
    assert!(wrong.err().unwrap().to_string().contains("template a: "));
    assert!(Injection::read("", "global: {hub: 1}", BTreeMap::new()).is_err());
}

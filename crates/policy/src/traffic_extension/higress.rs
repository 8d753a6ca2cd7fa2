//! WasmPlugins of Higress's: settings for single routes, hosts and services, in the form that its modules read.
//!
//! Higress: pkg/ingress/config/ingress_config.go convertIstioWasmPlugin, 2.1.

use std::sync::Arc;

use incr::Cx;
use mesh::finding::{about, code};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::gateway_api::{GrpcRoute, HttpRoute};
use model::kinds::higress::{
    FailStrategy, MatchRule, PluginConfig, PluginPhase, PullPolicy, RouteType, VariableSource,
    WasmPlugin,
};
use model::object::{Object, ObjectName};
use proto_istio::extensions::{self as istio, EnvVar, VmConfig, WasmConfig};
use serde_json::Value;
use store::{Reads, Snapshot};

use super::read::{Flaw, Read, Wanted, wasm};
use super::{Code, Extension, Phase};

/// What names of filters and configurations start with.
const PREFIX: &str = "extensions.higress.io/wasmplugin/";

/// The filter of a plugin. Where it cannot be told what its author meant, one that protects refuses requests.
pub(super) fn read(cx: &Cx<'_, Snapshot>, plugin: &Object<WasmPlugin>) -> Read {
    let spec = &plugin.spec;
    let edge = &cx.settings().features.edge_namespace;
    if plugin.namespace() != edge {
        let why = format!(
            "it has no effect: plugins count in {edge}, the namespace of the gateways that serve Ingresses"
        );
        let found = about(plugin, code::UNUSABLE_PLUGIN, Severity::Warning, why);
        return Read {
            extension: None,
            diagnostics: vec![found.at("metadata.namespace")],
        };
    }
    let (rules, mut diagnostics) = rules(cx, edge, plugin);
    let stated = configuration(spec, rules);
    let code = match stated.map(|stated| config(plugin, stated)) {
        Some(Err(flaw)) => {
            diagnostics.push(unusable(plugin, flaw.path, flaw.message));
            None
        }
        Some(Ok(code)) => Some(code),
        None => None,
    };
    let code = match diagnostics.is_empty() || !protects(spec) {
        true => code,
        false => Some(Code::Closed { network: false }),
    };
    Read {
        extension: code.map(|code| Arc::new(extension(plugin, code))),
        diagnostics,
    }
}

fn extension(plugin: &Object<WasmPlugin>, code: Code) -> Extension {
    let name = &plugin.meta.name;
    Extension {
        origin: Wanted::HigressPlugin(name.clone()),
        resource: format!("{PREFIX}{}.{}", name.namespace, name.name).into(),
        name: name.clone(),
        created: plugin.meta.created,
        version: plugin.meta.resource_version.clone(),
        selector: None,
        target_refs: Vec::new(),
        phase: match plugin.spec.phase {
            PluginPhase::Unspecified => Phase::Unspecified,
            PluginPhase::Authn => Phase::Authn,
            PluginPhase::Authz => Phase::Authz,
            PluginPhase::Stats => Phase::Stats,
        },
        priority: plugin.spec.priority,
        matches: Vec::new(),
        code,
    }
}

/// A part that cannot be used.
fn unusable(plugin: &Object<WasmPlugin>, path: impl Into<Arc<str>>, why: &str) -> Diagnostic {
    let effect = match protects(&plugin.spec) {
        true => "the plugin refuses every request",
        false => "it is left out",
    };
    let why = format!("{why}: {effect}");
    about(plugin, code::UNUSABLE_PLUGIN, Severity::Error, why).at(path)
}

/// The rules that are on, as modules read them, and what is wrong with others.
fn rules(
    cx: &Cx<'_, Snapshot>,
    edge: &str,
    plugin: &Object<WasmPlugin>,
) -> (Vec<Value>, Vec<Diagnostic>) {
    let (mut rules, mut diagnostics) = (Vec::new(), Vec::new());
    let spec = &plugin.spec;
    if spec.plugin_config.is_some() {
        return (rules, diagnostics);
    }
    for (at, rule) in spec.match_rules.iter().enumerate() {
        if rule.config_disable == Some(true) {
            continue;
        }
        match of_rule(cx, edge, rule) {
            Some(rule) => rules.push(Value::Object(rule)),
            None => {
                let why = "the rule says of no route, host or service that it is for it";
                let path = format!("spec.matchRules[{at}]");
                diagnostics.push(unusable(plugin, path, why));
            }
        }
    }
    (rules, diagnostics)
}

/// Whether requests must not pass without it: it decides who gets in.
fn protects(spec: &WasmPlugin) -> bool {
    matches!(spec.phase, PluginPhase::Authn | PluginPhase::Authz)
        && spec.fail_strategy == FailStrategy::Close
}

/// What the module is told; `None` where it is off for every request.
fn configuration(spec: &WasmPlugin, rules: Vec<Value>) -> Option<PluginConfig> {
    if let Some(stated) = &spec.plugin_config {
        return Some(stated.clone());
    }
    let off = spec.default_config_disable == Some(true);
    if off && rules.is_empty() {
        return None;
    }
    let default = spec.default_config.as_ref().filter(|_| !off);
    let mut told = default.cloned().unwrap_or_default();
    if !rules.is_empty() {
        told.insert("_rules_".to_owned(), Value::Array(rules));
    }
    Some(told)
}

/// A rule as modules read it; `None` for one that is for nothing.
fn of_rule(cx: &Cx<'_, Snapshot>, edge: &str, rule: &MatchRule) -> Option<PluginConfig> {
    let mut told = rule.config.clone().unwrap_or_default();
    let routes = rule.ingress.iter();
    let routes: Vec<Value> = routes
        .flat_map(|name| routes_of(cx, edge, rule.route_type, name))
        .map(Value::String)
        .collect();
    let texts = |list: &[Arc<str>]| -> Vec<Value> {
        list.iter().map(|t| Value::String(t.to_string())).collect()
    };
    let conditions = [
        ("_match_route_", routes),
        ("_match_service_", texts(&rule.service)),
        ("_match_domain_", texts(&rule.domain)),
    ];
    let mut any = false;
    for (key, values) in conditions {
        if !values.is_empty() {
            any = true;
            told.insert(key.to_owned(), Value::Array(values));
        }
    }
    any.then_some(told)
}

/// The names that routes have in the proxy: those of Ingresses are as stated, those of the Gateway API are named after their
/// rules, of which Higress names all after the object.
fn routes_of(
    cx: &Cx<'_, Snapshot>,
    edge: &str,
    route_type: RouteType,
    stated: &str,
) -> Vec<String> {
    let object = match stated.split_once('/') {
        Some((namespace, name)) => ObjectName::new(namespace, name),
        None => ObjectName::new(edge, stated),
    };
    let rule_names: Vec<Option<String>> = match route_type {
        RouteType::Http => cx.get::<HttpRoute>(&object).map_or_else(Vec::new, |route| {
            let rules = route.spec.rules.iter();
            rules
                .map(|r| r.name.as_ref().map(|n| n.to_string()))
                .collect()
        }),
        RouteType::Grpc => cx.get::<GrpcRoute>(&object).map_or_else(Vec::new, |route| {
            let rules = route.spec.rules.iter();
            rules
                .map(|r| r.name.as_ref().map(|n| n.to_string()))
                .collect()
        }),
    };
    let own = match route_type {
        RouteType::Http => stated.to_owned(),
        RouteType::Grpc => format!("GRPC/{stated}"),
    };
    let of_rules = rule_names.into_iter().enumerate().map(|(index, name)| {
        name.unwrap_or_else(|| format!("{}.{}.{index}", object.namespace, object.name))
    });
    std::iter::once(own).chain(of_rules).collect()
}

fn config(plugin: &Object<WasmPlugin>, stated: PluginConfig) -> Result<Code, Flaw> {
    let spec = &plugin.spec;
    let stated = serde_json::from_value(Value::Object(stated)).map_err(|_| Flaw {
        path: "spec",
        message: "the settings cannot be written as JSON",
    })?;
    let env = spec.vm_config.iter().flat_map(|vm| &vm.env);
    let mut config = WasmConfig {
        url: spec.url.to_string(),
        sha256: spec.sha256.to_string(),
        image_pull_secret: spec.image_pull_secret.to_string(),
        plugin_config: Some(stated),
        plugin_name: spec.plugin_name.to_string(),
        vm_config: Some(VmConfig {
            env: env.map(variable).collect(),
        }),
        ..WasmConfig::default()
    };
    config.set_image_pull_policy(match spec.image_pull_policy {
        PullPolicy::Unspecified => istio::PullPolicy::UnspecifiedPolicy,
        PullPolicy::IfNotPresent => istio::PullPolicy::IfNotPresent,
        PullPolicy::Always => istio::PullPolicy::Always,
    });
    config.set_fail_strategy(match spec.fail_strategy {
        FailStrategy::Close => istio::FailStrategy::FailClose,
        FailStrategy::Open => istio::FailStrategy::FailOpen,
    });
    wasm(plugin.namespace().as_str(), config)
}

fn variable(stated: &model::kinds::higress::PluginVariable) -> EnvVar {
    let mut variable = EnvVar {
        name: stated.name.to_string(),
        value: stated.value.to_string(),
        ..EnvVar::default()
    };
    variable.set_value_from(match stated.value_from {
        VariableSource::Inline => istio::EnvValueSource::Inline,
        VariableSource::Host => istio::EnvValueSource::Host,
    });
    variable
}

//! Reading the three kinds of objects.

use std::sync::Arc;

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::{TrafficExtension, WasmPlugin};
use model::kinds::{Kind, Kinded};
use model::object::{Object, ObjectName};
use proto_istio::extensions::traffic_extension::FilterConfig;
use proto_istio::extensions::{FailStrategy, TrafficSelector, WasmConfig};
use store::{Reads, Snapshot};

use super::phases::is_network;
use super::{Code, Extension, Phase, higress, url};
use mesh::finding;
use mesh::finding::code;
use model::credential::resource_name;

/// What names of filters and configurations start with.
const PREFIX: &str = "extensions.istio.io/trafficextension/";
/// What the names of those end in that WasmPlugins stand for.
const OF_PLUGIN: &str = "~istio-translated-wasmplugin";
/// Bytes that a script may have.
const MAX_LUA: usize = 65_536;

/// An object that a filter may be made of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Wanted {
    /// A TrafficExtension.
    TrafficExtension(ObjectName),
    /// A WasmPlugin of Istio's.
    WasmPlugin(ObjectName),
    /// A WasmPlugin of Higress's.
    HigressPlugin(ObjectName),
}

impl Wanted {
    /// The kind and the name of the object.
    pub fn key(&self) -> (Kind, &ObjectName) {
        match self {
            Self::TrafficExtension(name) => (Kind::TrafficExtension, name),
            Self::WasmPlugin(name) => (Kind::WasmPlugin, name),
            Self::HigressPlugin(name) => (Kind::HigressWasmPlugin, name),
        }
    }
}

/// What was read of an object.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Read {
    /// The filter; `None` where the object is not there or no filter can be made of it.
    pub extension: Option<Arc<Extension>>,
    /// Why none can be made.
    pub diagnostics: Vec<Diagnostic>,
}

/// The filter of an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReadExtension(pub Wanted);

impl Query<Snapshot> for ReadExtension {
    type Value = Read;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Read {
        match &self.0 {
            Wanted::TrafficExtension(name) => {
                let object = cx.get::<TrafficExtension>(name);
                object.map_or_else(Read::default, |o| of_extension(&o))
            }
            Wanted::WasmPlugin(name) => {
                let object = cx.get::<WasmPlugin>(name);
                object.map_or_else(Read::default, |o| of_plugin(&o))
            }
            Wanted::HigressPlugin(name) => {
                let object = cx.get::<model::kinds::higress::WasmPlugin>(name);
                object.map_or_else(Read::default, |o| higress::read(cx, &o))
            }
        }
    }
}

/// What stands between an object and its filter.
pub(super) struct Flaw {
    pub(super) path: &'static str,
    pub(super) message: &'static str,
}

pub(super) fn read<T: Kinded>(object: &Object<T>, extension: Result<Extension, Flaw>) -> Read {
    match extension {
        Ok(extension) => Read {
            extension: Some(Arc::new(extension)),
            diagnostics: Vec::new(),
        },
        Err(flaw) => Read {
            extension: None,
            diagnostics: vec![
                finding::about(object, code::NO_EXTENSION, Severity::Error, flaw.message)
                    .at(flaw.path)
                    .help("no filter is made of it: traffic passes as if it were not there"),
            ],
        },
    }
}

fn of_extension(object: &Object<TrafficExtension>) -> Read {
    let spec = &object.spec;
    let code = match &spec.filter_config {
        Some(FilterConfig::Wasm(config)) if object.meta.closed.is_some() => Ok(Code::Closed {
            network: is_network(config),
        }),
        Some(FilterConfig::Wasm(config)) => {
            wasm(object.meta.name.namespace.as_ref(), config.clone())
        }
        Some(FilterConfig::Lua(config)) if config.inline_code.is_empty() => Err(Flaw {
            path: "spec.lua.inlineCode",
            message: "the script is empty",
        }),
        Some(FilterConfig::Lua(config)) if config.inline_code.len() > MAX_LUA => Err(Flaw {
            path: "spec.lua.inlineCode",
            message: "the script is longer than 64 KiB",
        }),
        Some(FilterConfig::Lua(config)) => Ok(Code::Lua(config.clone())),
        None => Err(Flaw {
            path: "spec",
            message: "it has neither wasm nor lua",
        }),
    };
    let network = matches!(&spec.filter_config, Some(FilterConfig::Wasm(w)) if is_network(w));
    let passes = matches!(&spec.filter_config, Some(FilterConfig::Wasm(w)) if is_left_out(w));
    let protects = is_of_protection(spec.phase()) && !passes;
    let (code, flaw) = closed(code, protects.then_some(network));
    let extension = code.map(|code| Extension {
        origin: Wanted::TrafficExtension(object.meta.name.clone()),
        name: object.meta.name.clone(),
        resource: resource(&object.meta.name),
        created: object.meta.created,
        version: object.meta.resource_version.clone(),
        selector: spec.selector.clone(),
        target_refs: spec.target_refs.clone(),
        phase: spec.phase(),
        priority: spec.priority,
        matches: spec.r#match.clone(),
        code,
    });
    with_flaw(read(object, extension), object, flaw)
}

/// Whether a filter of that phase protects.
fn is_of_protection(phase: Phase) -> bool {
    matches!(phase, Phase::Authn | Phase::Authz)
}

/// Whether requests pass where the module cannot run.
fn is_left_out(config: &WasmConfig) -> bool {
    config.fail_strategy() == FailStrategy::FailOpen
}

/// The code of a filter. One that protects refuses everything where it has none: `protects` says whether connections or
/// requests.
fn closed(code: Result<Code, Flaw>, protects: Option<bool>) -> (Result<Code, Flaw>, Option<Flaw>) {
    match (code, protects) {
        (Err(flaw), Some(network)) => (Ok(Code::Closed { network }), Some(flaw)),
        (code, _) => (code, None),
    }
}

/// What was read, and what is wrong with a filter that refuses everything because of that.
fn with_flaw<T: Kinded>(mut read: Read, object: &Object<T>, flaw: Option<Flaw>) -> Read {
    read.diagnostics.extend(flaw.map(|flaw| {
        finding::about(object, code::NO_EXTENSION, Severity::Error, flaw.message)
            .at(flaw.path)
            .help("it refuses what would pass it, as its phase is one of those that protect")
    }));
    read
}

/// Istio: pilot/pkg/config/kube/extensions/translate.go, 1.32.
fn of_plugin(object: &Object<WasmPlugin>) -> Read {
    let spec = &object.spec;
    let own = &object.meta.name;
    let config = WasmConfig {
        url: spec.url.clone(),
        sha256: spec.sha256.clone(),
        image_pull_policy: spec.image_pull_policy,
        image_pull_secret: spec.image_pull_secret.clone(),
        plugin_config: spec.plugin_config.clone(),
        plugin_name: spec.plugin_name.clone(),
        fail_strategy: spec.fail_strategy,
        vm_config: spec.vm_config.clone(),
        r#type: spec.r#type,
        ..WasmConfig::default()
    };
    let selectors = spec.r#match.iter().map(|m| TrafficSelector {
        mode: m.mode,
        ports: m.ports.clone(),
    });
    let single = spec
        .target_ref
        .iter()
        .filter(|_| spec.target_refs.is_empty());
    let name = ObjectName::new(own.namespace.clone(), format!("{}{OF_PLUGIN}", own.name));
    let protects = (!is_left_out(&config)).then(|| is_network(&config));
    let code = match object.meta.closed {
        Some(_) => Ok(Code::Closed {
            network: is_network(&config),
        }),
        None => wasm(own.namespace.as_ref(), config),
    };
    let phase = Phase::try_from(spec.phase).unwrap_or_default();
    let (code, flaw) = closed(code, protects.filter(|_| is_of_protection(phase)));
    let extension = code.map(|code| Extension {
        origin: Wanted::WasmPlugin(own.clone()),
        resource: resource(&name),
        name,
        created: object.meta.created,
        version: object.meta.resource_version.clone(),
        selector: spec.selector.clone(),
        target_refs: spec.target_refs.iter().chain(single).cloned().collect(),
        phase,
        priority: spec.priority,
        matches: selectors.collect(),
        code,
    });
    with_flaw(read(object, extension), object, flaw)
}

fn resource(name: &ObjectName) -> Arc<str> {
    format!("{PREFIX}{}.{}", name.namespace, name.name).into()
}

pub(super) fn wasm(namespace: &str, mut config: WasmConfig) -> Result<Code, Flaw> {
    if config.url.is_empty() {
        return Err(Flaw {
            path: "spec.url",
            message: "it does not say where the module is",
        });
    }
    if url::scheme(&config.url).is_none() {
        return Err(Flaw {
            path: "spec.url",
            message: "this is no URL; an image at an address needs oci:// before it",
        });
    }
    config.image_pull_secret = pull_secret(namespace, &config.image_pull_secret);
    Ok(Code::Wasm(Box::new(config)))
}

/// The Secret as agents know it: always one of the object's own namespace, whatever it says.
fn pull_secret(namespace: &str, stated: &str) -> String {
    if stated.is_empty() {
        return String::new();
    }
    let name = resource_name(stated);
    let named = name.strip_prefix("kubernetes://").and_then(|rest| {
        match rest.split('/').collect::<Vec<_>>()[..] {
            [name] | [_, name] if !name.is_empty() => Some(name.to_owned()),
            _ => None,
        }
    });
    named.map_or_else(String::new, |name| {
        format!("kubernetes://{namespace}/{name}")
    })
}

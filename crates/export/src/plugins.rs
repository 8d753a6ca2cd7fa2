//! Plugins of Higress as WasmPlugins of Istio's, for the gateways that serve Ingresses.
//!
//! Here they count for such gateways in whichever namespace. At istiod only those of the root namespace do, so that they are
//! served as of that one.

use std::sync::Arc;

use incr::{Cx, Query};
use mcp::{Resource, encode_spec, kinds};
use model::kinds::istio::WasmPlugin;
use model::kinds::{Kind, higress};
use model::object::{Object, ObjectName};
use model::template::Mark;
use policy::traffic_extension::{Code, Extension, ReadExtension, Wanted};
use proto_istio::extensions::{FailStrategy, PluginType};
use proto_istio::types::WorkloadSelector;
use store::{Reads, Snapshot};

use crate::item::{Item, created, filled};

/// What the name of a plugin ends in where one of Istio's has it.
const OF_HIGRESS: &str = ".higress";
/// A module that nobody can fetch.
const NO_MODULE: &str = "https://closed.invalid/";

/// The plugins of Higress that count.
pub(crate) fn of_higress(cx: &Cx<'_, Snapshot>) -> Vec<Arc<Item>> {
    let edge = &cx.settings().features.edge_namespace;
    let names = cx.names_in::<higress::WasmPlugin>(edge).into_iter();
    names
        .filter_map(|name| (*cx.query(&Plugin(name))).clone())
        .collect()
}

/// One of them, as it is served; `None` where it does nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Plugin(ObjectName);

impl Query<Snapshot> for Plugin {
    type Value = Option<Arc<Item>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let object = cx.get::<higress::WasmPlugin>(&self.0)?;
        let read = cx.query(&ReadExtension(Wanted::HigressPlugin(self.0.clone())));
        let spec = spec(cx, &object, read.extension.as_deref()?)?;
        let meta = &object.meta;
        let root = cx.settings().mesh.root_namespace.as_str();
        let name = ObjectName::new(root, self.0.name.clone());
        let is_taken = cx.get::<WasmPlugin>(&name).is_some();
        let end = if is_taken { OF_HIGRESS } else { "" };
        Some(Arc::new(Item::new(&Resource {
            namespace: root.to_owned(),
            name: format!("{}{end}", name.name),
            version: meta.resource_version.to_string(),
            created: created(meta.created),
            message: kinds::message(Kind::WasmPlugin)?.to_owned(),
            body: encode_spec(&spec, &|mark: &Mark| filled(cx, mark)),
            ..Resource::default()
        })))
    }
}

fn spec(
    cx: &Cx<'_, Snapshot>,
    object: &Object<higress::WasmPlugin>,
    extension: &Extension,
) -> Option<WasmPlugin> {
    let selector = cx.settings().features.edge_selector.as_str();
    let (key, value) = selector.split_once('=').unwrap_or((selector, ""));
    let labels = [(key.trim().to_owned(), value.trim().to_owned())];
    let common = WasmPlugin {
        selector: Some(WorkloadSelector {
            match_labels: labels.into(),
        }),
        phase: extension.phase.into(),
        priority: object.spec.priority,
        ..WasmPlugin::default()
    };
    match &extension.code {
        Code::Wasm(config) => Some(WasmPlugin {
            url: config.url.clone(),
            sha256: config.sha256.clone(),
            image_pull_policy: config.image_pull_policy,
            image_pull_secret: object.spec.image_pull_secret.to_string(),
            plugin_config: config.plugin_config.clone(),
            plugin_name: config.plugin_name.clone(),
            fail_strategy: config.fail_strategy,
            vm_config: config.vm_config.clone(),
            r#type: config.r#type,
            ..common
        }),
        Code::Closed { network } => Some(WasmPlugin {
            url: NO_MODULE.to_owned(),
            fail_strategy: FailStrategy::FailClose.into(),
            r#type: match network {
                true => PluginType::Network.into(),
                false => PluginType::Http.into(),
            },
            ..common
        }),
        // Higress has no plugins of that form.
        Code::Lua(_) => None,
    }
}

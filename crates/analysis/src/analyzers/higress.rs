//! What Higress's kinds refer to.

use incr::Cx;
use model::kinds::higress::{McpBridge, WasmPlugin};
use model::kinds::kube::Secret;
use model::{Object, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::finding::Report;

pub(crate) fn mcp_bridge(
    cx: &Cx<'_, Snapshot>,
    bridge: &Object<McpBridge>,
    report: &mut Report<'_>,
) {
    for (i, registry) in bridge.spec.registries.iter().enumerate() {
        let secret = &registry.auth_secret_name;
        let name = ObjectName::new(bridge.namespace().clone(), secret.clone());
        if !secret.is_empty() && cx.get::<Secret>(&name).is_none() {
            report
                .add(
                    bridge,
                    &code::SECRET_NOT_FOUND,
                    format!("spec.registries[{i}].authSecretName"),
                    format!("there is no Secret {name}"),
                )
                .help("the registry is not asked until the Secret with its credentials exists");
        }
    }
}

pub(crate) fn wasm_plugin(
    cx: &Cx<'_, Snapshot>,
    plugin: &Object<WasmPlugin>,
    report: &mut Report<'_>,
) {
    let secret = &plugin.spec.image_pull_secret;
    let name = ObjectName::new(plugin.namespace().clone(), secret.clone());
    if !secret.is_empty() && cx.get::<Secret>(&name).is_none() {
        report
            .add(
                plugin,
                &code::SECRET_NOT_FOUND,
                "spec.imagePullSecret",
                format!("there is no Secret {name}"),
            )
            .help("the image is fetched without credentials until the Secret exists");
    }
}

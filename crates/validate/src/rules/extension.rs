//! WasmPlugin and TrafficExtension.

use std::collections::BTreeSet;

use proto_istio::extensions::traffic_extension::FilterConfig;
use proto_istio::extensions::{EnvValueSource, TrafficExtension, VmConfig, WasmPlugin};
use proto_istio::types::PortSelector;

use super::selector;
use crate::report::{At, Report};
use crate::text::{Check, plugin_url, port};

/// Characters that a name may have.
const LONGEST_NAME: usize = 256;
const LONGEST_SECRET: usize = 253;
/// Bytes of a script.
const LARGEST_SCRIPT: usize = 64 << 10;

pub(super) fn wasm_plugin(plugin: &WasmPlugin, at: &At<'_>, report: &mut Report) {
    selector::policy(
        plugin.selector.as_ref(),
        plugin.target_ref.as_ref(),
        &plugin.target_refs,
        at,
        report,
    );
    let module = Module {
        url: &plugin.url,
        sha256: &plugin.sha256,
        secret: &plugin.image_pull_secret,
        name: &plugin.plugin_name,
        vm: plugin.vm_config.as_ref(),
    };
    module.check(at, report);
    let ports = plugin.r#match.iter().map(|m| m.ports.as_slice());
    match_ports(ports, &at.field("match"), report);
}

pub(super) fn traffic_extension(extension: &TrafficExtension, at: &At<'_>, report: &mut Report) {
    let targets = &extension.target_refs;
    selector::policy(extension.selector.as_ref(), None, targets, at, report);
    match &extension.filter_config {
        None => report.error(at, "one of `wasm` and `lua` is needed"),
        Some(FilterConfig::Lua(lua)) => {
            let (at, size) = (at.field("lua"), lua.inline_code.len());
            let at = at.field("inlineCode");
            if size == 0 {
                report.error(&at, "a script is needed");
            } else if size > LARGEST_SCRIPT {
                report.error(&at, format!("{size} bytes, more than {LARGEST_SCRIPT}"));
            }
        }
        Some(FilterConfig::Wasm(wasm)) => {
            let module = Module {
                url: &wasm.url,
                sha256: &wasm.sha256,
                secret: &wasm.image_pull_secret,
                name: &wasm.plugin_name,
                vm: wasm.vm_config.as_ref(),
            };
            module.check(&at.field("wasm"), report);
        }
    }
    let ports = extension.r#match.iter().map(|m| m.ports.as_slice());
    match_ports(ports, &at.field("match"), report);
}

/// A module and how it is run, as both kinds have it.
struct Module<'a> {
    url: &'a str,
    sha256: &'a str,
    secret: &'a str,
    name: &'a str,
    vm: Option<&'a VmConfig>,
}

impl Module<'_> {
    fn check(&self, at: &At<'_>, report: &mut Report) {
        report.check(&at.field("url"), plugin_url(self.url));
        report.check(&at.field("sha256"), checksum(self.sha256));
        if self.secret.len() > LONGEST_SECRET {
            let message = format!("more than {LONGEST_SECRET} characters");
            report.error(&at.field("imagePullSecret"), message);
        }
        if self.name.len() > LONGEST_NAME {
            let message = format!("more than {LONGEST_NAME} characters");
            report.error(&at.field("pluginName"), message);
        }
        if let Some(vm) = self.vm {
            environment(vm, &at.field("vmConfig").field("env"), report);
        }
    }
}

pub(super) fn checksum(text: &str) -> Check {
    let good = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if text.is_empty() || (text.len() == 64 && text.bytes().all(good)) {
        return Ok(());
    }
    Err("expected 64 digits and letters from a to f".to_owned())
}

fn environment(vm: &VmConfig, at: &At<'_>, report: &mut Report) {
    let mut names = BTreeSet::new();
    for (at, variable) in at.each(&vm.env) {
        let name = &variable.name;
        let fault = match name.len() {
            0 => Some("a variable needs a name"),
            1..=LONGEST_NAME if !names.insert(name) => Some("the variable is there twice"),
            1..=LONGEST_NAME => None,
            _ => Some("the name has more than 256 characters"),
        };
        if let Some(fault) = fault {
            report.error(&at.field("name"), fault);
        }
        if variable.value_from() != EnvValueSource::Inline && !variable.value.is_empty() {
            let message = "has no meaning where `valueFrom` is HOST";
            report.error(&at.field("value"), message);
        }
    }
}

fn match_ports<'a>(
    selectors: impl Iterator<Item = &'a [PortSelector]>,
    at: &At<'_>,
    report: &mut Report,
) {
    for (index, ports) in selectors.enumerate() {
        let at = at.item(index);
        for (at, one) in at.field("ports").each(ports) {
            report.check(&at.field("number"), port(one.number.into()));
        }
    }
}

//! Higress's kinds.
// Higress: registry/reconcile/reconcile.go, registry/direct/watcher.go, pkg/ingress/config/ingress_config.go, 2.1.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::Meta;
use model::kinds::higress::{
    BRIDGE, Http2Rpc, McpBridge, REGISTRIES, Registry, RegistryProxy, VariableSource, WasmPlugin,
};
use model::parse::nearest;

use super::extension::checksum;
use crate::report::{At, Report};
use crate::text::{fqdn, plugin_url, port, split_host_port};

const PROTOCOLS: [&str; 9] = [
    "http", "https", "http2", "grpc", "grpcs", "triple", "tri", "dubbo", "tcp",
];
/// In nanoseconds.
const SHORTEST_REFRESH: i64 = 10_000_000_000;

fn expected(report: &mut Report, at: &At<'_>, text: &str, known: &[&str]) {
    let message = format!("expected one of {}, found {text:?}", known.join(", "));
    report.error(at, message);
    if let Some(near) = nearest(text, known.iter().copied()) {
        report.help(format!("did you mean `{near}`?"));
    }
}

pub(super) fn mcp_bridge(bridge: &McpBridge, meta: &Meta, at: &At<'_>, report: &mut Report) {
    if meta.name.name.as_str() != BRIDGE {
        let top = At::TOP;
        let message = format!(
            "an McpBridge that is not named {BRIDGE:?} is read where --mcp-bridge names it"
        );
        report.warning(&top.field("metadata").field("name"), message);
    }
    let proxies: BTreeSet<&str> = bridge.proxies.iter().map(|p| &*p.name).collect();
    let mut seen = BTreeSet::new();
    for (at, one) in at.field("registries").each(&bridge.registries) {
        registry(one, &proxies, &at, report);
        if !seen.insert((&one.registry_type, &one.name)) {
            let message = "another registry has this type and name, and only the last counts";
            report.error(&at.field("name"), message);
        }
    }
    let mut seen = BTreeSet::new();
    for (at, one) in at.field("proxies").each(&bridge.proxies) {
        proxy(one, &at, report);
        if !seen.insert(&one.name) {
            report.error(&at.field("name"), "another proxy has this name");
        }
    }
}

fn registry(registry: &Registry, proxies: &BTreeSet<&str>, at: &At<'_>, report: &mut Report) {
    let ty = &*registry.registry_type;
    if !ty.is_empty() && !REGISTRIES.contains(&ty) {
        return expected(report, &at.field("type"), ty, &REGISTRIES);
    }
    if registry.name.is_empty() {
        report.error(&at.field("name"), "must not be empty");
    }
    let at_domain = at.field("domain");
    match ty {
        _ if registry.domain.is_empty() => {
            // The address of a Nacos may be asked of another server.
            if registry.nacos_address_server.is_empty() {
                report.error(&at_domain, "must not be empty");
            }
        }
        "static" => {
            for address in registry.domain.split(',') {
                report.check(&at_domain, static_address(address));
            }
        }
        "dns" => {
            for host in registry.domain.split(',') {
                report.check(&at_domain, fqdn(host));
            }
        }
        _ => {}
    }
    // Addresses of a static service have their own ports.
    if !matches!(ty, "static" | "") && registry.port == 0 {
        report.error(&at.field("port"), "a port is needed");
    }
    let protocol = registry.protocol.to_ascii_lowercase();
    if !protocol.is_empty() && !PROTOCOLS.contains(&&*protocol) {
        expected(
            report,
            &at.field("protocol"),
            &registry.protocol,
            &PROTOCOLS,
        );
    }
    if matches!(ty, "static" | "dns") && registry.sni.is_empty() && protocol == "https" {
        let several = ty == "static" || registry.domain.contains(',');
        if several {
            let message = "is not set: the services are not told which host is meant";
            report.warning(&at.field("sni"), message);
        }
    }
    let refresh = registry.nacos_refresh_interval;
    if refresh != 0 && refresh < SHORTEST_REFRESH {
        let message = format!("{refresh} nanoseconds are less than 10s, which are used instead");
        report.warning(&at.field("nacosRefreshInterval"), message);
    }
    if !registry.proxy_name.is_empty() && !proxies.contains(&*registry.proxy_name) {
        let message = format!("there is no proxy {:?} in `proxies`", registry.proxy_name);
        report.error(&at.field("proxyName"), message);
        if let Some(near) = nearest(&registry.proxy_name, proxies.iter().copied()) {
            report.help(format!("did you mean `{near}`?"));
        }
    }
}

/// `IP:PORT`, an IPv6 address in brackets.
fn static_address(text: &str) -> Result<(), String> {
    let wrong = || format!("{text:?} is not IP:PORT");
    let (host, number) = split_host_port(text).ok_or_else(wrong)?;
    host.parse::<IpAddr>().map_err(|_| wrong())?;
    port(number.parse().map_err(|_| wrong())?)
}

fn proxy(proxy: &RegistryProxy, at: &At<'_>, report: &mut Report) {
    if !proxy.proxy_type.is_empty() && !proxy.proxy_type.eq_ignore_ascii_case("http") {
        expected(report, &at.field("type"), &proxy.proxy_type, &["HTTP"]);
    }
    if proxy.name.is_empty() {
        report.error(&at.field("name"), "must not be empty");
    }
    if proxy.server_address.is_empty() {
        report.error(&at.field("serverAddress"), "must not be empty");
    }
}

pub(super) fn http2rpc(spec: &Http2Rpc, at: &At<'_>, report: &mut Report) {
    if spec.dubbo.is_none() && spec.grpc.is_none() {
        report.error(at, "one of `dubbo` and `grpc` is needed");
    }
    if spec.grpc.is_some() {
        let message = "has no settings, so that nothing comes of it";
        report.warning(&at.field("grpc"), message);
    }
    let Some(dubbo) = &spec.dubbo else { return };
    let at = at.field("dubbo");
    if dubbo.service.is_empty() {
        report.error(&at.field("service"), "must not be empty");
    }
    for (at, method) in at.field("methods").each(&dubbo.methods) {
        if method.service_method.is_empty() {
            report.error(&at.field("serviceMethod"), "must not be empty");
        }
        if !method.http_path.starts_with('/') {
            let message = format!("{:?} does not start with a slash", method.http_path);
            report.error(&at.field("httpPath"), message);
        }
        if method.http_methods.len() > 1 {
            let message = "has no effect: only the first method counts";
            report.warning(&at.field("httpMethods").item(1), message);
        }
        for (at, param) in at.field("params").each(&method.params) {
            let key = format!("{{{}}}", param.param_key);
            if &*param.param_source == "PATH" && !method.http_path.contains(&key) {
                let message = format!("`httpPath` has no {key}");
                report.error(&at.field("paramKey"), message);
            }
        }
    }
}

pub(super) fn wasm_plugin(plugin: &WasmPlugin, at: &At<'_>, report: &mut Report) {
    report.check(&at.field("url"), plugin_url(&plugin.url));
    report.check(&at.field("sha256"), checksum(&plugin.sha256));
    let rules = at.field("matchRules");
    if plugin.plugin_config.is_some() {
        let beside = [
            ("defaultConfig", plugin.default_config.is_some()),
            ("matchRules", !plugin.match_rules.is_empty()),
        ];
        for (field, _) in beside.into_iter().filter(|(_, set)| *set) {
            let message = "has no effect where `pluginConfig` is set";
            report.warning(&at.field(field), message);
        }
    }
    for (at, rule) in rules.each(&plugin.match_rules) {
        let off = rule.config_disable == Some(true);
        if !off && rule.ingress.is_empty() && rule.domain.is_empty() && rule.service.is_empty() {
            let message = "one of `ingress`, `domain` and `service` is needed";
            report.error(&at, message);
        }
    }
    let on = |rule: &&model::kinds::higress::MatchRule| rule.config_disable != Some(true);
    if plugin.plugin_config.is_none()
        && plugin.default_config_disable == Some(true)
        && plugin.match_rules.iter().filter(on).count() == 0
    {
        let message = "the plugin runs for no request: no rule is on, and neither is the default";
        report.warning(&at.field("defaultConfigDisable"), message);
    }
    let Some(vm) = &plugin.vm_config else { return };
    let mut names = BTreeSet::new();
    for (at, variable) in at.field("vmConfig").field("env").each(&vm.env) {
        if variable.name.is_empty() {
            report.error(&at.field("name"), "a variable needs a name");
        } else if !names.insert(&variable.name) {
            report.error(&at.field("name"), "the variable is there twice");
        }
        if variable.value_from == VariableSource::Host && !variable.value.is_empty() {
            let message = "has no meaning where `valueFrom` is HOST";
            report.error(&at.field("value"), message);
        }
    }
}

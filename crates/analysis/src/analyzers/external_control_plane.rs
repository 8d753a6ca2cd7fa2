//! Webhooks that call a control plane outside of the cluster.
//!
//! Istio: pkg/config/analysis/analyzers/externalcontrolplane/externalcontrolplane.go, 1.32.

use std::net::IpAddr;

use incr::Cx;
use model::Object;
use model::kinds::Kinded;
use model::kinds::kube::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration, Webhook};
use store::Snapshot;

use crate::code;
use crate::finding::Report;

pub(crate) fn validating(
    _: &Cx<'_, Snapshot>,
    object: &Object<ValidatingWebhookConfiguration>,
    report: &mut Report<'_>,
) {
    let name = object.meta.name.name.as_str();
    if name == "istiod-default-validator" || name.starts_with("istio-validator") {
        urls(object, &object.spec.webhooks, report);
    }
}

pub(crate) fn mutating(
    _: &Cx<'_, Snapshot>,
    object: &Object<MutatingWebhookConfiguration>,
    report: &mut Report<'_>,
) {
    if object.meta.name.name.starts_with("istio-sidecar-injector") {
        urls(object, &object.spec.webhooks, report);
    }
}

fn urls<T: Kinded>(object: &Object<T>, webhooks: &[Webhook], report: &mut Report<'_>) {
    for (i, webhook) in webhooks.iter().enumerate() {
        let name = &webhook.name;
        let path = format!("webhooks[{i}].clientConfig");
        let client = &webhook.client_config;
        let Some(url) = &client.url else {
            if client.service.is_none() {
                report
                    .add(
                        object,
                        &code::INVALID_CONTROL_PLANE_URL,
                        path,
                        format!("the webhook {name} names neither a URL nor a Service to call"),
                    )
                    .help("set clientConfig.url to the address of the control plane");
            }
            continue;
        };
        match host_of(url) {
            None => {
                report
                    .add(
                        object,
                        &code::INVALID_CONTROL_PLANE_URL,
                        format!("{path}.url"),
                        format!("the webhook {name} calls {url:?}, which is no URL"),
                    )
                    .help("write it as https://host:15017/inject");
            }
            Some(host) if host.parse::<IpAddr>().is_ok() => {
                report
                    .add(
                        object,
                        &code::CONTROL_PLANE_IS_IP,
                        format!("{path}.url"),
                        format!("the webhook {name} calls the control plane at the IP address {host}"),
                    )
                    .help("use a host name, which may move to another address and can stand in a certificate");
            }
            Some(_) => {}
        }
    }
}

/// The host of a URL, without brackets and port; `None` where the text is no URL.
fn host_of(url: &str) -> Option<&str> {
    if url.contains(|c: char| c.is_control() || c == ' ') {
        return None;
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => {
            let mut chars = scheme.chars();
            let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
            let valid = first && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            valid.then_some(rest)?
        }
        None if url.starts_with(':') => return None,
        None => return Some(""),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if let Some(inner) = host.strip_prefix('[') {
        return inner.split_once(']').map(|(ip, _)| ip);
    }
    match host.split_once(':') {
        Some((host, port)) => port.bytes().all(|b| b.is_ascii_digit()).then_some(host),
        None => Some(host),
    }
}

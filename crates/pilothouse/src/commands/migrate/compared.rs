//! Requests, and where nginx's rules and ours send them.

use std::io::{BufWriter, Write};
use std::sync::Arc;

use incr::Engine;
use mesh::view::ProxyKey;
use migrate::compare::{self, Comparison, LogFormat};
use migrate::{World, show};
use model::Kind;
use simulate::Resources;
use xds::TypeUrl;
use xlate::ViewOf;
use xlate::secrets::Held;

use super::NginxOptions;
use crate::commands::input::file;
use crate::out::out;

/// Compares and prints; says whether anything fares differently.
///
/// # Errors
///
/// When the requests cannot be read.
pub(super) fn print(options: &NginxOptions, world: &World) -> anyhow::Result<bool> {
    let (requests, unreadable) = match (&options.requests, &options.access_log) {
        (Some(path), _) => (compare::of_list(&file(path)?)?, 0),
        (None, Some(path)) => {
            let format = LogFormat {
                host: options.log_host.clone(),
                tls: !options.log_http,
            };
            compare::of_access_log(&file(path)?, &format)
        }
        (None, None) => (Vec::new(), 0),
    };
    let compared = Comparison {
        unreadable,
        ..compare::compare(world, &resources(world)?, requests)
    };
    let mut out = BufWriter::new(out());
    show::write_comparison(&mut out, &compared, options.output.form())?;
    out.flush()?;
    Ok(compared.different > 0)
}

/// What a gateway gets that serves the Ingresses, and has the certificates that are there.
fn resources(world: &World) -> anyhow::Result<Resources> {
    let mut resources = resources_of(world, None)?;
    if world.assumed.contains(&Kind::Secret) {
        return Ok(resources);
    }
    let engine = Engine::new();
    let namespace = &world.snapshot.settings.features.edge_namespace;
    let held = resources.asked_secrets().into_iter().filter(|name| {
        let held = Held {
            name: Arc::from(&**name),
            namespace: namespace.clone(),
        };
        *engine.get(&*world.snapshot, &held)
    });
    let held = held.collect();
    resources.set_secrets(held);
    Ok(resources)
}

/// What a gateway gets: one that serves the Ingresses, or one that runs for a Gateway of that name.
pub(super) fn resources_of(world: &World, gateway: Option<&str>) -> anyhow::Result<Resources> {
    let features = &world.snapshot.settings.features;
    let namespace = features.edge_namespace.to_string();
    let selector = features.edge_selector.to_string();
    let labels = selector.split_once('=');
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut metadata = vec![("NAMESPACE".to_owned(), namespace.clone())];
    metadata.extend(gateway.map(|name| ("PILOTHOUSE_GATEWAY".to_owned(), name.to_owned())));
    let node = client::NodeOptions {
        mesh: None,
        namespaces: vec![namespace.clone()],
        labels: labels.into_iter().collect(),
        metadata,
        node: None,
        id: format!("router~127.0.0.1~gateway.{namespace}~{namespace}.svc.cluster.local"),
    };
    let mut node = mesh::node::from_envoy(&node.envoy()?).map_err(anyhow::Error::msg)?;
    // Routes with passwords are open to gateways that prove who they are.
    node.identity = Some(model::node::Identity {
        namespace: node.namespace.clone(),
        service_account: "gateway".into(),
    });
    let engine = Engine::new();
    let viewed = engine.get(&*world.snapshot, &ViewOf(ProxyKey::new(Arc::new(node))));
    let mut resources = Resources::default();
    for ty in [
        TypeUrl::Listener,
        TypeUrl::Route,
        TypeUrl::Cluster,
        TypeUrl::Endpoint,
    ] {
        let set = engine.get(&*world.snapshot, &viewed.view.set(ty));
        for resource in set.iter() {
            resources.add(ty.as_str(), &resource.body)?;
        }
    }
    Ok(resources)
}

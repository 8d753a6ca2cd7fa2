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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use migrate::Wanted;
    use model::parse::Validation;

    use super::*;

    const INGRESSES: &str = "
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: pass, namespace: shop}, spec: {ports: [{name: https, port: 443}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: shop}, stringData: {a: b}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec:
  ingressClassName: nginx
  tls: [{hosts: [a.com], secretName: gone}]
  rules:
  - host: a.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: plain, namespace: shop}
spec:
  ingressClassName: nginx
  rules:
  - host: b.com
    http:
      paths:
      - {path: /none, pathType: Prefix, backend: {service: {name: none, port: {number: 80}}}}
      - {path: /port, pathType: Prefix, backend: {service: {name: web, port: {number: 81}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api, namespace: shop}
spec:
  ingressClassName: nginx
  tls: [{hosts: [c.com], secretName: gone}]
  rules:
  - host: c.com
    http: {paths: [{path: /api, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: pass, namespace: shop, annotations: {nginx.ingress.kubernetes.io/ssl-passthrough: 'true'}}
spec:
  ingressClassName: nginx
  rules:
  - host: c.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: pass, port: {number: 443}}}}]}
";

    #[test]
    fn what_is_not_there_is_told_of_nginx_and_of_what_is_served_here() {
        let parsed = validate::parse(INGRESSES, &Path::new("in.yaml").into(), Validation::Warn);
        let world = World::load(parsed.objects().cloned().collect(), &Wanted::default());
        let resources = resources(&world).unwrap();
        let closed = "no connection: the proxy lacks the certificate or the roots that it needs: it closes the connection";
        let [first, second] = ["308 to https://c.com/api/x", "308 to https://c.com/x"];
        for (request, nginx, here) in [
            (
                "GET http://a.com/",
                "308 to https://a.com/",
                "308 to https://a.com/",
            ),
            ("GET https://a.com/", "shop/web:80", closed),
            ("GET http://b.com/none", "503", "503"),
            ("GET http://b.com/port", "503", "503"),
            ("GET http://c.com/api/x", first, first),
            ("GET http://c.com/x", second, second),
            ("GET https://c.com/api/x", "shop/pass:443", "shop/pass:443"),
        ] {
            let requests = compare::of_list(request).unwrap();
            let row = &compare::compare(&world, &resources, requests).rows[0];
            let [there, ours] = [&row.nginx, &row.here].map(|chosen| chosen.choice.to_string());
            assert_eq!((&*there, &*ours), (nginx, here), "{request}");
            assert_eq!(row.same, nginx == here, "{request}");
        }
    }
}

//! Rules of a route, as clients and backends see them.

use std::time::{Duration, Instant};

use demo::check::nothing_refused;
use demo::shop::WORKLOADS;
use hyper::StatusCode;

use crate::backend::{Backend, prompt};
use crate::dumps::assert_has_what_was_sent;
use crate::rig::Rig;

/// The way in and two services, each with one endpoint without a proxy.
pub(crate) const SERVICES: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 18080, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: [shop.example.com]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: blue, namespace: shop}
spec:
  hosts: [blue.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.20.10}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: green, namespace: shop}
spec:
  hosts: [green.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.20.20}]
";

/// A VirtualService with these HTTP routes for the gateway.
pub(crate) fn routes(http: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: shop, namespace: shop}}\n\
         spec:\n  hosts: [shop.example.com]\n  gateways: [shop]\n  http:\n{http}"
    )
}

/// All traffic to one service.
pub(crate) fn all_to(host: &str) -> String {
    routes(&format!(
        "  - route: [{{destination: {{host: {host}, port: {{number: 9080}}}}}}]\n"
    ))
}

pub(crate) async fn a_request_that_takes_too_long_is_answered_for(rig: Rig) {
    let slow = |_: &str, _: usize| (Duration::from_secs(5), StatusCode::OK);
    let backend = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", slow).await;
    rig.write("services.yaml", SERVICES);
    rig.write(
        "routes.yaml",
        &routes(
            "  - timeout: 0.4s\n    route: [{destination: {host: blue, port: {number: 9080}}}]\n",
        ),
    );
    let mesh = rig.gateway().await;
    let start = Instant::now();
    let reply = rig.get("/").await;
    let took = start.elapsed();
    assert_eq!(reply.status, 504, "{}", reply.text());
    assert!(
        took >= Duration::from_millis(390) && took < Duration::from_secs(3),
        "{took:?}"
    );
    assert_eq!(backend.seen(), ["/"]);
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn a_failure_is_tried_again_as_often_as_the_route_says(rig: Rig) {
    let flaky = |path: &str, before: usize| {
        let fails = path == "/always" || before < 2;
        (
            Duration::ZERO,
            if fails {
                StatusCode::BAD_GATEWAY
            } else {
                StatusCode::OK
            },
        )
    };
    let backend = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", flaky).await;
    rig.write("services.yaml", SERVICES);
    rig.write(
        "routes.yaml",
        &routes(
            "  - retries: {attempts: 3, retryOn: 5xx}\n    \
             route: [{destination: {host: blue, port: {number: 9080}}}]\n",
        ),
    );
    let mesh = rig.gateway().await;
    assert_eq!(rig.get("/first").await.status, 200);
    assert_eq!(
        backend.seen(),
        ["/first", "/first", "/first"],
        "two failures, then an answer"
    );
    assert_eq!(rig.get("/always").await.status, 502);
    assert_eq!(backend.seen().len(), 3 + 4, "one request and three more");
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn a_matching_header_and_a_rewritten_path_reach_the_backend(rig: Rig) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write(
        "routes.yaml",
        &routes(
            "  - match: [{headers: {end-user: {exact: jason}}, uri: {prefix: /old/}}]\n    \
             rewrite: {uri: /new/}\n    \
             route: [{destination: {host: green, port: {number: 9080}}}]\n  \
             - match: [{uri: {regex: '/items/[0-9]+'}}]\n    \
             rewrite: {uriRegexRewrite: {match: '/items/([0-9]+)', rewrite: '/goods/\\1'}}\n    \
             route: [{destination: {host: blue, port: {number: 9080}}}]\n  \
             - match: [{uri: {exact: /gone}}]\n    \
             directResponse: {status: 410, body: {string: gone for good}}\n  \
             - match: [{uri: {exact: /moved}}]\n    \
             redirect: {uri: /here, redirectCode: 308}\n",
        ),
    );
    let mesh = rig.gateway().await;
    assert_eq!(
        rig.get_with("/old/a", &[("end-user", "jason")])
            .await
            .text(),
        "green"
    );
    assert_eq!(green.seen(), ["/new/a"]);
    assert_eq!(rig.get("/items/42").await.text(), "blue");
    assert_eq!(blue.seen(), ["/goods/42"]);
    assert_eq!(rig.get("/old/a").await.status, 404, "the header is missing");
    let gone = rig.get("/gone").await;
    assert_eq!((gone.status, gone.text().as_str()), (410, "gone for good"));
    let moved = rig.get("/moved").await;
    assert_eq!(moved.status, 308);
    assert!(
        moved.headers["location"]
            .to_str()
            .unwrap()
            .ends_with("/here"),
        "{:?}",
        moved.headers
    );
    nothing_refused(&mesh).await.unwrap();
    assert_has_what_was_sent(&mesh, &mesh.proxies()[0]).await;
    mesh.stop().await;
}

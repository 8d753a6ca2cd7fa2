//! How requests are spread: by weight, by session, over localities, away from what fails.

use std::time::{Duration, Instant};

use demo::check::nothing_refused;
use demo::shop::WORKLOADS;
use hyper::StatusCode;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, routes};

/// Five standard deviations: a share is outside once in a million runs.
fn assert_share(count: usize, of: usize, share: f64) {
    let (expected, of) = (of as f64 * share, of as f64);
    let bound = 5.0 * (of * share * (1.0 - share)).sqrt();
    let off = (count as f64 - expected).abs();
    assert!(
        off <= bound,
        "{count} of {of}, expected {expected} ± {bound}"
    );
}

pub(crate) async fn weights_mirrors_and_faults_concern_their_share_of_requests(rig: Rig) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write(
        "routes.yaml",
        &routes(
            "  - match: [{uri: {prefix: /canary}}]
    route:
    - {destination: {host: blue, port: {number: 9080}}, weight: 80}
    - {destination: {host: green, port: {number: 9080}}, weight: 20}
  - match: [{uri: {prefix: /mirrored}}]
    route: [{destination: {host: blue, port: {number: 9080}}}]
    mirrors: [{destination: {host: green, port: {number: 9080}}, percentage: {value: 100}}]
  - match: [{uri: {prefix: /half}}]
    fault: {abort: {httpStatus: 418, percentage: {value: 50}}}
    route: [{destination: {host: blue, port: {number: 9080}}}]
  - match: [{uri: {prefix: /slow}}]
    fault: {delay: {fixedDelay: 0.3s, percentage: {value: 100}}}
    route: [{destination: {host: blue, port: {number: 9080}}}]
",
        ),
    );
    let mesh = rig.gateway().await;
    let mut client = rig.client();
    for _ in 0..400 {
        assert_eq!(client.get("/canary").await.unwrap().status, 200);
    }
    assert_eq!(blue.count() + green.count(), 400);
    assert_share(green.count(), 400, 0.2);

    assert_eq!(client.get("/mirrored").await.unwrap().text(), "blue");
    let mirrored = || green.seen().iter().any(|path| path == "/mirrored");
    until("the mirror is asked", async || mirrored()).await;

    let mut aborted = 0;
    for _ in 0..100 {
        aborted += usize::from(client.get("/half").await.unwrap().status == 418);
    }
    assert_share(aborted, 100, 0.5);

    let start = Instant::now();
    assert_eq!(client.get("/slow").await.unwrap().status, 200);
    assert!(start.elapsed() >= Duration::from_millis(290));
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

/// One service with two endpoints, each in a region of its own, and a rule for it.
fn service(rule: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: shop, namespace: shop}}
spec:
  selector: {{istio: ingressgateway}}
  servers:
  - {{port: {{number: 18080, name: http, protocol: HTTP}}, bind: 127.0.0.1, hosts: [shop.example.com]}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: goods, namespace: shop}}
spec:
  hosts: [goods.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 9080, name: http, protocol: HTTP}}]
  endpoints:
  - {{address: 127.0.20.10, locality: here/one}}
  - {{address: 127.0.20.20, locality: there/one}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: goods, namespace: shop}}
spec:
  host: goods
  trafficPolicy:
    tls: {{mode: DISABLE}}
{rule}"
    )
}

async fn both(rig: &Rig) -> [Backend; 2] {
    rig.write(
        "routes.yaml",
        &routes("  - route: [{destination: {host: goods, port: {number: 9080}}}]\n"),
    );
    [
        Backend::start(rig.block.proxy(&WORKLOADS[0]), "near", prompt).await,
        Backend::start(rig.block.proxy(&WORKLOADS[1]), "far", prompt).await,
    ]
}

pub(crate) async fn a_session_stays_with_its_endpoint(rig: Rig) {
    let _backends = both(&rig).await;
    rig.write(
        "services.yaml",
        &service("    loadBalancer: {consistentHash: {httpHeaderName: x-user}}\n"),
    );
    let mesh = rig.gateway().await;
    let mut first = Vec::new();
    for user in 0..40 {
        let user = format!("user-{user}");
        let reply = rig.get_with("/", &[("x-user", &user)]).await;
        first.push((user, reply.text()));
    }
    for (user, endpoint) in &first {
        let again = rig.get_with("/", &[("x-user", user)]).await.text();
        assert_eq!(&again, endpoint, "{user} moved");
    }
    // The hash of a name is the same on every machine: both are chosen by some.
    for endpoint in ["near", "far"] {
        assert!(
            first.iter().any(|(_, e)| e == endpoint),
            "nobody at {endpoint}"
        );
    }

    rig.write(
        "services.yaml",
        &service("    loadBalancer: {consistentHash: {httpCookie: {name: session, ttl: 60s}}}\n"),
    );
    let has_cookie = async || rig.get("/").await.headers.contains_key("set-cookie");
    until("the gateway gives out cookies", has_cookie).await;
    let reply = rig.get("/").await;
    let cookie = reply.headers["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    assert!(cookie.starts_with("session="), "{cookie}");
    for _ in 0..10 {
        let again = rig.get_with("/", &[("cookie", cookie)]).await;
        assert_eq!(again.text(), reply.text());
    }
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn a_locality_that_dies_is_replaced_by_another(rig: Rig) {
    let [near, far] = both(&rig).await;
    rig.write(
        "services.yaml",
        &service(
            "    loadBalancer: {localityLbSetting: {enabled: true, failover: [{from: here, to: there}]}}
    outlierDetection: {consecutive5xxErrors: 1, interval: 0.1s, baseEjectionTime: 600s, maxEjectionPercent: 100}
",
        ),
    );
    let mut mesh = rig.mesh().await;
    mesh.start_gateway_with(&["--locality", "here/one"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    for _ in 0..20 {
        assert_eq!(rig.get("/").await.text(), "near");
    }
    assert_eq!(far.count(), 0, "the nearer one is alive");
    near.stop();
    until("the other locality takes over", async || {
        rig.get("/").await.text() == "far"
    })
    .await;
    for _ in 0..20 {
        assert_eq!(rig.get("/").await.text(), "far");
    }
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn an_endpoint_that_fails_is_left_out(rig: Rig) {
    rig.write(
        "routes.yaml",
        &routes(
            "  - retries: {attempts: 0}\n    route: [{destination: {host: goods, port: {number: 9080}}}]\n",
        ),
    );
    let fails = |_: &str, _: usize| (Duration::ZERO, StatusCode::INTERNAL_SERVER_ERROR);
    let good = Backend::start(rig.block.proxy(&WORKLOADS[0]), "good", prompt).await;
    let bad = Backend::start(rig.block.proxy(&WORKLOADS[1]), "bad", fails).await;
    rig.write(
        "services.yaml",
        &service(
            "    loadBalancer: {simple: ROUND_ROBIN, localityLbSetting: {enabled: false}}
    outlierDetection: {consecutive5xxErrors: 2, interval: 0.1s, baseEjectionTime: 600s, maxEjectionPercent: 50}
",
        ),
    );
    let mesh = rig.gateway().await;
    until("the failing endpoint is asked", async || {
        rig.get("/").await;
        bad.count() >= 2
    })
    .await;
    until("it is left out", async || {
        let before = bad.count();
        for _ in 0..10 {
            rig.get("/").await;
        }
        bad.count() == before
    })
    .await;
    let (before, served) = (bad.count(), good.count());
    for _ in 0..20 {
        assert_eq!(rig.get("/").await.status, 200);
    }
    assert_eq!((bad.count(), good.count()), (before, served + 20));
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

//! Kinds that come, change their versions, are forbidden and go.

use std::time::{Duration, Instant};

use model::{Change, Kind};
use pilothouse_kubernetes::source::{Options, code};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::mirror::Mirror;

const GROUP: &str = "networking.istio.io";
const V1: &str = "/apis/networking.istio.io/v1/sidecars";
const BETA: &str = "/apis/networking.istio.io/v1beta1/sidecars";
const PODS: &str = "/api/v1/pods";

fn sidecar(name: &str) -> Value {
    json!({"kind": "Sidecar", "metadata": {"name": name, "namespace": "ns"}, "spec": {}})
}

fn has(mirror: &Mirror, name: &str) -> bool {
    mirror.get(Kind::Sidecar, "ns", name).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_comes_changes_its_version_and_goes() {
    let fake = Fake::new();
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror.synced().await;
    assert_eq!(mirror.findings, []);

    // Defined a moment before it is served, as an API server does.
    let start = Instant::now();
    fake.define("sidecars", GROUP, &["v1"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    fake.serve(V1);
    fake.put(V1, sidecar("a"));
    mirror.until("a kind that comes", |m| has(m, "a")).await;
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );

    let told = mirror.told.len();
    fake.serve(BETA);
    fake.put(BETA, sidecar("a"));
    fake.put(BETA, sidecar("b"));
    fake.define("sidecars", GROUP, &["v1beta1"]);
    fake.withdraw(V1);
    mirror.until("another version", |m| has(m, "b")).await;
    let gone = |c: &Change| matches!(c, Change::Delete(..));
    assert!(has(&mirror, "a") && !mirror.told[told..].iter().any(gone));

    fake.undefine("sidecars", GROUP);
    fake.withdraw(BETA);
    mirror
        .until("a kind that goes", |m| !has(m, "a") && !has(m, "b"))
        .await;
    fake.serve(V1);
    fake.put(V1, sidecar("c"));
    fake.define("sidecars", GROUP, &["v1", "v1beta1"]);
    mirror.until("it is back", |m| has(m, "c")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_a_cluster_lacks_are_named() {
    let fake = Fake::new();
    let mut mirror = Mirror::of(fake.client(), Options::default());
    let names = |m: &Mirror| m.absent.contains("Sidecar (networking.istio.io)");
    mirror.until("a kind that is missing", names).await;
    // Every cluster has these.
    assert!(!mirror.absent.contains(" Service ("), "{}", mirror.absent);
    fake.serve(V1);
    fake.define("sidecars", GROUP, &["v1"]);
    mirror
        .until("a kind that comes", |m| !m.absent.is_empty() && !names(m))
        .await;
    fake.undefine("sidecars", GROUP);
    fake.withdraw(V1);
    mirror.until("a kind that goes", names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ingress_of_knative_is_read_when_it_is_defined() {
    const GROUP: &str = "networking.internal.knative.dev";
    const PATH: &str = "/apis/networking.internal.knative.dev/v1alpha1/ingresses";
    let fake = Fake::new();
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror.synced().await;
    let has = |mirror: &Mirror| mirror.get(Kind::KnativeIngress, "ns", "a").is_some();
    fake.define("ingresses", GROUP, &["v1alpha1"]);
    fake.serve(PATH);
    let ingress = json!({
        "kind": "Ingress", "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"rules": [{"hosts": ["a.test"], "http": {"paths": []}}]},
    });
    fake.put(PATH, ingress);
    mirror.until("a kind that comes", has).await;
    fake.undefine("ingresses", GROUP);
    fake.withdraw(PATH);
    mirror
        .until("a kind that goes", |mirror| !has(mirror))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_definitions_kinds_are_found_and_lost_all_the_same() {
    let fake = Fake::new();
    fake.refuse(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        403,
    );
    fake.serve(BETA);
    fake.put(BETA, sidecar("a"));
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror.synced().await;
    assert!(has(&mirror, "a"));
    assert_eq!(mirror.findings.len(), 1, "{:?}", mirror.findings);
    // A path that fails for a moment is not gone: only discovery says so.
    fake.withdraw(BETA);
    tokio::time::sleep(Duration::from_secs(3)).await;
    mirror.take_all();
    assert!(has(&mirror, "a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_kind_delays_no_other_and_is_read_once_it_may_be() {
    let fake = Fake::new();
    fake.serve(PODS);
    fake.put(
        PODS,
        json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}, "spec": {}}),
    );
    fake.refuse(PODS, 403);
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror.synced().await;
    let [found] = &mirror.findings[..] else {
        panic!("{:?}", mirror.findings)
    };
    assert_eq!(found.code, code::UNREAD);
    assert!(found.message.starts_with("pods cannot be read"), "{found}");
    fake.refuse(PODS, 0);
    mirror
        .until("it is allowed", |m| m.get(Kind::Pod, "ns", "a").is_some())
        .await;
    mirror
        .until("nothing is wrong", |m| m.findings.is_empty())
        .await;
    // What was read stays when it is forbidden again.
    fake.refuse(PODS, 403);
    fake.forget(PODS);
    mirror
        .until("forbidden again", |m| !m.findings.is_empty())
        .await;
    assert!(mirror.get(Kind::Pod, "ns", "a").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_may_not_be_read_hold_up_the_start() {
    let fake = Fake::new();
    fake.refuse("/api/v1/services", 403);
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror
        .until("all but services", |m| m.pending.len() == 1)
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    mirror.take_all();
    assert_eq!(mirror.pending.len(), 1);
    fake.refuse("/api/v1/services", 0);
    mirror.synced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_without_streamed_lists_is_asked_in_pages() {
    let fake = Fake::new().without_streams();
    fake.serve(V1);
    fake.put(V1, sidecar("a"));
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror.synced().await;
    assert!(has(&mirror, "a"));
    let asked = fake.asked(V1);
    assert!(asked[0].contains("sendInitialEvents=true"), "{asked:?}");
    assert!(asked[1].contains("limit=500"), "{asked:?}");
}

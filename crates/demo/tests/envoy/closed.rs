//! Policies that cannot be used: what they cover is closed, also by a server that has never seen a valid version.

use demo::check::nothing_refused;
use demo::shop::WORKLOADS;

use crate::backend::{Backend, prompt};
use crate::policy::{answers, findings, policy};
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, all_to};

const SECRET: &str = "action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]";

/// Specs of AuthorizationPolicies that cannot be used.
const POLICIES: &[&str] = &[
    "action: DENYY, rules: [{}]",
    "action: DENY, rules: all",
    "action: DENY, rules: [{form: [{source: {namespaces: [evil]}}]}]",
    "action: DENY, rules: [{from: [{source: {ipBlocks: [10.0.0.0/99]}}]}]",
    "action: DENY, rules: [{when: [{key: source.namspace, values: [a]}]}]",
    "action: CUSTOM, rules: [{}]",
    "action: ALLOW, rules: [{}",
];

/// A RequestAuthentication of the gateway that cannot be used.
const TOKENS: &str = "
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: p, namespace: shop}
spec: {selector: {matchLabels: {istio: ingressgateway}}, jwtRules: all}
";

/// A rule by which the backend should be spoken to over TLS, which cannot be used.
const RULE: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: p, namespace: shop}
spec: {host: blue.shop.svc.cluster.local, trafficPolicy: {tls: {mode: SIMPEL}}}
";

async fn is_reported(rig: &Rig, object: &str) -> bool {
    let found = findings(rig).await;
    let is_so = |f: &serde_json::Value| {
        let origin = f["origin"].as_str().unwrap_or_default();
        f["code"] == "PIL0406" && f["object"] == object && origin.contains("policy.yaml:")
    };
    found.iter().any(is_so)
}

pub(crate) async fn a_policy_that_cannot_be_used_closes_what_it_covers(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    rig.write("policy.yaml", &policy("", POLICIES[0]));
    let mut mesh = rig.gateway().await;
    answers(&rig, "/", &[], 403).await;
    assert!(is_reported(&rig, "AuthorizationPolicy shop/p").await);

    // A valid version stays in force while the server that has seen it runs.
    rig.write("policy.yaml", &policy("", SECRET));
    answers(&rig, "/", &[], 200).await;
    answers(&rig, "/secret", &[], 403).await;
    rig.write("policy.yaml", &policy("", &SECRET.replace("DENY", "DENYY")));
    until("the version before is reported to stay", async || {
        findings(&rig).await.iter().any(|f| f["code"] == "PIL0012")
    })
    .await;
    answers(&rig, "/secret", &[], 403).await;
    answers(&rig, "/", &[], 200).await;
    mesh.kill_control_plane().unwrap();
    mesh.start_control_plane().await.unwrap();
    answers(&rig, "/", &[], 403).await;
    answers(&rig, "/secret", &[], 403).await;
    until("it is reported", async || {
        is_reported(&rig, "AuthorizationPolicy shop/p").await
    })
    .await;

    let without = async || {
        std::fs::remove_file(rig.folder().join("policy.yaml")).unwrap();
        answers(&rig, "/", &[], 200).await;
    };
    for spec in POLICIES {
        without().await;
        rig.write("policy.yaml", &policy("", spec));
        answers(&rig, "/", &[], 403).await;
    }
    without().await;
    rig.write("policy.yaml", TOKENS);
    answers(&rig, "/", &[], 403).await;
    without().await;
    rig.write("policy.yaml", RULE);
    answers(&rig, "/", &[], 503).await;
    without().await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

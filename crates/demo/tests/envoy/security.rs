//! Stock Envoys have no certificates: nobody gives them any. What needs some must not be sent to them.

use demo::check::nothing_refused;
use demo::http::{Client, get};
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;
use demo::{admin, control};
use serde_json::Value;

use crate::dumps::assert_has_what_was_sent;
use crate::policy::findings;
use crate::rig::{Rig, until};

/// A mode for everything in the namespace.
fn mode(mode: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {{name: default, namespace: shop}}\n\
         spec: {{mtls: {{mode: {mode}}}}}\n"
    )
}

pub(crate) async fn a_redirected_sidecar_with_default_settings_refuses_nothing(rig: Rig) {
    rig.example(&["services.yaml", "reviews.yaml"]);
    let mut mesh = rig.mesh().await;
    mesh.start_sidecar(&WORKLOADS[0], &["--interception", "redirect"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    nothing_refused(&mesh).await.unwrap();
    let proxy = &mesh.proxies()[0];
    assert_has_what_was_sent(&mesh, proxy).await;
    let listeners = get(proxy.admin, "/listeners").await.unwrap().text();
    for name in ["virtualInbound", "virtualOutbound", "0.0.0.0_9080"] {
        assert!(
            listeners.contains(name),
            "{name} is missing in\n{listeners}"
        );
    }
    mesh.stop().await;
}

/// Front alone, with the application behind it and the mode in force.
async fn front(rig: &Rig, mtls: &str) -> Mesh {
    rig.example(&["services.yaml", "sidecars.yaml"]);
    rig.write("security.yaml", &mode(mtls));
    let mut mesh = rig.mesh().await;
    mesh.start_application(&WORKLOADS[1]).await.unwrap();
    mesh.start_sidecar(&WORKLOADS[0], &[]).unwrap();
    mesh.start_sidecar(&WORKLOADS[1], &[]).unwrap();
    mesh.wait_for_proxies().await.unwrap();
    nothing_refused(&mesh).await.unwrap();
    mesh
}

pub(crate) async fn permissive_without_certificates_is_plain_text(rig: Rig) {
    let mesh = front(&rig, "PERMISSIVE").await;
    let through_both = Client::new(rig.block.outbound(&WORKLOADS[0]), "details")
        .get("/details/7")
        .await
        .unwrap();
    assert_eq!(through_both.status, 200, "{}", through_both.text());
    assert_eq!(through_both.json().unwrap()["name"], "details-v1");
    for proxy in mesh.proxies() {
        assert_has_what_was_sent(&mesh, proxy).await;
    }
    mesh.stop().await;
}

pub(crate) async fn strict_without_certificates_takes_nothing(rig: Rig) {
    let mesh = front(&rig, "STRICT").await;
    let address = rig.block.proxy(&WORKLOADS[1]);
    // A proxy is ready before its workers listen: until then nobody takes the connection that is to be closed.
    until("connections are taken, and closed", async || {
        let reply = Client::new(address, "details").get("/details/7").await;
        assert!(reply.is_err(), "plain text was taken: {reply:?}");
        let taken = admin::stats(mesh.proxies()[1].admin, "downstream_cx_total").await;
        let taken = taken.unwrap();
        taken
            .iter()
            .any(|(name, n)| name.contains("9080") && *n > 0)
    })
    .await;
    // Nor has the control plane to have read every acknowledgement by then.
    until("every proxy has what it was sent", async || {
        let pages = rig.block.pages();
        let rows = control::syncz(&mut Client::new(pages, pages.to_string())).await;
        rows.unwrap().iter().all(demo::syncz::Row::is_current)
    })
    .await;
    let found = findings(&rig).await;
    let code = |f: &&Value| f["code"] == "PIL0421";
    let strict: Vec<&Value> = found.iter().filter(code).collect();
    assert!(!strict.is_empty(), "{found:?}");
    for finding in strict {
        assert_eq!(finding["object"], "PeerAuthentication shop/default");
        assert_eq!(finding["path"], "spec.mtls.mode");
        let origin = finding["origin"].as_str().unwrap();
        assert!(origin.ends_with("security.yaml:1"), "{origin}");
    }
    mesh.stop().await;
}

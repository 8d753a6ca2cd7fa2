//! Stock Envoys have no certificates: nobody gives them any. What needs some must not be sent to them.

use demo::check::nothing_refused;
use demo::http::{Client, get};
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;
use demo::{admin, control};

use crate::dumps::assert_has_what_was_sent;
use crate::rig::Rig;

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
    let reply = Client::new(address, "details").get("/details/7").await;
    assert!(reply.is_err(), "plain text was taken: {reply:?}");
    let accepted = admin::stats(mesh.proxies()[1].admin, "downstream_cx_total")
        .await
        .unwrap();
    assert!(
        accepted
            .iter()
            .any(|(name, n)| name.contains("9080") && *n > 0),
        "nobody listens: {accepted:?}"
    );
    let rows = control::syncz(&mut Client::new(rig.block.pages(), "pilothouse"))
        .await
        .unwrap();
    assert!(rows.iter().all(demo::syncz::Row::is_current), "{rows:?}");
    mesh.stop().await;
}

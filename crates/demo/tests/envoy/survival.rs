//! Mistakes and crashes.

use std::time::Duration;

use demo::check::nothing_refused;
use demo::http::Client;
use demo::shop::WORKLOADS;
use demo::{admin, control};
use hyper::Method;

use crate::backend::{Backend, prompt};
use crate::dumps::assert_has_what_was_sent;
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, all_to};

pub(crate) async fn a_broken_file_changes_nothing(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let _green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    let mesh = rig.gateway().await;
    assert_eq!(rig.get("/").await.text(), "blue");
    let gateway = &mesh.proxies()[0];
    let updates = async || admin::stats(gateway.admin, "update_success").await.unwrap();
    let before = updates().await;

    let pages = rig.block.pages();
    let findings = async || {
        control::findings(&mut Client::new(pages, pages.to_string()))
            .await
            .unwrap()
    };
    for (broken, said) in [
        (
            all_to("green").replace("http:", "http: [unfinished"),
            "routes.yaml",
        ),
        (
            all_to("green").replace("gateways:", "gatewayz:"),
            "gatewayz",
        ),
    ] {
        rig.write("routes.yaml", &broken);
        until(said, async || {
            findings()
                .await
                .iter()
                .any(|f| f.contains("routes.yaml") && f.contains(said))
        })
        .await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(updates().await, before, "nothing is sent");
        assert_eq!(rig.get("/").await.text(), "blue");
    }
    rig.write("routes.yaml", &all_to("green"));
    until("the repaired file is in force", async || {
        rig.get("/").await.text() == "green"
    })
    .await;
    assert_eq!(findings().await, Vec::<String>::new());
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn traffic_outlives_the_control_plane_and_configuration_catches_up(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let _green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    let mut mesh = rig.gateway().await;
    assert_eq!(rig.get("/").await.text(), "blue");

    mesh.kill_control_plane().unwrap();
    rig.write("routes.yaml", &all_to("green"));
    for _ in 0..50 {
        assert_eq!(
            rig.get("/").await.text(),
            "blue",
            "the last configuration stays in force"
        );
    }
    mesh.start_control_plane().await.unwrap();
    until("what was edited meanwhile is in force", async || {
        rig.get("/").await.text() == "green"
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    assert_has_what_was_sent(&mesh, &mesh.proxies()[0]).await;
    mesh.stop().await;
}

pub(crate) async fn a_new_envoy_is_served_from_disk_and_one_that_comes_back_keeps_what_it_has(
    rig: Rig,
) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let _green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    let state = format!("--state-dir={}", rig.beside("state").display());
    let flags = vec![state, "--state-interval=50ms".to_owned()];
    let mut mesh = rig.mesh_with(flags).await;
    mesh.start_gateway().unwrap();
    mesh.wait_for_proxies().await.unwrap();
    assert_eq!(rig.get("/").await.text(), "blue");
    let pages = rig.block.pages();
    let warm = async || -> serde_json::Value {
        let mut client = Client::new(pages, pages.to_string());
        let page = client.send(Method::GET, "/debug/warm", &[]).await.unwrap();
        serde_json::from_str(&page.text()).unwrap()
    };
    until("what the gateway has is saved", async || {
        // Clusters, assignments, listeners and routes.
        warm().await["lastSave"]["sets"] == 4
    })
    .await;

    // The server is killed before it has saved what it sent last.
    let saved = rig.beside("state").join("served");
    let older = std::fs::read(&saved).unwrap();
    rig.write("routes.yaml", &all_to("green"));
    until("the edit is in force", async || {
        rig.get("/").await.text() == "green"
    })
    .await;
    mesh.kill_control_plane().unwrap();
    std::fs::write(&saved, older).unwrap();
    let away = rig.beside("away");
    std::fs::rename(rig.folder(), &away).unwrap();
    mesh.start_control_plane().await.unwrap();
    until("the gateway is back", async || {
        let rows = control::syncz(&mut Client::new(pages, pages.to_string())).await;
        rows.unwrap()
            .iter()
            .any(|row| row.proxy == mesh.proxies()[0].id())
    })
    .await;
    for _ in 0..20 {
        assert_eq!(rig.get("/").await.text(), "green");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(warm().await["fromDisk"]["proxies"], 0);
    mesh.kill_proxies().unwrap();
    mesh.start_gateway().unwrap();
    until("the new gateway is served from disk", async || {
        warm().await["fromDisk"]["proxies"] == 1
    })
    .await;
    until("it has what was saved", async || {
        let reply = rig.client().get("/").await;
        reply.is_ok_and(|reply| reply.text() == "blue")
    })
    .await;
    nothing_refused(&mesh).await.unwrap();

    std::fs::rename(&away, rig.folder()).unwrap();
    until("the folder is in force", async || {
        rig.get("/").await.text() == "green"
    })
    .await;
    assert_eq!(warm().await["fromDisk"]["proxies"], 0);
    nothing_refused(&mesh).await.unwrap();
    assert_has_what_was_sent(&mesh, &mesh.proxies()[0]).await;
    mesh.stop().await;
}

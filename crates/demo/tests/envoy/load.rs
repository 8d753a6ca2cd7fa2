//! Edits while requests flow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use demo::check::nothing_refused;
use demo::http::Client;
use demo::shop::{HOST, WORKLOADS};
use tokio::task::JoinSet;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, all_to};

/// Connections that ask without a pause.
const CONNECTIONS: usize = 50;
/// Edits while they do.
const EDITS: usize = 10;
/// Between two edits.
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn edits_under_load_lose_no_request(rig: Rig) {
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    let edit = |n: usize| {
        rig.write(
            "routes.yaml",
            &all_to(if n.is_multiple_of(2) { "green" } else { "blue" }),
        )
    };
    under_load(&rig, edit).await;
}

/// The harder case: in one batch, a service comes or goes together with the only route to it. The proxy must have the
/// cluster before the route, and lose the route before the cluster.
pub(crate) async fn a_route_to_a_service_that_comes_and_goes_with_it_loses_no_request(rig: Rig) {
    let (both, _) = SERVICES.split_at(SERVICES.len());
    let only_blue = &both[..both.rfind("---").unwrap()];
    let blue = format!("{only_blue}---\n{}", all_to("blue"));
    let green = format!("{both}---\n{}", all_to("green"));
    rig.write("all.yaml", &blue);
    let edit = |n: usize| rig.write("all.yaml", if n.is_multiple_of(2) { &green } else { &blue });
    under_load(&rig, edit).await;
}

async fn under_load(rig: &Rig, edit: impl Fn(usize)) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let _green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    let mesh = rig.gateway().await;
    until("the gateway answers", async || {
        rig.get("/").await.status == 200
    })
    .await;

    let over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let over = over.clone();
        let mut client = Client::new(rig.block.gateway(), HOST);
        clients.spawn(async move {
            let mut answers = BTreeMap::<String, u32>::new();
            while !over.load(Ordering::Relaxed) {
                let answer = match client.get("/").await {
                    Ok(reply) if reply.status == 200 => reply.text(),
                    Ok(reply) => format!("{} {}", reply.status, reply.text()),
                    Err(error) => format!("{error:#}"),
                };
                *answers.entry(answer).or_default() += 1;
            }
            answers
        });
    }
    tokio::time::sleep(PAUSE).await;
    for n in 0..EDITS {
        edit(n);
        tokio::time::sleep(PAUSE).await;
    }
    over.store(true, Ordering::Relaxed);
    let mut answers = BTreeMap::<String, u32>::new();
    for one in clients.join_all().await {
        one.into_iter()
            .for_each(|(answer, count)| *answers.entry(answer).or_default() += count);
    }
    let kinds: Vec<&str> = answers.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["blue", "green"], "{answers:?}");
    assert_eq!(
        rig.get("/").await.text(),
        "blue",
        "the last edit is in force"
    );
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

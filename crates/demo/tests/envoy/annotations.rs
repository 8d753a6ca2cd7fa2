//! What each annotation does to requests: cases of `tests/annotations`, each an Ingress or several on a host of its own, with the
//! requests that are sent to it and what is expected of them. All of them are served by one server and one Envoy.
//!
//! Every case is served once as it stands, and once more without each of its annotations: there, some request must not come
//! out as expected. So a case that names an annotation shows what it does.

mod backend;
mod case;
mod client;
mod expect;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use annotations::spec::{self, Becomes};
use demo::check::nothing_refused;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::rig::{Rig, until};
use backend::Backends;
use case::{Case, Instance};
use client::Door;

/// How many cases send requests at once.
const AT_ONCE: usize = 24;

/// Annotations that are the same and that no request shows, each with the reason: `NAME | WHY`.
const UNSEEN: &str = include_str!("../annotations/unseen.txt");

/// Annotations that protect something beside those that are the same: a case shows what they do.
const PROTECTING: [&str; 17] = [
    "auth-secret",
    "auth-signin",
    "auth-snippet",
    "auth-tls-match-cn",
    "auth-tls-secret",
    "auth-tls-verify-client",
    "auth-type",
    "auth-url",
    "configuration-snippet",
    "enable-modsecurity",
    "enable-owasp-core-rules",
    "limit-rpm",
    "limit-rps",
    "modsecurity-snippet",
    "proxy-body-size",
    "proxy-ssl-secret",
    "proxy-ssl-verify",
];

#[test]
fn each_annotation_that_means_the_same_has_a_case() {
    let cases = case::all();
    let shown: BTreeSet<&str> = cases.iter().flat_map(Case::shown).collect();
    let known: Vec<&str> = spec::ALL.iter().map(|spec| spec.name).collect();
    // `exact-match-header-*` is shown by any header.
    let is_shown = |name: &str| match name.strip_suffix('*') {
        Some(start) => shown.iter().any(|name| name.starts_with(start)),
        None => shown.contains(name),
    };
    let unseen: BTreeMap<&str, &str> = UNSEEN
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(" | ").expect(line))
        .collect();
    let mut wrong = Vec::new();
    for spec in spec::ALL.iter() {
        let is_same = spec.becomes == Becomes::Same;
        let listed = unseen.contains_key(spec.name);
        match is_shown(spec.name) {
            true if listed => wrong.push(format!("{} has a case, and is listed", spec.name)),
            false if is_same && !listed => wrong.push(format!("{} has no case", spec.name)),
            false if PROTECTING.contains(&spec.name) => {
                wrong.push(format!("{} protects something, and has no case", spec.name));
            }
            _ => {}
        }
    }
    for name in unseen.keys().chain(&PROTECTING) {
        if !known.contains(name) {
            wrong.push(format!("{name} is no annotation"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) async fn each_annotation_does_what_is_said_of_it(mut rig: Rig) {
    let [plain, tls] = rig.serve_ingresses("nginx,higress");
    rig.set("PILOTHOUSE_INGRESS_NGINX_CONFIG_MAP", "shop/nginx");
    let certificates = world::Certificates::make();
    let backends = Backends::start(&rig, &certificates).await;
    let only = std::env::var("ANNOTATION_CASE").ok();
    let mut cases = case::all();
    cases.retain(|case| only.as_ref().is_none_or(|only| case.name.starts_with(only)));
    let instances: Vec<Arc<Instance>> = cases
        .into_iter()
        .flat_map(|case| case.instances())
        .map(Arc::new)
        .collect();
    world::write(&rig, &instances, &certificates);
    let mut mesh = rig
        .mesh_with(vec!["--insecure-test-identities".to_owned()])
        .await;
    mesh.start_gateway_with(&["--token", "sa:shop:gateway"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let door = Arc::new(Door {
        block: rig.block,
        plain,
        tls,
        certificates,
    });
    until("hosts are served over both ports", async || {
        door.is_open().await
    })
    .await;
    nothing_refused(&mesh).await.unwrap();

    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for instance in instances {
        let (turns, door, backends) = (turns.clone(), door.clone(), backends.clone());
        running.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            let limit = Duration::from_secs(60);
            let sent = expect::wrong(&instance, &door, &backends);
            let wrong = tokio::time::timeout(limit, sent).await;
            let wrong = wrong.unwrap_or_else(|_| vec!["it does not end".to_owned()]);
            instance.verdict(&wrong)
        });
    }
    let mut wrong: Vec<String> = Vec::new();
    while let Some(verdict) = running.join_next().await {
        wrong.extend(verdict.unwrap());
    }
    wrong.sort();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

//! The example as a whole.

use demo::check::{self, Findings, nothing_refused};
use demo::routed::{QUESTIONS, ask};

use crate::dumps::assert_has_what_was_sent;
use crate::rig::Rig;

pub(crate) async fn the_shop_is_routed_as_its_yaml_says(rig: Rig) {
    rig.example(&[]);
    let mut mesh = rig.mesh().await;
    mesh.start_shop(&mut |_| {}).await.unwrap();
    nothing_refused(&mesh).await.unwrap();
    for proxy in mesh.proxies() {
        assert_has_what_was_sent(&mesh, proxy).await;
    }
    let mut findings = Findings::default();
    let mut results = Vec::new();
    for question in QUESTIONS {
        results.push(ask(rig.block, *question).await.unwrap());
    }
    check::shop(&results, &mut findings);
    check::canary(&mesh, &mut findings).await.unwrap();
    let routed: String = results.iter().map(ToString::to_string).collect();
    assert!(findings.is_good(), "{routed}{findings:#?}");
    nothing_refused(&mesh).await.unwrap();
    for proxy in mesh.proxies() {
        assert_has_what_was_sent(&mesh, proxy).await;
    }
    mesh.stop().await;
}

//! Values that are matched against the pattern of a definition, very many.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::attack::{Attack, Outcome, Running, Target};
use crate::http1::ask;
use crate::peer::{ATTACKER, connect};
use crate::server::{Api, Setup};

/// M9.
pub(super) const PATTERNS: Attack = Attack {
    setup: Setup {
        api: Api::Local,
        ..Setup::PLAIN
    },
    memory_mib: 384,
    cpu_s: 8.0,
    ..Attack::new(
        "patterns",
        "M9",
        "dry-run writes of 350,000 items, each of which a pattern is for, three at a time",
        run,
    )
};

/// How long `/version` may take meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"bombs.example.com"},"spec":{"group":"example.com","scope":"Cluster",
"names":{"plural":"bombs","singular":"bomb","kind":"Bomb","listKind":"BombList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":
{"spec":{"type":"object","properties":{"items":{"type":"array","items":{"type":"string",
"pattern":"^([a-z0-9]([-a-z0-9]*[a-z0-9])?\\.)*[a-z]{1,63}$"}}}}}}}}]}}"#;

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let json = "Content-Type: application/json";
        let mut socket = connect(target.api, ATTACKER).await?;
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let patience = Duration::from_secs(30);
        let made = ask(
            &mut socket,
            "POST",
            path,
            &[json],
            DEFINITION.as_bytes(),
            patience,
        )
        .await?;
        anyhow::ensure!(
            made.status == 201,
            "the definition is refused: {}",
            made.text
        );
        let items = vec![r#""a""#; target.many(350_000)].join(",");
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Bomb","metadata":{{"name":"b"}},"spec":{{"items":[{items}]}}}}"#
        );
        let body: Arc<str> = body.into();
        let mut slowest = Duration::ZERO;
        let mut under_way = tokio::task::JoinSet::new();
        while target.goes_on() {
            while under_way.len() < 3 {
                let (target, body) = (Arc::clone(&target), Arc::clone(&body));
                outcome.sent += 1;
                under_way.spawn(async move {
                    let mut socket = connect(target.api, ATTACKER).await?;
                    let path = "/apis/example.com/v1/bombs?dryRun=All";
                    ask(
                        &mut socket,
                        "POST",
                        path,
                        &[json],
                        body.as_bytes(),
                        patience,
                    )
                    .await
                });
            }
            target.rest(Duration::from_millis(100)).await;
            let start = Instant::now();
            if let Ok(mut socket) = connect(target.api, ATTACKER).await {
                let _ = ask(&mut socket, "GET", "/version", &[], &[], patience).await;
            }
            slowest = slowest.max(start.elapsed());
            while let Some(done) = under_way.try_join_next() {
                let taken = matches!(done, Ok(Ok(answer)) if answer.status == 201);
                outcome.refused += u64::from(!taken);
            }
        }
        // Those under way are done before anybody else measures.
        while under_way.join_next().await.is_some() {}
        if slowest > PATIENCE {
            outcome.broke(format!("/version took {slowest:.1?}"));
        }
        Ok(outcome)
    })
}

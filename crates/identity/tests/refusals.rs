//! Every way to be wrong that we know of, as a table: each is refused, counted once, and told little.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

#[path = "refusals/certificate.rs"]
mod certificate;
#[path = "refusals/token.rs"]
mod token;
#[path = "refusals/world.rs"]
mod world;

use std::collections::BTreeMap;

use pilothouse_identity::{Code, Evidence, Reason, Refusal};
use serde_json::Value;

use world::World;

/// The cases of the table.
fn cases() -> Vec<Value> {
    let text = include_str!("refusals/cases.yaml");
    let mut documents = model::parse::to_json(text);
    let Value::Array(cases) = documents.pop().unwrap().unwrap() else {
        panic!("the table is no list");
    };
    for case in &cases {
        let known = [
            "case",
            "certificate",
            "token",
            "headers",
            "peer",
            "node",
            "account",
            "pod",
            "before",
            "cluster",
            "accepted",
            "refused",
            "asked",
        ];
        let fields = case.as_object().unwrap().keys();
        let mut unknown = fields.filter(|field| !known.contains(&field.as_str()));
        assert_eq!(unknown.next(), None, "{case}");
        assert_ne!(
            case["accepted"].is_null(),
            case["refused"].is_null(),
            "{case}"
        );
    }
    cases
}

/// What came of a case.
#[derive(Debug)]
enum Outcome {
    Accepted(String),
    Handshake,
    Refused(Refusal),
}

async fn run(world: &World, case: &Value) -> Outcome {
    let shown = match world.shown(case).await {
        Ok(shown) => shown,
        Err(_) => return Outcome::Handshake,
    };
    let evidence = Evidence {
        peer: shown.peer,
        certificates: &shown.certificates,
        headers: &shown.headers,
    };
    let authenticators = world.authenticators(case);
    let caller = match authenticators.authenticate(&evidence).await {
        Ok(caller) => caller,
        Err(refusal) => return Outcome::Refused(refusal),
    };
    match authenticators.authorize(&caller, &world::node(case), shown.peer) {
        Ok(_) => Outcome::Accepted(format!("{:?}", caller.source)),
        Err(refusal) => Outcome::Refused(refusal),
    }
}

/// How a case differs from what the table says.
fn differences(case: &Value, outcome: &Outcome, world: &World) -> Option<String> {
    let text = |field: &str| case[field].as_str().unwrap_or_default();
    let counted = world.counted();
    let right = match outcome {
        Outcome::Accepted(source) => source == text("accepted") && counted.refused.is_empty(),
        Outcome::Handshake => text("refused") == "handshake" && counted.refused.is_empty(),
        Outcome::Refused(refusal) => {
            let code = match refusal.reason {
                Reason::Identity => Code::PermissionDenied,
                Reason::Unavailable => Code::Unavailable,
                _ => Code::Unauthenticated,
            };
            refusal.reason.as_str() == text("refused")
                && refusal.code == code
                && counted.refused == [refusal.reason]
        }
    };
    let asked = case["asked"] == true;
    let right = right && (counted.asked > 0) == asked;
    (!right).then(|| format!("{}: {outcome:?}, asked {}", text("case"), counted.asked))
}

#[tokio::test]
async fn each_way_to_be_wrong_is_refused() {
    let world = World::start().await;
    let (mut wrong, mut reasons) = (Vec::new(), BTreeMap::<String, usize>::new());
    for case in cases() {
        let outcome = run(&world, &case).await;
        if let Outcome::Refused(refusal) = &outcome {
            let said = refusal.to_string();
            let secret = world.last_token();
            let parts = secret.split('.').filter(|part| part.len() > 20);
            assert!(!parts.into_iter().any(|part| said.contains(part)), "{said}");
            assert!(said.len() < 1000, "{said}");
        }
        wrong.extend(differences(&case, &outcome, &world));
        let refused = case["refused"].as_str().unwrap_or("accepted").to_owned();
        *reasons.entry(refused).or_default() += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let refused: usize = reasons.values().sum::<usize>() - reasons["accepted"];
    assert!(refused >= 60, "{refused}");
    for reason in Reason::ALL {
        assert!(
            reasons.contains_key(reason.as_str()),
            "no case of {reason:?}"
        );
    }
}

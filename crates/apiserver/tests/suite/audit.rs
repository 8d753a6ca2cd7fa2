//! What is recorded of requests: one line for each that reaches the store, with what was done in words that have one meaning.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request, Target};
use apiserver::audit::Audit;
use apiserver::store::{Keep, Store};
use http::Method;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::{MAPS, map};

const SEGMENTS: [&str; 27] = [
    "api",
    "apis",
    "v1",
    "namespaces",
    "default",
    "secrets",
    "configmaps",
    "a",
    "b",
    "%61pi",
    "api%2Fv1",
    "system:x",
    "system%3ax",
    ".",
    "..",
    "%2e%2e",
    "",
    "apps",
    "deployments",
    "pilothouse",
    "export",
    "rollback",
    "history",
    "status",
    "finalize",
    "%00",
    "%zz",
];
const WHOLE: [&str; 8] = [
    MAPS,
    "/api/v1/namespaces/default/configmaps/a",
    "//api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/configmaps/./a",
    "/%61pi/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a/",
    "//pilothouse/export",
    "/pilothouse/rollback",
];
const QUERIES: [&str; 9] = [
    "",
    "dryRun=",
    "dryRun=All",
    "dryRun",
    "dryRun=All&dryRun=",
    "watch=true",
    "watch",
    "dry%52un=All",
    "revision=1",
];

async fn api(folder: &Path) -> (Arc<Api>, std::path::PathBuf) {
    let log = folder.join("audit");
    let store = Store::open(&folder.join("data"), Keep::default()).unwrap();
    let audit = Audit::to_file(&log).unwrap();
    let api = Api::start(store, Access::default(), audit, &["default"]).await;
    (api.unwrap(), log)
}

fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn requests() -> impl Strategy<Value = Request> {
    let segments = prop::collection::vec(prop::sample::select(&SEGMENTS[..]), 0..8);
    let path = prop_oneof![
        segments.prop_map(|all| format!("/{}", all.join("/"))),
        prop::sample::select(&WHOLE[..]).prop_map(str::to_owned),
    ];
    let methods = vec![
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
    ];
    let bodies = vec![
        map("a", "1").to_string(),
        map("b", "2").to_string(),
        r#"{"dryRun": ["All"]}"#.to_owned(),
        r#"{"dryRun": [""]}"#.to_owned(),
        String::new(),
    ];
    (
        prop::sample::select(methods),
        path,
        prop::sample::select(&QUERIES[..]),
        prop::sample::select(bodies),
    )
        .prop_map(|(method, path, query, body)| {
            let kind = match method {
                Method::PATCH => crate::MERGE,
                _ => "application/json",
            };
            let uri = format!("{path}?{query}");
            let mut request = Request::new(method, &uri, Who::local()).with_body(kind, body);
            request.from = Some(IpAddr::from([10, 0, 0, 9]));
            request
        })
}

/// Audit property: every request that reaches the store has one line, with the canonical path, the address and whether it
/// was a dry run.
#[test]
fn every_request_that_reaches_the_store_has_one_line_that_says_what_was_done() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (api, log) = runtime.block_on(api(dir.path()));
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&requests(), |request| {
            let (method, path, target) = (
                request.method.clone(),
                request.path.clone(),
                request.target.clone(),
            );
            let known = lines(&log).len();
            let before = api.store().read().revision();
            let status = runtime.block_on(api.handle(request)).status().as_u16();
            let wrote = api.store().read().revision() != before;
            let new = lines(&log).split_off(known);
            let reaches = !matches!(&target, Ok(target) if target.path().is_none());
            prop_assert_eq!(new.len(), usize::from(reaches), "{} {}", method, path);
            prop_assert!(
                !wrote || reaches,
                "{} {} wrote and has no line",
                method,
                path
            );
            if let [line] = &new[..] {
                prop_assert_eq!(&line["code"], status);
                prop_assert_eq!(&line["from"], "10.0.0.9");
                prop_assert!(
                    !(wrote && line["dryRun"] == true),
                    "{} wrote, and is said to be a dry run",
                    line
                );
                if let Ok(target) = &target {
                    let told = line["path"].as_str().unwrap();
                    prop_assert_eq!(&Target::parse(told).unwrap(), target);
                    prop_assert_eq!(target.path().unwrap(), told);
                } else {
                    prop_assert!(status == 400 || status == 404, "{}", status);
                }
            }
            Ok(())
        })
        .unwrap();
    // What the audit found by hand.
    for bad in [
        "//api/v1/namespaces/default/secrets",
        "/%61pi/v1/secrets",
        "//pilothouse/export",
    ] {
        let request = Request::new(Method::GET, bad, Who::local());
        assert_eq!(runtime.block_on(api.handle(request)).status(), 400, "{bad}");
    }
    let uri = format!("{MAPS}?dryRun=");
    let request = Request::new(Method::POST, &uri, Who::local());
    let request = request.with_body("application/json", map("dry", "1").to_string());
    assert_eq!(runtime.block_on(api.handle(request)).status(), 422);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (api, log) = api(dir.path()).await;
    let mut before = api.store().read().revision();
    let mut answered = 0;
    // Asked once, and then given up; a machine that is busy may have written it by then.
    loop {
        let request = Request::new(Method::POST, MAPS, Who::local());
        let object = map(&format!("left-{answered}"), "1").to_string();
        let request = request.with_body("application/json", object);
        let answer = tokio::time::timeout(Duration::ZERO, api.handle(request)).await;
        if answer.is_err() {
            break;
        }
        answered += 1;
        assert!(answered < 100, "a write waits for the disk");
        before = api.store().read().revision();
    }
    let start = std::time::Instant::now();
    while api.store().read().revision() == before {
        assert!(start.elapsed().as_secs() < 60);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lines = lines(&log);
    assert_eq!(lines.len(), answered + 1);
    assert_eq!(
        (&lines[answered]["path"], &lines[answered]["code"]),
        (&MAPS.into(), &Value::Null)
    );
}

/// As the fuzz target `api_target`: what a request means is read once and written in one way.
#[test]
fn a_path_that_is_taken_is_told_in_words_that_mean_the_same() {
    let segments = prop::collection::vec(
        prop_oneof![Just(String::new()), "[a-z%.:/ 2eEfF0-9~é]{1,6}"],
        0..7,
    );
    let path = segments.prop_map(|all| format!("/{}", all.join("/")));
    let known = prop::sample::select(&WHOLE[..]).prop_map(str::to_owned);
    let prefix = prop::sample::select(vec!["", "/api/v1", "/apis/apps/v1", "/pilothouse"]);
    let paths = (prefix, prop_oneof![4 => path, 1 => known])
        .prop_map(|(prefix, path)| format!("{prefix}{path}"));
    let query = prop::sample::select(&QUERIES[..]);
    let taken = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 20_000,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&(paths, query), |(path, query)| {
            let request = Request::new(Method::PUT, &format!("{path}?{query}"), Who::local());
            if let Ok(target) = &request.target
                && let Some(written) = target.path()
            {
                taken.set(taken.get() + 1);
                let again = Target::parse(&written).unwrap();
                prop_assert_eq!(&again, target);
                prop_assert_eq!(again.path().unwrap(), written.clone());
                prop_assert!(
                    !written.contains("//")
                        && !written.contains("/./")
                        && !written.contains("/../")
                );
            }
            let said: Vec<&str> = request.query.all("dryRun").collect();
            match request.dry_run() {
                Ok(dry) => prop_assert!(dry != said.is_empty() && said.iter().all(|v| *v == "All")),
                Err(failure) => prop_assert!(failure.code.is_client_error() && !said.is_empty()),
            }
            Ok(())
        })
        .unwrap();
    assert!(taken.get() > 500, "{} paths were taken", taken.get());
}

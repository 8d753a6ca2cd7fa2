//! The smallest scenarios, from their files to their results.

use std::path::Path;

use serde_json::Value;

use crate::support::pilothouse;

/// What a scenario comes to, and its picture.
fn run(name: &str) -> (Value, String) {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/scenarios");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (picture, results) = (format!("{name}.svg"), format!("{name}.json"));
    let (picture, results) = (folder.join(picture), folder.join(results));
    let run = pilothouse(&["load", "--timeout", "120", "--settle", "300"])
        .arg("--scenario")
        .arg(scenarios.join(format!("{name}.json")))
        .arg("--svg")
        .arg(&picture)
        .arg("--results")
        .arg(&results)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{words}");
    let result = serde_json::from_slice(&std::fs::read(results).unwrap()).unwrap();
    (result, std::fs::read_to_string(picture).unwrap())
}

#[test]
fn an_edited_route_reaches_the_proxies_of_its_gateway_and_its_status() {
    let (result, _) = run("gateway-api-small");
    let step = &result["steps"][0];
    assert_eq!(
        (&step["missed"], &step["astray"]),
        (&0.into(), &0.into()),
        "{step}"
    );
    // Four edits, each for two of eight proxies.
    assert_eq!(step["responses"], 4 * 2, "{step}");
    assert!(step["status"]["p50_ms"].as_f64().unwrap() > 0.0, "{step}");
}

#[test]
fn the_small_scenario_reaches_every_proxy_in_every_step() {
    let (result, picture) = run("small");
    let steps = result["steps"].as_array().unwrap();
    let labels: Vec<&str> = steps.iter().map(|s| s["label"].as_str().unwrap()).collect();
    assert_eq!(
        labels,
        [
            "endpoint change",
            "rule change",
            "service added or removed",
            "churn",
            "reconnect",
            "restart",
            "idle"
        ]
    );
    for step in &steps[..3] {
        assert_eq!(step["missed"], 0, "{step}");
        assert!(step["responses"].as_u64().unwrap() >= 2 * 22, "{step}");
    }
    let bytes = steps[4]["bytes"].as_u64().unwrap();
    let proxies = result["scenario"]["proxies"].as_u64().unwrap();
    // A configuration takes 50 kB here; only those that did not read or refused lack something.
    assert!(
        bytes < 1_500 * proxies,
        "who has everything is sent next to nothing: {bytes} bytes"
    );
    assert!(steps[5]["ready_ms"].as_f64().unwrap() > 0.0);
    let again = steps[5]["bytes"].as_u64().unwrap();
    assert!(
        again < 1_500 * proxies,
        "nor after a restart: {again} bytes"
    );
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
}

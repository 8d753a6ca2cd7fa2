//! What the dashboard and the alerts of `deploy/monitoring` ask for is on `/metrics`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Running, Server, pilothouse, until};

/// Words of PromQL that are no metrics and have no parenthesis behind them.
const WORDS: [&str; 4] = ["and", "or", "unless", "bool"];
/// Words of PromQL with labels in parentheses behind them.
const BEFORE_LABELS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// The metrics that an expression names.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '{' || first == '[' || first == '"' {
            let closing = match first {
                '{' => '}',
                '[' => ']',
                other => other,
            };
            let end = rest[1..].find(closing).expect("it is closed");
            rest = &rest[end + 2..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
            let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
            rest = behind.trim_start();
            if BEFORE_LABELS.contains(&word) {
                rest = rest.split_once(')').expect("labels follow").1;
            } else if !is_called(rest) && !WORDS.contains(&word) {
                found.insert(word.to_owned());
            }
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            rest = &rest[end.unwrap_or(rest.len())..];
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// Whether what follows a word says that it is a function: its arguments, or by which labels an aggregation groups.
fn is_called(rest: &str) -> bool {
    let grouped = ["by", "without"]
        .into_iter()
        .filter_map(|word| rest.strip_prefix(word));
    let mut behind = std::iter::once(rest).chain(grouped);
    behind.any(|rest| rest.trim_start().starts_with('('))
}

/// Every expression of a dashboard.
fn of_dashboard(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| of_dashboard(value, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" => found.push(text.to_owned()),
                    _ => of_dashboard(value, found),
                }
            }
        }
        _ => {}
    }
}

fn read(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Every expression of the dashboard and the alerts.
fn expressions() -> Vec<String> {
    let mut all = Vec::new();
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    of_dashboard(&dashboard, &mut all);
    assert!(all.len() > 40, "{}", all.len());
    let alerts = read("alerts.yaml");
    let lines = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let of_alerts: Vec<String> = lines.map(str::to_owned).collect();
    let rules = alerts.matches("- alert: ").count();
    assert_eq!(of_alerts.len(), rules, "an expression is one line");
    all.extend(of_alerts);
    all
}

#[test]
fn metrics_are_told_from_the_rest_of_an_expression() {
    let named = |expression: &str| metrics(expression).into_iter().collect::<Vec<_>>();
    let quantile =
        r#"histogram_quantile(0.99, sum by (le, type) (rate(a_bucket{job=~"$job"}[5m]))) > 5"#;
    assert_eq!(named(quantile), ["a_bucket"]);
    assert_eq!(named("a / b > 0.8 and on (instance) c"), ["a", "b", "c"]);
    assert_eq!(named(r#"max(d{l="x y"} != 0) < 30 * 86400"#), ["d"]);
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_exported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let config = ["--config-dir", folder.to_str().unwrap()];
    let server = Server::start(&[&config[..], &["--state-dir", "off"]].concat()).ready();
    let xds = server.xds.to_string();
    let of = ["load", "--server", &xds, "-n", "1", "--watch", "600"];
    let mut proxy = pilothouse(&[&of[..], &["--namespace", "shop"]].concat());
    let _proxy = Running(proxy.stdout(Stdio::null()).spawn().unwrap());
    until("a proxy is counted", || {
        let page = server.get("/metrics").unwrap_or_default();
        page.lines().any(|line| line.starts_with("pilot_xds{"))
    });
    let page = server.get("/metrics").unwrap();
    let families = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let exported: BTreeSet<String> = families
        .flat_map(|family| match family.split_once(' ') {
            Some((name, "histogram")) => ["_bucket", "_sum", "_count"]
                .map(|part| format!("{name}{part}"))
                .to_vec(),
            Some((name, _)) => vec![name.to_owned()],
            None => Vec::new(),
        })
        .collect();
    for expression in expressions() {
        for metric in metrics(&expression) {
            assert!(exported.contains(&metric), "{metric} of {expression}");
        }
    }
}
